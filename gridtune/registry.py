"""Registries: things found by name, whether they come with gridtune or from somebody else's package.

A registry is filled in two ways. Code that has been imported registers what it defines. A package that is
installed announces what it has by entry points (`[project.entry-points."gridtune.systems"]` in its
`pyproject.toml`), and is imported only when one of those names is asked for.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from gridtune.errors import GridtuneError

__all__ = ["Registry", "name_hint", "nearest_name"]

T = TypeVar("T")

#: Names that a hint lists.
_LISTED = 24


@cache
def _announced(group: str) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


def nearest_name(word: str, names: Iterable[str]) -> str | None:
    """Return the name that was probably meant by a misspelt one, or None."""
    candidates = list(names)
    # Two letters that changed places are the likeliest slip; difflib counts them as two.
    swapped = [name for name in candidates if sorted(name) == sorted(word)]
    near = swapped or difflib.get_close_matches(word, candidates, n=1, cutoff=0.5)
    return near[0] if near else None


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


class Registry(Mapping[str, T], Generic[T]):
    """Things of one kind by name.

    As a mapping it holds everything there is: iterating over it imports all that is announced.

    Parameters
    ----------
    kind
        What one of them is called in messages: "system", "queue order".
    group
        The entry points' group, such as "gridtune.systems".
    error
        The exception for an unknown name or one that is taken.
    convert
        Turns what an entry point loads into the thing to register, where loading alone does not register it.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        error: type[GridtuneError] = GridtuneError,
        *,
        convert: Callable[[Any], T] | None = None,
    ) -> None:
        self.kind, self.group = kind, group
        self._error, self._convert = error, convert
        self._items: dict[str, T] = {}

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        # Sorted: the order of what is installed differs between machines.
        points = sorted(_announced(self.group), key=lambda point: (point.name, point.value))
        return {point.name: point for point in points}

    def register(self, name: str, item: T, *, module: str) -> None:
        """Add something under its name.

        Parameters
        ----------
        name, item
            What to add, and what to call it.
        module
            The module that defines it. A name that a package announces is kept for the module it announces.

        Raises
        ------
        GridtuneError
            If the name is taken, by something registered or by an installed package.
        """
        announced = self._entry_points.get(name)
        if name in self._items or (announced is not None and announced.module != module):
            raise self._error(f"a {self.kind} named {name!r} is registered already", field=name)
        self._items[name] = item

    @property
    def imported(self) -> Mapping[str, T]:
        """What has been registered so far, without importing anything."""
        return self._items

    def names(self) -> list[str]:
        """Return all names, sorted, without importing anything."""
        return sorted({*self._items, *self._entry_points})

    def __getitem__(self, name: str) -> T:
        """Return what has this name; imports it if need be."""
        if name not in self._items and name in self._entry_points:
            self._load(self._entry_points[name])
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
        return name in self._items or name in self._entry_points

    def __iter__(self) -> Iterator[str]:
        """Yield the names: what comes with gridtune in its own order, then what packages announce."""
        yield from dict.fromkeys([*self._items, *self._entry_points])

    def __len__(self) -> int:
        """Return how many there are."""
        return len({*self._items, *self._entry_points})

    def _load(self, point: EntryPoint) -> None:
        for other in _announced(self.group):
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
        if point.name not in self._items and self._convert is not None:
            self._items[point.name] = self._convert(loaded)
        # Otherwise a decorator has registered it while its module was imported.
        if point.name in self._items:
            return
        raise self._error(
            f"importing {point.value} registers no {self.kind} named {point.name!r}",
            hint="the entry point's name is the name that is registered",
        )
