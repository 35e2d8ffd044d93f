"""A publication's experiments run again: our numbers beside the published ones, and a verdict per claim."""

from gridtune.report.reproduction.figures import draw_figures
from gridtune.report.reproduction.page import REPRODUCTION_PAGE, write_reproduction_page
from gridtune.report.reproduction.verdicts import (
    VERDICTS_FILE,
    Reproduced,
    TableNumbers,
    TraceUse,
    judge,
    read_reproduced,
)

__all__ = [
    "REPRODUCTION_PAGE",
    "VERDICTS_FILE",
    "Reproduced",
    "TableNumbers",
    "TraceUse",
    "draw_figures",
    "judge",
    "read_reproduced",
    "write_reproduction_page",
]
