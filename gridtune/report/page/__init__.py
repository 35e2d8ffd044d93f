"""The report of a sweep as one HTML page that needs nothing else to be viewed."""

from gridtune.report.page.content import trial_order
from gridtune.report.page.page import PAGE_FILE, write_page

__all__ = ["PAGE_FILE", "trial_order", "write_page"]
