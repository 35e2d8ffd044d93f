"""Registries: things found by name, whether they come with gridtune or from somebody else's package.

A registry is filled in two ways. Code that has been imported registers what it defines. A package that is
installed announces what it has by entry points (`[project.entry-points."gridtune.systems"]` in its
`pyproject.toml`), and is imported only when one of those names is asked for.

A name belongs to the file that registers it. The same file may register it again, as an edited plug-in or a
cell of a notebook does; another file may not.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from gridtune.errors import GridtuneError, UnknownNameError

T = TypeVar("T")

#: Names that are alike among that the first is proposed.
_ALIKE = 8
#: Letters of an abbreviation at most.
_SHORT = 5
#: Names that a hint lists.
_LISTED = 24


#: The entry points of all that is installed: reading them anew for each group takes longer than a replay.
_installed = cache(entry_points)


@cache
def _announced(group: str) -> tuple[EntryPoint, ...]:
    """Return what is announced; an editable installation of gridtune may still announce what is gone."""
    points = []
    for point in _installed().select(group=group):
        place = Path(__file__).parents[1].joinpath(*point.module.split("."))
        if not is_ours(point.module) or place.with_suffix(".py").is_file() or place.is_dir():
            points.append(point)
    return tuple(points)


def nearest_name(word: str, names: Iterable[str]) -> str | None:
    """Return the name that was probably meant by a misspelt one, or None."""
    candidates = list(names)
    # Two letters that changed places are the likeliest slip; difflib counts them as two.
    swapped = [name for name in candidates if sorted(name) == sorted(word)]
    begun = [name for name in candidates if name.startswith(f"{word}_")]
    alike = partial(difflib.get_close_matches, word, candidates, n=_ALIKE)
    near = swapped or begun or alike(cutoff=0.75)
    # A short word may be an abbreviation: "bsld" of "bounded_slowdown_mean".
    if not near and len(word) <= _SHORT:
        letters = re.compile(".*".join(map(re.escape, word)))
        near = [name for name in candidates if letters.match(name)]
    near = near or alike(cutoff=0.5)
    if not near:
        return None
    if word.count("_") >= near[0].count("_"):
        return near[0]
    # The word lacks an end. Of names that differ in it alone, the first: the mean before a quantile.
    stem = near[0].rpartition("_")[0]
    family = [name for name in candidates if stem and name.rpartition("_")[0] == stem and name in near]
    return family[0] if family else near[0]


class NamedValues(dict[str, T]):
    """Values by name, in which a name that there is not is an error that proposes the right one."""

    def __missing__(self, name: str) -> T:
        """Raise an `UnknownNameError`, which is a `KeyError`."""
        raise UnknownNameError(f"there is no {name!r}", hint=name_hint(str(name), self))


def name_hint(word: str, names: Iterable[str], renamed: Mapping[str, str] | None = None) -> str:
    """Return a hint for an unknown name: its name now, the one that was probably meant, or all names.

    Parameters
    ----------
    word
        The unknown name.
    names
        The names there are.
    renamed
        Old names to the names now.
    """
    if renamed and word in renamed:
        return f"it is called {renamed[word]} now"
    names = list(names)
    near = nearest_name(word, names)
    if near is not None:
        return f"did you mean {near!r}?"
    if not names:
        return "nothing can be given here"
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"one of {', '.join(names[:_LISTED])}{more}"


def is_ours(module: str) -> bool:
    """Return whether a module is one of gridtune's own."""
    return module.partition(".")[0] == __name__.partition(".")[0]


@dataclass(frozen=True)
class Definition:
    """The function or class that defines something registered.

    Attributes
    ----------
    code
        The function or class.
    """

    code: Any

    @property
    def module(self) -> str:
        """The name of its module."""
        return str(getattr(self.code, "__module__", None) or "")

    @property
    def ours(self) -> bool:
        """True if it is gridtune's own."""
        return is_ours(self.module)

    @property
    def file(self) -> Path | None:
        """Its module's file; None at a prompt and in a notebook."""
        file = getattr(sys.modules.get(self.module), "__file__", None)
        return None if file is None else Path(file)

    def takes_over(self, other: Definition) -> bool:
        """Return whether this is `other` again: the same file or notebook, loaded or run once more."""
        if other.ours or self.file != other.file:
            return False
        if self.file is None and self.module != "__main__":
            return False
        again = self.module != other.module or self.file is None
        return again or self._name == other._name

    @property
    def _name(self) -> str | None:
        return getattr(self.code, "__qualname__", None)


#: Every registry there is.
_REGISTRIES: list[Registry[Any]] = []


def registered_state() -> tuple[int, int]:
    """Return numbers that change when anything is registered, imported or removed."""
    return Registry.changes, sum(len(registry.imported) for registry in _REGISTRIES)


def all_registries() -> tuple[Registry[Any], ...]:
    """Return every registry whose module has been imported."""
    return tuple(_REGISTRIES)


