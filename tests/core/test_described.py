"""Texts of parameters beside the modules that declare them."""

import importlib
import tomllib
from pathlib import Path

import pytest

import gridtune
from gridtune.core.system import SystemParameters

PACKAGE = Path(gridtune.__file__).parent
FILES = [
    path
    for path in sorted(PACKAGE.glob("**/*.toml"))
    if path.with_suffix(".py").exists() and "parameters" in tomllib.loads(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_each_text_is_of_a_parameter(path):
    module = importlib.import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
    classes = [
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, SystemParameters) and one.__module__ == module.__name__
    ]
    texts = tomllib.loads(path.read_text(encoding="utf-8"))
    for name, text in texts["parameters"].items():
        (owner,) = [one for one in classes if name in one.__annotations__]
        field = owner.model_fields[name]
        assert {kind: getattr(field, kind) for kind in text} == text
    for names in texts.get("groups", {}).values():
        assert set(names) <= classes[-1].model_fields.keys()
