"""Compare scheduling policies on a workload, with confidence intervals.

Importing gridtune is cheap: names are loaded when they are first used, and neither Ray, torch nor MLflow
is imported before a sweep needs them.
"""

from __future__ import annotations

import importlib
from typing import Any

from gridtune.gymnasium_registration import register_environments as _register_environments

__version__ = "0.2.0"

#: Public names and the modules they live in; `__all__`, `__getattr__` and the docs come from this table.
_PUBLIC = {
    "Advice": "gridtune.study.advising",
    "CellRun": "gridtune.sweep.execution.runner",
    "Choice": "gridtune.study.choosing",
    "Comparison": "gridtune.report.rankings.comparison",
    "Fit": "gridtune.study.fitting",
    "GridtuneError": "gridtune.errors",
    "Metric": "gridtune.batch.metrics",
    "Outcome": "gridtune.core.system",
    "Policy": "gridtune.batch.policies",
    "Prediction": "gridtune.batch.predictors",
    "Predictor": "gridtune.batch.predictors",
    "Schedule": "gridtune.core.schedules.schedule",
    "SearchSpace": "gridtune.sweep.space.schema",
    "Study": "gridtune.study",
    "System": "gridtune.core.system",
    "SystemParameters": "gridtune.core.system",
    "Waits": "gridtune.study.advice",
    "WhatIf": "gridtune.study.advice",
    "Workload": "gridtune.workload.workload",
    "advise": "gridtune.study.advising",
    "choose": "gridtune.study.choosing",
    "clean": "gridtune.workload.cleaning",
    "evaluate": "gridtune.batch.metrics",
    "fit": "gridtune.study.fitting",
    "generate_workload": "gridtune.workload.generators",
    "load_space": "gridtune.sweep.space.plan",
    "metric": "gridtune.batch.metrics",
    "predictor": "gridtune.batch.predictors",
    "queue_order": "gridtune.batch.policies",
    "read_workload": "gridtune.workload",
    "report_study": "gridtune.study",
    "run_cell": "gridtune.sweep.execution.runner",
    "register_system": "gridtune.core.system",
    "shaken_metrics": "gridtune.batch.shaking",
    "simulate": "gridtune.batch.replay",
    "run_sweep": "gridtune.study",
    "validate_schedule": "gridtune.core.schedules.schedule",
    "waits": "gridtune.study.advice",
    "verify": "gridtune.study.advice",
    "whatif": "gridtune.study.advice",
    "write_workload": "gridtune.workload",
}

#: Public modules that are imported when they are first used: this one imports Ray.
_MODULES = ("tune",)

__all__ = ["__version__", *sorted([*_PUBLIC, *_MODULES])]  # noqa: PLE0604  (all are strings)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"gridtune.{name}")
    if name not in _PUBLIC:
        from gridtune.registry import removed_hint  # noqa: PLC0415

        instead = removed_hint("name", name)
        ending = "" if instead is None else f": it was removed; {instead}"
        raise AttributeError(f"module 'gridtune' has no attribute {name!r}{ending}")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)


_register_environments()
