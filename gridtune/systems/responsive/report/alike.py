"""Series that cannot be told apart in a figure: one line for them, and one name."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["groups_alike", "joined", "wrapped"]

Floats = npt.NDArray[np.float64]
#: A difference of this share of what an axis spans is as wide as a line.
TOLERANCE = 0.01
_WIDEST = 36
_KNOWLEDGE = (", ORA", ", EST")


def groups_alike(shapes: Mapping[str, Floats], spans: Floats | float) -> dict[str, list[str]]:
    """Return the names of series that lie on each other, by the first of each group.

    Parameters
    ----------
    shapes
        Each series as numbers at the same places as the others: shape (n,) or (n, axes). Series of unlike
        shapes are never alike.
    spans
        What the figure's axes span: one number, or shape (axes,).
    """
    widths = np.where(np.asarray(spans) > 0, spans, 1.0)
    groups: dict[str, list[str]] = {}
    for name, shape in shapes.items():
        for first, members in groups.items():
            known = shapes[first]
            if known.shape == shape.shape and np.all(np.abs(known - shape) / widths <= TOLERANCE):
                members.append(name)
                break
        else:
            groups[name] = [name]
    return groups


def joined(names: Sequence[str]) -> str:
    """Return one name for series that lie on each other: `SJF = interactive first, EST`.

    Names are parts after commas. What all end in is said once, and a policy that is there with and without
    knowledge of run times is called by its name alone.
    """
    stems = [name.removesuffix(_KNOWLEDGE[0]).removesuffix(_KNOWLEDGE[1]) for name in names]
    both = {stem for stem in stems if all(stem + known in names for known in _KNOWLEDGE)}
    told = dict.fromkeys(stem if stem in both else name for stem, name in zip(stems, names, strict=True))
    parts = [name.split(", ") for name in told]
    shared = 0
    while all(len(part) > shared + 1 and part[-1 - shared] == parts[0][-1 - shared] for part in parts):
        shared += 1
    tail = parts[0][len(parts[0]) - shared :]
    heads = [", ".join(part[: len(part) - shared]) for part in parts]
    return ", ".join([" = ".join(heads), *tail])


def wrapped(names: Sequence[str]) -> str:
    """Return the joined name in lines that a legend has room for."""
    kept = [name.replace("pool = ", "pool\u00a0=\u00a0").replace(" × ", "\u00a0×\u00a0") for name in names]
    return textwrap.fill(joined(kept), _WIDEST, break_long_words=False, break_on_hyphens=False)
