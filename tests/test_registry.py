"""`Registry`: names from what is imported and from what installed packages announce."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from gridtune import registry
from gridtune.batch.metrics import METRICS
from gridtune.errors import PolicyError
from gridtune.registry import Registry, name_hint, nearest_name

MODULE = "announced_colours"


@pytest.fixture
def announce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Registry[str]]]:
    """Write a module, announce names of it, and return a registry of them."""

    def make(source: str, *points: tuple[str, str], **options: Any) -> Registry[str]:
        (tmp_path / f"{MODULE}.py").write_text(source)
        # What is installed is read once for a process: here anew, and each test has its own group.
        monkeypatch.setattr(registry, "_installed", entry_points)
        group = f"test.colours.{tmp_path.name}"
        information = tmp_path / "colours-1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: colours\nVersion: 1.0\n")
        lines = [f"[{group}]", *(f"{name} = {value}" for name, value in points)]
        (information / "entry_points.txt").write_text("\n".join(lines))
        return Registry("colour", group, PolicyError, **{"convert": str, **options})

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_REGISTRIES", [*registry.all_registries()])
    yield make
    sys.modules.pop(MODULE, None)


def test_what_is_announced_is_imported_when_it_is_asked_for(announce) -> None:
    colours = announce("RED = 'ff0000'", ("red", f"{MODULE}:RED"))
    assert colours.names() == ["red"]
    assert "red" in colours
    assert MODULE not in sys.modules
    assert colours["red"] == "ff0000"
    assert MODULE in sys.modules


def colour_of(module: str) -> type:
    """Return a class that is defined in this module."""
    return type("Colour", (), {"__module__": module})


def here() -> None:
    """Define a colour."""


def elsewhere() -> None:
    """Define another."""


def test_the_same_place_may_register_again_and_another_may_not(announce) -> None:
    code = {"1": here, "2": here, "3": elsewhere, "4": colour_of("types")}
    colours = announce("", code=code.get)
    changes = Registry.changes
    colours.register("blue", "1")
    colours.register("blue", "2")
    assert Registry.changes == changes + 2
    assert colours["blue"] == "2"
    with pytest.raises(PolicyError, match="registered already") as refused:
        colours.register("blue", "3")
    assert __file__ in refused.value.message
    with pytest.raises(PolicyError, match="registered already") as refused:
        colours.register("blue", "4")
    assert __file__ in refused.value.message
    assert str(refused.value.path).endswith("types.py")
    assert colours["blue"] == "2"


def test_a_name_is_never_overwritten(announce) -> None:
    code = {"0000ff": here, "000000": elsewhere, "ff0000": colour_of(MODULE)}
    colours = announce("RED = 'ff0000'", ("red", f"{MODULE}:RED"), code=code.get)
    colours.register("blue", "0000ff")
    for name in ("blue", "red"):
        with pytest.raises(PolicyError, match=f"colour named '{name}' is registered already"):
            colours.register(name, "000000")
    colours.register("red", "ff0000")
    assert dict(colours) == {"blue": "0000ff", "red": "ff0000"}


def test_of_two_packages_with_the_same_name_neither_wins(announce) -> None:
    points = (("red", f"{MODULE}:RED"), ("red", f"{MODULE}:ROSE"), ("blue", f"{MODULE}:BLUE"))
    colours = announce("RED, ROSE, BLUE = 'abc'", *points)
    with pytest.raises(PolicyError, match="two installed packages announce a colour 'red'"):
        colours.find("red")
    assert colours.find("blue") == "c"


def test_a_package_that_cannot_be_imported_says_which(announce) -> None:
    colours = announce("import no_such_module", ("red", f"{MODULE}:RED"))
    with pytest.raises(PolicyError, match="'red' of colours cannot be imported: ModuleNotFoundError"):
        colours.find("red")


def test_an_entry_point_that_registers_nothing_is_refused(announce) -> None:
    colours = announce("RED = 1", ("red", f"{MODULE}:RED"), convert=None)
    with pytest.raises(PolicyError, match="registers no colour named 'red'"):
        colours.find("red")


def test_an_unknown_name_is_guessed(announce) -> None:
    colours = announce("", ("red", MODULE), ("green", MODULE))
    with pytest.raises(PolicyError, match="no colour is named 'gren'") as refused:
        colours.find("gren")
    assert refused.value.hint == "did you mean 'green'?"
    assert name_hint("crimson", ["red"], {"crimson": "red"}) == "it is called red now"
    assert name_hint("zzz", ["red", "blue"]) == "one of red, blue"
    numbers = [f"n{number}" for number in range(70)]
    assert name_hint("zzz", numbers).endswith("n22, n23 and 46 more")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("bounded_slowdwn", "bounded_slowdown_mean"),
        ("wait_men", "wait_mean"),
    ],
)
def test_of_names_that_are_as_near_the_first_is_proposed(word: str, meant: str) -> None:
    assert nearest_name(word, METRICS) == meant
