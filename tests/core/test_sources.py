"""What a source imports, in every form that Python has."""

from __future__ import annotations

import pytest

from gridtune.core.sources import Source, digest_of, import_closure


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import a", {"a"}),
        ("import a.b as c, d  # e", {"a.b", "d"}),
        ("import a; import b;from c import d", {"a", "b", "c", "c.d"}),
        ("from a import b", {"a", "a.b"}),
        ("from a import b as c, d  # e", {"a", "a.b", "a.d"}),
        ("from a import (  # why\n    b,\n    c,\n)", {"a", "a.b", "a.c"}),
        ("from a import b, \\\n    c", {"a", "a.b", "a.c"}),
        ("from . import b", {"p.q", "p.q.b"}),
        ("from .a import b", {"p.q.a", "p.q.a.b"}),
        ("from .. import b", {"p", "p.b"}),
        ("from ..a.b import c", {"p.a.b", "p.a.b.c"}),
        ("from a import *", {"a"}),
        ("important = 1\nfrom_here = 2", set()),
    ],
)
def test_imports_of_a_module_in_a_package(line: str, found: set[str]) -> None:
    for late in (False, True):
        assert found <= set(Source(line, "", "p.q").imports(late=late)) <= {*found, "a.as", "a.c"}


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    import a",
        "def f(): import a",
        "try: import a\nexcept ImportError: pass",
        "if x:\n\tfrom a import b",
        "import importlib\nm = importlib.import_module('a')",
    ],
)
def test_late_imports_count_for_ids_and_not_for_kernels(text: str) -> None:
    assert "a" in Source(text, "", "").imports(late=True)
    assert "a" not in Source(text, "", "").imports(late=False)


def test_a_file_in_no_package_imports_what_is_beside_it() -> None:
    assert set(Source("from . import b\nfrom .c import d", "", "").imports(late=False)) == {"b", "c", "c.d"}


def test_a_closure_follows_imports_round_a_circle() -> None:
    texts = {"a": "import b.c", "b": "", "b.c": "import a", "d": ""}
    sources = {name: Source(text, name, "") for name, text in texts.items()}
    assert set(import_closure(["a"], sources.get, late=True, parents=True)) == {"a", "b", "b.c"}
    assert set(import_closure(["a"], sources.get, late=True)) == {"a", "b.c"}
    assert digest_of({"a": sources["a"], "b": sources["b"]}) != digest_of(
        {"a": sources["b"], "b": sources["a"]}
    )
