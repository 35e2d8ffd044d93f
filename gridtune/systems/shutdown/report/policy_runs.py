"""What policies lived through: the days, jobs and nodes of a sweep's cells, one life for each policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gridtune.report.style import MARKERS, PALETTE

if TYPE_CHECKING:
    from gridtune.core.cells import CellResult
    from gridtune.core.system import FinishedSweep

__all__ = ["GROUPS", "Column", "Life", "drawn", "lives_of"]

Column = npt.NDArray[Any]
#: The paper's groups of days by their share of sequential submissions, per cent.
GROUPS = ("[0, 25)", "[25, 50)", "[50, 75)", "[75, 100)", "100")
#: Policies that the paper or this project tells side by side: all that figures show, where there are two.
_ORDER = ("T(0)", "T(1)", "T(5)", "OR*", "adaptive", "PPO")
#: Policies in a table, and in a figure.
_TOLD, _DRAWN = 14, 6
_SHAPE = ("platform", "nodes", "cores_per_node")
_NAMES = {"oracle": "OR*", "adaptive": "adaptive", "ppo": "PPO", "random": "random", "always_on": "always on"}


@dataclass(frozen=True)
class Life:
    """One policy's days.

    Attributes
    ----------
    label
        The policy, as tables and figures call it.
    cluster
        The published cluster whose shape it has, or None.
    cores
        Of the cluster.
    tables
        Those of `gridtune.systems.shutdown.tables.day_tables`, of all replicates one after the other.
    colour, marker
        How its lines look.
    """

    label: str
    cluster: str | None
    cores: int
    tables: Mapping[str, pa.Table]
    colour: str
    marker: str

    def column(self, table: str, name: str) -> Column:
        """Return a column as an array; what is missing is NaN."""
        return np.asarray(self.tables[table][name].to_numpy(zero_copy_only=False))


def drawn(lives: Sequence[Life]) -> list[Life]:
    """Return the lives that figures show: the usual policies, else the first few."""
    usual = [life for life in lives if life.label in _ORDER]
    return (usual if len(usual) > 1 else list(lives))[:_DRAWN]


def lives_of(sweep: FinishedSweep) -> dict[str, list[Life]]:
    """Return each workload's lives: one of each policy, the best ranked if it was tried in several ways.

    Cells are run once more for it. A sweep of many configurations of one policy is represented by the best.
    """
    done = [result for result in sweep.results if result.state == "done"]
    ranks = sweep.ranks
    found: dict[str, list[Life]] = {}
    for workload in dict.fromkeys(result.workload for result in done):
        configurations: dict[str, list[CellResult]] = {}
        for result in done:
            if result.workload == workload:
                configurations.setdefault(result.configuration_id, []).append(result)
        by_label: dict[str, list[CellResult]] = {}
        for name in sorted(configurations, key=lambda name: ranks.get(name, np.inf)):
            by_label.setdefault(_label(configurations[name][0].parameters), configurations[name])
        labels = sorted(by_label, key=lambda label: (_place(label), len(label), label))[:_TOLD]
        lives = [_life(sweep, label, by_label[label], place) for place, label in enumerate(labels)]
        found[workload] = lives
    return found


def _label(parameters: Mapping[str, Any]) -> str:
    policy = parameters.get("policy") or "timeout"
    if policy == "timeout":
        timeout = parameters.get("timeout")
        return f"T({1 if timeout is None else timeout})"
    return _NAMES.get(policy, policy)


def _place(label: str) -> int:
    return _ORDER.index(label) if label in _ORDER else len(_ORDER)


def _life(sweep: FinishedSweep, label: str, results: Sequence[CellResult], place: int) -> Life:
    """Join the windows of a configuration; of other replicates, which live the same days, take the first."""
    windows = [each for each in results if each.parameters.get("window") is not None]
    each = [sweep.tables_of(result) for result in windows or results[:1]]
    parameters = results[0].parameters
    shaped = any(parameters.get(name) is not None for name in _SHAPE)
    nodes, cores = map(int, str(results[0].notes["cluster"]).split(" × "))
    tables = {name: _joined([tables[name] for tables in each]) for name in each[0]}
    # One day's nodes, and not one day of each window.
    tables |= {name: each[0][name] for name in ("nodes",) if name in each[0]}
    cluster = None if shaped else parameters.get("cluster") or "taurus"
    colour, marker = PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)]
    return Life(label, cluster, nodes * cores, tables, colour, marker)


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(
        [table.append_column("part", pa.array([part] * len(table))) for part, table in enumerate(tables)]
    )
