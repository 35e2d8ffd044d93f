"""The runs of a sweep's policies: tables of days, jobs and nodes, one run for each policy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gridtune.core.style import MARKERS, PALETTE
from gridtune.types import AnyArray

if TYPE_CHECKING:
    from gridtune.core.cells import CellResult
    from gridtune.core.system import FinishedSweep

__all__ = ["GROUPS", "PolicyRun", "policy_runs", "shown_runs"]

#: The paper's groups of days by their share of sequential submissions, per cent.
GROUPS = ("[0, 25)", "[25, 50)", "[50, 75)", "[75, 100)", "100")
#: The order of policies in tables and figures; figures show no others if there are at least two of them.
_ORDER = ("T(0)", "T(1)", "T(5)", "OR*", "adaptive", "lookahead", "PPO")
#: What legends add to the paper's names.
_TITLES = {"T(0)": "T(0): off when idle", "OR*": "OR*: knows run times"}
#: The most policies in a table, and in a figure.
_MOST_TABULATED, _MOST_SHOWN = 14, 6
_SHAPE = ("platform", "nodes", "cores_per_node")
_NAMES = {
    "lookahead": "lookahead",
    "hindsight": "hindsight",
    "oracle": "OR*",
    "adaptive": "adaptive",
    "ppo": "PPO",
    "random": "random",
    "always_on": "always on",
}


@dataclass(frozen=True)
class PolicyRun:
    """A policy's run over the days of a workload.

    Attributes
    ----------
    label
        Name of the policy in tables and figures.
    cluster
        The paper's cluster of the same shape, or None.
    cores
        Cores of the cluster.
    tables
        Those of `gridtune.systems.shutdown.day_tables.day_tables`, all parts joined.
    colour, marker
        Of its lines in figures.
    """

    label: str
    cluster: str | None
    cores: int
    tables: Mapping[str, pa.Table]
    colour: str
    marker: str

    @property
    def title(self) -> str:
        """The policy in words, as legends have it."""
        return _TITLES.get(self.label) or re.sub(r"^T\((\d+)\)$", r"T(\1): off after \1 idle min", self.label)

    def column(self, table: str, name: str) -> AnyArray:
        """Return a column as an array; missing values are NaN."""
        return np.asarray(self.tables[table][name].to_numpy(zero_copy_only=False))


def shown_runs(runs: Sequence[PolicyRun]) -> list[PolicyRun]:
    """Return the runs that figures show: the policies of the paper, otherwise the first few."""
    known_policies = [run for run in runs if run.label in _ORDER]
    return (known_policies if len(known_policies) > 1 else list(runs))[:_MOST_SHOWN]


def policy_runs(sweep: FinishedSweep) -> dict[str, list[PolicyRun]]:
    """Return the runs of each workload: one for each policy, in its best configuration.

    The cells are simulated again for their tables.
    """
    done = [result for result in sweep.results if result.state == "done"]
    runs: dict[str, list[PolicyRun]] = {}
    for workload in dict.fromkeys(result.workload for result in done):
        configurations: dict[str, list[CellResult]] = {}
        for result in done:
            if result.workload == workload:
                configurations.setdefault(result.configuration_id, []).append(result)
        by_label: dict[str, list[CellResult]] = {}
        for identifier in sorted(configurations, key=lambda name: sweep.ranks.get(name, np.inf)):
            results = configurations[identifier]
            by_label.setdefault(_label(results[0].parameters), results)
        labels = sorted(by_label, key=lambda label: (_position(label), len(label), label))[:_MOST_TABULATED]
        runs[workload] = [_run(sweep, label, by_label[label], index) for index, label in enumerate(labels)]
    return runs


def _label(parameters: Mapping[str, Any]) -> str:
    policy = parameters.get("policy") or "timeout"
    if policy == "timeout":
        timeout = parameters.get("timeout")
        return f"T({1 if timeout is None else timeout})"
    return _NAMES.get(policy, policy)


def _position(label: str) -> int:
    return _ORDER.index(label) if label in _ORDER else len(_ORDER)


def _run(sweep: FinishedSweep, label: str, results: Sequence[CellResult], index: int) -> PolicyRun:
    """Join the parts of a configuration; other replicates have the same days, so take the first."""
    parts = [result for result in results if result.parameters.get("part") is not None]
    part_tables = [sweep.tables_of(result) for result in parts or results[:1]]
    parameters = results[0].parameters
    other_shape = any(parameters.get(name) is not None for name in _SHAPE)
    nodes, cores = map(int, str(results[0].notes["cluster"]).split(" × "))
    tables = {name: _joined([tables[name] for tables in part_tables]) for name in part_tables[0]}
    # The nodes of one day, not of one day of each part.
    tables |= {name: part_tables[0][name] for name in ("nodes",) if name in part_tables[0]}
    cluster = None if other_shape else parameters.get("cluster") or "taurus"
    colour, marker = PALETTE[index % len(PALETTE)], MARKERS[index % len(MARKERS)]
    return PolicyRun(label, cluster, nodes * cores, tables, colour, marker)


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(
        [table.append_column("part", pa.array([part] * len(table))) for part, table in enumerate(tables)]
    )