class Registry(Mapping[str, T], Generic[T]):
    """Things of one kind by name.

    As a mapping it holds everything there is: iterating over it imports all that is announced.

    Parameters
    ----------
    kind
        The word for one of them in messages: "system", "queue order".
    group
        The entry points' group, such as "gridtune.systems".
    error
        The exception for an unknown name or one that is taken.
    convert
        Turns what an entry point loads into the thing to register, where loading alone does not register it.
    code
        Returns the function or class that defines a thing; by default the thing itself.
    own
        Gridtune's own by name, as entry points have it (`module:object`): imported when asked for.
    """

    #: How often anything has been registered or removed, in any registry.
    changes = 0

    def __init__(
        self,
        kind: str,
        group: str,
        error: type[GridtuneError] = GridtuneError,
        *,
        convert: Callable[[Any], T] | None = None,
        code: Callable[[T], Any] | None = None,
        own: Mapping[str, str] | None = None,
    ) -> None:
        self.kind, self.group = kind, group
        self._own = [EntryPoint(name, place, group) for name, place in (own or {}).items()]
        self._error, self._convert, self._code = error, convert, code
        self._items: dict[str, T] = {}
        _REGISTRIES.append(self)

    @cached_property
    def entry_points(self) -> dict[str, EntryPoint]:
        """The entry points of installed packages, gridtune among them, by name."""
        # Sorted: the order of what is installed differs between machines.
        points = sorted(_announced(self.group), key=lambda point: (point.name, point.value))
        return {point.name: point for point in (*self._own, *points)}

    def register(self, name: str, item: T) -> None:
        """Add something under its name.

        An item that the same file or notebook has registered under this name is replaced.

        Raises
        ------
        GridtuneError
            If the name is taken, by another file or by an installed package; the message names both.
        """
        new = self._definition(item)
        announced = self.entry_points.get(name)
        if announced is not None and announced.module != new.module and name not in self._items:
            raise self._taken(name, new, f"by the installed package of {announced.value}")
        if name in self._items:
            old = self.definition(name)
            if not new.takes_over(old):
                place = "by gridtune itself" if old.ours else f"in {old.file or 'this session'}"
                raise self._taken(name, new, place)
        self.put(name, item)

    def _taken(self, name: str, new: Definition, place: str) -> GridtuneError:
        return self._error(
            f"a {self.kind} named {name!r} is registered already {place}",
            path=new.file,
            field=name,
            hint="give one of the two another name",
        )

    def put(self, name: str, item: T) -> None:
        """Add something under its name, whatever had it before."""
        if name in self._items:
            self._refresh()
        self._items[name] = item
        Registry.changes += 1

    def forget(self, package: str) -> dict[str, T]:
        """Remove what a package defines, and return it."""
        names = [name for name in self._items if self.definition(name).module.partition(".")[0] == package]
        if names:
            self._refresh()
            Registry.changes += 1
        return {name: self._items.pop(name) for name in names}

    def _refresh(self) -> None:
        """Let systems of packages be made again: they may keep what replaced code has made."""
        for registry in _REGISTRIES:
            if registry._convert is not None:
                for name in registry.entry_points:
                    registry._items.pop(name, None)

    def definition(self, name: str) -> Definition:
        """Return the function or class that defines what has this name."""
        return self._definition(self[name])

    def _definition(self, item: T) -> Definition:
        return Definition(item if self._code is None else self._code(item))

    def announces(self, name: str) -> bool:
        """Return whether an installed package other than gridtune announces this name."""
        point = self.entry_points.get(name)
        return point is not None and not is_ours(point.module)

    @property
    def imported(self) -> Mapping[str, T]:
        """The items registered so far, without importing anything."""
        return self._items

    def names(self) -> list[str]:
        """Return all names, sorted, without importing anything."""
        return sorted({*self._items, *self.entry_points})

    def __getitem__(self, name: str) -> T:
        """Return what has this name; imports it if need be."""
        if name not in self._items and name in self.entry_points:
            self._load(self.entry_points[name])
        return self._items[name]

    def find(self, name: str) -> T:
        """Return what has this name.

        Raises
        ------
        GridtuneError
            If there is nothing of that name; the hint guesses which was meant.
        """
        try:
            return self[name]
        except KeyError:
            hint = name_hint(name, self.names())
            raise self._error(f"no {self.kind} is named {name!r}", hint=hint) from None

    def __contains__(self, name: object) -> bool:
        """Tell whether there is something of that name, without importing it."""
        return name in self._items or name in self.entry_points

    def __iter__(self) -> Iterator[str]:
        """Yield the names: what comes with gridtune in its own order, then what packages announce."""
        yield from dict.fromkeys([*self._items, *self.entry_points])

    def __len__(self) -> int:
        """Return how many there are."""
        return len({*self._items, *self.entry_points})

    def _load(self, point: EntryPoint) -> None:
        for other in (*self._own, *_announced(self.group)):
            if other.name == point.name and other.value != point.value:
                raise self._error(
                    f"two installed packages announce a {self.kind} {point.name!r}: "
                    f"{point.value} and {other.value}",
                    hint="uninstall one of them",
                )
        try:
            loaded = point.load()
        except Exception as fault:
            package = point.dist.name if point.dist else "a package"
            raise self._error(
                f"the {self.kind} {point.name!r} of {package} cannot be imported: "
                f"{type(fault).__name__}: {fault}",
                hint=f"its entry point is {point.value}",
            ) from fault
        Registry.changes += 1
        if point.name not in self._items and self._convert is not None:
            self._items[point.name] = self._convert(loaded)
        # Otherwise a decorator has registered it while its module was imported.
        if point.name in self._items:
            return
        raise self._error(
            f"importing {point.value} registers no {self.kind} named {point.name!r}",
            hint="the entry point's name is the name that is registered",
        )
