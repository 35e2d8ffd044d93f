"""A publication's experiments run again: our numbers beside the published ones, and a verdict per claim."""

from gridtune.report.reproduction.page import REPRODUCTION_PAGE, DrawnFigure, write_reproduction_page
from gridtune.report.reproduction.results import Reproduced, TableNumbers, TraceUse, read_reproduced
from gridtune.report.reproduction.verdicts import JudgedClaim, Judgement, judge

__all__ = [
    "REPRODUCTION_PAGE",
    "DrawnFigure",
    "JudgedClaim",
    "Judgement",
    "Reproduced",
    "TableNumbers",
    "TraceUse",
    "judge",
    "read_reproduced",
    "write_reproduction_page",
]
