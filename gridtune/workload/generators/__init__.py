"""Synthetic workloads from seeded, published models.

>>> from gridtune.workload.generators import generate_workload, generator_names
>>> generator_names()
('lublin', 'poisson', 'sessions')
>>> generate_workload("lublin", jobs=1000, seed=1, processors=256, load=0.85)
Workload('lublin-256', 1,000 jobs, 256 processors)
"""

from __future__ import annotations

from gridtune.workload.generators.registry import (
    GENERATORS,
    WorkloadGenerator,
    generate_workload,
    generator,
    generator_names,
    parse_parameters,
)

__all__ = [
    "GENERATORS",
    "WorkloadGenerator",
    "generate_workload",
    "generator",
    "generator_names",
    "parse_parameters",
]
