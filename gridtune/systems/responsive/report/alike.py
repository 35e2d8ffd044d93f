"""Series that coincide in a figure: one line for them, and one name."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np

from gridtune.types import FloatArray

__all__ = ["SITES", "groups_alike", "in_words", "joined", "shared_part", "span", "wrapped"]

#: The width of a line, as a share of an axis's range.
TOLERANCE = 0.01
_WIDEST = 36
_ESTIMATES = (", ORA", ", EST")
#: What titles say for the kinds of site.
SITES = {"rigid": "rigid", "elastic": "elastic", "elastic-paper": "elastic as in the papers"}
#: What legends say for the short names of tables.
_WORDS = {
    "EST": "run times estimated",
    "ORA": "run times known",
    "fair share (NAT)": "fair share, as the site has it",
    "FCFS with caps (NAT)": "FCFS with caps, as the site has it",
    "ESN-SARSA": "echo state network by SARSA",
    "ESN-FQ": "echo state network by fitted Q",
    "FFNN-SARSA": "feed-forward network by SARSA",
    "FFNN-FQ": "feed-forward network by fitted Q",
    "ESN counterfactual": "echo state network by counterfactuals",
}


def groups_alike(shapes: Mapping[str, FloatArray], spans: FloatArray | float) -> dict[str, list[str]]:
    """Return the names of series that coincide, by the first of each group.

    Parameters
    ----------
    shapes
        The values of each series at the same places: shape (n,) or (n, axes). Series of different shapes
        never coincide.
    spans
        The ranges of the figure's axes: one number, or shape (axes,).
    """
    widths = np.where(np.asarray(spans) > 0, spans, 1.0)
    groups: dict[str, list[str]] = {}
    for name, shape in shapes.items():
        for first, members in groups.items():
            other = shapes[first]
            if other.shape == shape.shape and np.all(np.abs(other - shape) / widths <= TOLERANCE):
                members.append(name)
                break
        else:
            groups[name] = [name]
    return groups


def span(shapes: Mapping[str, FloatArray]) -> FloatArray:
    """Return the range of all series together: shape (), or (axes,)."""
    return np.asarray(np.ptp(np.concatenate(list(shapes.values())), axis=0))


def joined(names: Sequence[str]) -> str:
    """Return one name for series that coincide: `SJF = interactive first, EST`.

    Names are lists of parts separated by commas. An ending that all share appears once. A policy that is
    there with and without an oracle appears once, without ORA or EST.
    """
    stems = [name.removesuffix(_ESTIMATES[0]).removesuffix(_ESTIMATES[1]) for name in names]
    both = {stem for stem in stems if all(stem + ending in names for ending in _ESTIMATES)}
    unique = dict.fromkeys(stem if stem in both else name for stem, name in zip(stems, names, strict=True))
    parts = [name.split(", ") for name in unique]
    shared = 0
    while all(len(part) > shared + 1 and part[-1 - shared] == parts[0][-1 - shared] for part in parts):
        shared += 1
    tail = parts[0][len(parts[0]) - shared :]
    heads = [", ".join(part[: len(part) - shared]) for part in parts]
    return ", ".join([" = ".join(heads), *tail])


def wrapped(names: Sequence[str]) -> str:
    """Return the joined name in words, wrapped to the width of a legend."""
    unbroken = [re.sub(r"(?<=pool) = | × | (?=\d)", _unbroken, name) for name in names]
    return textwrap.fill(in_words(joined(unbroken)), _WIDEST, break_long_words=False, break_on_hyphens=False)


def _unbroken(match: re.Match[str]) -> str:
    return match[0].replace(" ", "\u00a0")


def in_words(text: str) -> str:
    """Return a name with words in place of the short names of tables."""
    for short, words in _WORDS.items():
        text = re.sub(rf"(?<![\w-]){re.escape(short)}(?![\w-])", words, text)
    return text


def shared_part(names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return in words the parts that all of several names have, and what is left of each name."""
    parts = [name.split(", ") for name in names]
    common = [part for part in parts[0] if all(part in other for other in parts)] if len(names) > 1 else []
    rests = [", ".join(part for part in own if part not in common) for own in parts]
    return in_words(", ".join(common)), dict(zip(names, rests, strict=True))
