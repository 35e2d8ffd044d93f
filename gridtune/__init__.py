"""Compare scheduling policies on a workload, with confidence intervals.

Importing gridtune is cheap: names are loaded when they are first used, and neither Ray, torch nor MLflow
is imported before a sweep needs them.
"""

from __future__ import annotations

import importlib
from typing import Any

from gridtune.gymnasium_registration import register_environments as _register_environments

__version__ = "0.2.0"

#: Public names by the modules they live in.
_NAMES = {
    "batch.metrics": ("Metric", "evaluate", "metric"),
    "batch.policies": ("Decision", "Policy", "queue_order"),
    "batch.predictors": ("Prediction", "Predictor", "predictor"),
    "batch.replay": ("simulate",),
    "core.schedules.schedule": ("Schedule", "validate_schedule"),
    "core.system": ("Outcome", "System", "SystemParameters", "register_system"),
    "errors": ("GridtuneError",),
    "report.rankings.comparison": ("Comparison",),
    "study": ("Study", "report_study", "run_sweep"),
    "study.advice": ("Waits", "WhatIf", "waits", "whatif"),
    "study.advising": ("Advice", "advise", "verify"),
    "study.choosing": ("Choice", "choose"),
    "study.fitting": ("Fit", "fit"),
    "sweep.execution.runner": ("CellRun", "run_cell"),
    "sweep.space.plan": ("load_space",),
    "sweep.space.schema": ("SearchSpace",),
    "workload": ("read_workload", "write_workload"),
    "workload.cleaning": ("clean",),
    "workload.generators": ("generate_workload",),
    "workload.workload": ("Workload",),
}
#: Public names and their modules; `__all__`, `__getattr__` and the docs come from this table.
_PUBLIC = {name: f"gridtune.{module}" for module, names in _NAMES.items() for name in names}

#: Public modules that are imported when they are first used: this one imports Ray.
_MODULES = ("tune",)

__all__ = ["__version__", *sorted([*_PUBLIC, *_MODULES])]  # noqa: PLE0604  (all are strings)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"gridtune.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'gridtune' has no attribute {name!r}")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)


_register_environments()
