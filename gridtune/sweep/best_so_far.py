"""The configuration that leads while a sweep runs, judged only by what can be compared."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from gridtune.core.cells import CellResult
from gridtune.sweep.observing import SweepPlan

__all__ = ["BestSoFar"]

#: Share of the results that lines may leave out: the screen asks for them four times a second.
_STALE_SHARE = 0.02


class BestSoFar:
    """The leading configuration of each workload.

    Replicates differ more than configurations do: a mean over the easy windows of a log says nothing against
    a mean over the hard ones. So configurations are compared on replicates that all of them have finished;
    those with fewer replicates are left out until that leaves more to compare.

    Parameters
    ----------
    plan
        The sweep's.
    """

    def __init__(self, plan: SweepPlan) -> None:
        self._metric = plan.space.objective[0].metric
        self._sign = 1 if plan.directions[0] == "min" else -1
        self._varied = list(plan.space.dimensions)
        #: Workload to configuration to replicate to value.
        self._values: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
        self._configurations: dict[str, Mapping[str, Any]] = {}
        self._lines: list[str] = []
        #: Results taken in, and those of them that the lines take into account.
        self._count, self._counted = 0, 0
        self.add(plan.finished)

    def add(self, results: Sequence[CellResult]) -> None:
        """Take results in."""
        for result in results:
            value = result.metrics.get(self._metric, math.nan)
            if result.state == "done" and not math.isnan(value):
                self._values[result.workload][result.configuration_id][result.replicate] = value
                self._configurations[result.configuration_id] = result.configuration
                self._count += 1

    def lines(self) -> list[str]:
        """Return a line for each workload; of very many results, the last few may not be in it yet."""
        if self._count - self._counted > self._count * _STALE_SHARE:
            self._counted = self._count
            self._lines = [self._line(workload, values) for workload, values in sorted(self._values.items())]
        return self._lines

    def _line(self, workload: str, values: Mapping[str, Mapping[str, float]]) -> str:
        common, compared = _comparable(values)
        means = {name: sum(values[name][each] for each in common) / len(common) for name in compared}
        best = min(means, key=lambda name: self._sign * means[name])
        line = f"best so far on {workload}: {self._label(best)}, {self._metric} {_short(means[best])}"
        others = len(values) - len(compared)
        return f"{line} ({len(compared)} compared, {others} with fewer replicates)" if others else line

    def _label(self, configuration_id: str) -> str:
        configuration = self._configurations[configuration_id]
        varied = {name: configuration[name] for name in self._varied if name in configuration}
        parts = [
            value if isinstance(value, str) else f"{name}={_short(value)}" for name, value in varied.items()
        ]
        return " · ".join(parts) or "the only configuration"


def _comparable(values: Mapping[str, Mapping[str, float]]) -> tuple[list[str], list[str]]:
    """Return replicates, and the configurations that have finished all of them: as many of both as can be.

    Configurations are taken in from the one with most replicates on. Each may leave fewer replicates that all
    have; of the sets so made, the one with the most values counts.
    """
    by_count = sorted(values, key=lambda name: -len(values[name]))
    common = list(values[by_count[0]])
    best, most = (common, by_count[:1]), 0
    for count, name in enumerate(by_count, start=1):
        common = [replicate for replicate in common if replicate in values[name]]
        if count * len(common) >= most:
            best, most = (common, by_count[:count]), count * len(common)
    return best


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
