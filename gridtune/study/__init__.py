"""A study: a sweep, its rankings and its report, tracked.

This is what `gridtune sweep`, `gridtune report` and the scripts call. The journal in the study's folder is
the truth; tables, figures and tracking derive from it and can be made again at any time (`report_study`).
"""

from gridtune.study.report import report_study
from gridtune.study.run import run_sweep
from gridtune.study.study import Study

__all__ = ["Study", "report_study", "run_sweep"]
