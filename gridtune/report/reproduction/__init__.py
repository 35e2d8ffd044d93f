"""A publication's experiments run again: our numbers beside the published ones, and a verdict per claim."""

from gridtune.report.reproduction.page import REPRODUCTION_PAGE, DrawnFigure, write_reproduction_page
from gridtune.report.reproduction.results import Reproduced, TableNumbers, TraceUse, read_reproduced
from gridtune.report.reproduction.verdicts import ClaimVerdict, Outcome, judge

__all__ = [
    "REPRODUCTION_PAGE",
    "ClaimVerdict",
    "DrawnFigure",
    "Outcome",
    "Reproduced",
    "TableNumbers",
    "TraceUse",
    "judge",
    "read_reproduced",
    "write_reproduction_page",
]
