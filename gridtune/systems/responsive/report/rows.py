"""A sweep's cells as rows: one for each configuration, its metrics over the replicates."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gridtune.report.cells import ConfigurationRow, by_configuration
from gridtune.report.labels import value_text
from gridtune.systems.responsive.parameters import LEARNING, LINEAR_WEIGHTS, POOL_SETTINGS
from gridtune.types import FloatArray

if TYPE_CHECKING:
    from gridtune.core.cells import CellResult

__all__ = [
    "REWARDS",
    "SITES",
    "Row",
    "groups_alike",
    "in_words",
    "joined",
    "native_of",
    "rows_of",
    "shared_part",
    "site_of",
    "wrapped",
]


#: The kinds of sites, and the mean reward of each.
REWARDS = {
    "rigid": "rigid_reward_mean",
    "elastic": "elastic_reward_mean",
    "elastic-paper": "elastic_reward_mean",
}
#: The rules that may stand for the site's own scheduler, the first one that there is.
NATIVES = ("capped_fcfs", "fair_share")
#: Names of policies in tables and figures, where they are others.
_NAMES = {
    "fcfs": "FCFS",
    "sjf": "SJF",
    "edf": "EDF",
    "longest_ratio": "longest waiting ratio",
    "lifo": "LIFO",
    "youngest_interactive": "interactive first, youngest first",
    "gittins": "Gittins",
    "capped_fcfs": "FCFS with caps (NAT)",
    "recorded": "recorded waits",
    "esn-sarsa": "ESN-SARSA",
    "esn-fq": "ESN-FQ",
    "ffnn-sarsa": "FFNN-SARSA",
    "ffnn-fq": "FFNN-FQ",
    "esn-counterfactual": "ESN counterfactual",
}
#: Parameters that appear in a configuration's label, where the configuration sets them.
_LABELLED = (
    *LEARNING,
    *LINEAR_WEIGHTS,
    "patience",
    "median_of",
    "user_cap",
    "start_latency",
    *POOL_SETTINGS,
)


class Row(ConfigurationRow):
    """One configuration on one workload."""

    @property
    def policy(self) -> str:
        """The policy."""
        return str(self.get("policy", "fcfs"))

    @property
    def site(self) -> str:
        """`rigid`, `elastic` or `elastic-paper`."""
        return str(self.get("site", "rigid"))

    @property
    def estimates(self) -> str:
        """`ORA` or `EST`."""
        return "ORA" if self.get("estimates", "estimated") == "oracle" else "EST"

    @property
    def weight(self) -> float:
        """λ."""
        return float(self.get("weight", 0.5))

    @property
    def _name(self) -> str:
        return _NAMES.get(self.policy, self.policy.replace("_", " "))

    @property
    def label(self) -> str:
        """Policy, variant and pool rule, in words."""
        name = self._name
        if self.get("variant") == "improved":
            name += ", improved"
        if self.site == "elastic":
            name += f", pool: {self.get('pool', 'demand')}"
        if self.get("headroom"):
            name += f", pool = {self.get('headroom'):g} × demand"
        elif self.site == "elastic-paper" and "-" not in self.policy:
            name += ", fixed pool"
        return name + self._settings

    @property
    def series(self) -> str:
        """Policy, variant, rule of an event-driven pool, and ORA or EST; without λ and a pool's settings."""
        improved = ", improved" if self.get("variant") == "improved" else ""
        name = f"{self._name}{improved}"
        if self.site == "elastic":
            return f"{name}, pool: {self.get('pool', 'demand')}, {self.estimates}"
        return f"{name}{self._settings}, {self.estimates}"

    @property
    def _settings(self) -> str:
        settings = {key: self.parameters.get(key) for key in _LABELLED}
        return "".join(
            f", {key.replace('_', ' ')} {value_text(value)}"
            for key, value in settings.items()
            if value is not None
        )


def rows_of(results: Sequence[CellResult]) -> list[Row]:
    """Return a row for each configuration with a finished cell, in the order of the sweep."""
    grouped = by_configuration(results)
    return [Row(cells[0].workload, cells[0].configuration, cells) for cells in grouped]


def site_of(rows: Sequence[Row], workload: str, site: str) -> list[Row]:
    """Return the rows of one workload on one kind of site."""
    return [row for row in rows if row.workload == workload and row.site == site]


def native_of(rows: Sequence[Row]) -> str | None:
    """Return the policy that stands for the site's own scheduler among these rows, None without any."""
    policies = {row.policy for row in rows}
    return next((policy for policy in NATIVES if policy in policies), None)


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


def groups_alike(
    shapes: Mapping[str, FloatArray], spans: FloatArray | float | None = None
) -> dict[str, list[str]]:
    """Return the names of series that coincide, by the first of each group.

    Parameters
    ----------
    shapes
        The values of each series at the same places: shape (n,) or (n, axes). Series of different shapes
        never coincide.
    spans
        The ranges of the figure's axes: one number, or shape (axes,); by default that of all series together.
    """
    if spans is None:
        spans = np.asarray(np.ptp(np.concatenate(list(shapes.values())), axis=0) if shapes else 1.0)
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
    unbroken = [
        re.sub(r"(?<=pool) = | × | (?=\d)", lambda found: found[0].replace(" ", "\u00a0"), name)
        for name in names
    ]
    return textwrap.fill(in_words(joined(unbroken)), _WIDEST, break_long_words=False, break_on_hyphens=False)


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
