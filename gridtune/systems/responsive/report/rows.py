"""A sweep's cells as rows: one for each configuration, its metrics over the replicates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gridtune.report.labels import value_text
from gridtune.report.rows import ConfigurationRow, by_configuration
from gridtune.systems.responsive.parameters import LEARNING, LINEAR_WEIGHTS
from gridtune.systems.responsive.pool_parameters import POOL_SETTINGS

if TYPE_CHECKING:
    from gridtune.core.cells import CellResult

__all__ = ["NATIVES", "REWARDS", "Row", "native_of", "rows_of", "site_of"]

#: The kinds of sites, and the mean reward of each.
REWARDS = {
    "rigid": "rigid_reward_mean",
    "elastic": "elastic_reward_mean",
    "elastic-paper": "elastic_reward_mean",
}
#: The rules that may stand for the site's own scheduler, the first one that there is.
NATIVES = ("capped_fcfs", "fair_share")
#: Names of policies in tables and figures.
_NAMES = {
    "fcfs": "FCFS",
    "sjf": "SJF",
    "interactive_first": "interactive first",
    "edf": "EDF",
    "longest_ratio": "longest waiting ratio",
    "fair_share": "fair share",
    "random": "random",
    "lifo": "LIFO",
    "youngest_interactive": "interactive first, youngest first",
    "fair_index": "fair index",
    "gittins": "Gittins",
    "linear": "linear",
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
    def label(self) -> str:
        """Policy, variant and pool rule, in words."""
        name = _NAMES.get(self.policy, self.policy)
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
        name = f"{_NAMES.get(self.policy, self.policy)}{improved}"
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
