"""The registry of systems."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gridtune.core.system import SYSTEMS, System, get_system, register_system
from gridtune.errors import SweepError


def test_bundled_systems_are_known_before_they_are_imported() -> None:
    code = (
        "import sys\nfrom gridtune.core.system import SYSTEMS\n"
        "print(*SYSTEMS.names(), 'gridtune.systems.batch.system' in sys.modules, 'numba' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert {"batch", "responsive", "shutdown"} <= set(output.split())
    assert output.split()[-2:] == ["False", "False"]


def test_a_bundled_system_is_a_system() -> None:
    for name in SYSTEMS.names():
        system = get_system(name)
        assert isinstance(system, System)
        assert system.name == name
        for metric in system.metrics.values():
            assert metric.direction in {"min", "max", "none"}
            assert metric.unit
            assert metric.formula
            # Help and tables show some of a system's metrics, so none leans on the one before it.
            for word in ("the same, ", "the same with", "the same /", "those jobs", "among them"):
                assert word not in metric.formula, f"{name}: {metric.formula}"


def test_a_misspelt_name_is_guessed() -> None:
    with pytest.raises(SweepError, match="did you mean 'batch'"):
        get_system("bach")


def test_no_name_is_taken_twice() -> None:
    with pytest.raises(SweepError, match="registered already"):
        register_system(type("Usurper", (type(get_system("batch")),), {"__module__": "elsewhere"})())


def test_every_parameter_is_described() -> None:
    # Other tests register systems of their own.
    shipped = [name for name in SYSTEMS.names() if type(get_system(name)).__module__.startswith("gridtune.")]
    assert {"batch", "shutdown"} <= set(shipped)
    for name in shipped:
        for key, field in get_system(name).Parameters.model_fields.items():
            assert field.description, f"{name}.{key}"
