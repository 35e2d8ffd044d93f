"""Every public name exists, once, with words that say what it is."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
from pathlib import Path

import pytest

import gridtune
from tests.extras import can_be_imported


@pytest.mark.parametrize("name", sorted(set(gridtune.__all__) - {"__version__"}))
def test_public_names_resolve_and_are_described(name: str) -> None:
    value = getattr(gridtune, name)
    assert (inspect.getdoc(value) or "").strip(), f"gridtune.{name} has no docstring"
    assert name in dir(gridtune)


def test_public_names_are_listed_once() -> None:
    assert len(set(gridtune.__all__)) == len(gridtune.__all__)


def test_only_public_names_are_shown() -> None:
    assert dir(gridtune) == sorted(gridtune.__all__)
    for name in ("choose", "fit", "waits", "whatif"):
        function = getattr(gridtune, name)
        sections = inspect.getdoc(function) or ""
        assert all(f"\n{head}\n---" in sections for head in ("Parameters", "Returns", "Raises", "Examples"))
        result = getattr(gridtune, function.__annotations__["return"])
        assert hasattr(result, "_repr_html_")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        gridtune.no_such_name  # noqa: B018


def test_what_modules_promise_is_there() -> None:
    faults = []
    for found in pkgutil.walk_packages(gridtune.__path__, "gridtune."):
        spec = importlib.util.find_spec(found.name)
        if spec is None or spec.origin is None or not can_be_imported(Path(spec.origin)):
            continue
        module = importlib.import_module(found.name)
        promised = getattr(module, "__all__", [])
        if len(set(promised)) < len(promised):
            faults.append(f"{found.name}.__all__ names something twice")
        faults += [f"{found.name}.{name}" for name in promised if not hasattr(module, name)]
    assert not faults, f"in __all__ and not in the module: {faults}"
