"""Racing: replicates go, round by round, to the configurations that can still matter.

A race knows nothing of cells: it takes the values of a finished round and says which configurations go on
to the next. The same values give the same race, in whatever order they came.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gridtune.statistics.inference import paired_difference
from gridtune.statistics.sequential import Look, RaceRules, RaceTest
from gridtune.types import BoolArray, FloatArray, IntArray

__all__ = ["Race"]

#: A difference to the baseline that will be decided with a smaller chance than this is given up.
_FUTILE = 0.1
#: With a budget, a round may take this many times its even share of what is left.
_EAGER = 2.0
#: The leader comes before every other configuration.
_FIRST = 2.0
#: Of a contender that will hardly lead, but has not been found worse.
_LAST = 1e-9
_SEED = 20_011


class Race:
    """Who goes on: configurations in groups, each group a race of its own with a shared budget.

    Parameters
    ----------
    bases
        For each group, the index of each configuration's baseline in it (its own for a baseline, -1 for
        none).
    rules
        Looks and error, of each group.
    budget
        Values that all groups may have together; None for no limit.
    width
        Half the width of a paired interval, as a share of the mean that is compared with, below which a
        difference is known well enough; None for never.
    verdicts
        Whether a configuration also goes on for its difference to the baseline; False races for the best.

    Attributes
    ----------
    tests
        What is shown so far, by group.
    replicates
        Of each configuration so far, by group: those of the round that runs now included.
    """

    def __init__(
        self,
        bases: Sequence[npt.ArrayLike],
        rules: RaceRules,
        *,
        budget: int | None = None,
        width: float | None = None,
        verdicts: bool = True,
    ) -> None:
        self.rules = rules
        self.tests = [RaceTest(base, rules) for base in bases]
        self.replicates: list[IntArray] = [
            np.full(len(test.bases), rules.looks[0], dtype=np.int64) for test in self.tests
        ]
        self._budget = math.inf if budget is None else budget
        self._width = width
        self._verdicts = verdicts
        self._number = 0

    @property
    def taken(self) -> int:
        """Values taken so far, those of the round that runs now included."""
        return int(sum(counts.sum() for counts in self.replicates))

    def advance(self, values: Sequence[FloatArray]) -> bool:
        """Take the values of the round that has ended; return whether there is another.

        Parameters
        ----------
        values
            For each group, shape (configurations, replicates): lower is better, NaN where there is none.
            Replicates in the order they are run.
        """
        looks = self.rules.looks
        number, now = self._number, looks[self._number]
        self._number += 1
        wishes: list[tuple[float, int, tuple[int, ...]]] = []
        for group, (test, counts, rows) in enumerate(zip(self.tests, self.replicates, values, strict=True)):
            present = np.where((counts == now)[:, None], rows[:, :now], math.nan)
            look = test.look(present, number)
            if self._number < len(looks):
                wishes += [(-chance, group, them) for chance, them in self._wishes(test, look, present)]
        if not wishes:
            return False
        going = self._granted(sorted(wishes), looks[self._number] - now)
        for group, configuration in going:
            self.replicates[group][configuration] = looks[self._number]
        return bool(going)

    def _wishes(self, test: RaceTest, look: Look, present: FloatArray) -> list[tuple[float, tuple[int, ...]]]:
        """Return the open questions: how soon each should be answered, and by which configurations."""
        leader = (look.leader,) if look.leader >= 0 else ()
        rivals = np.flatnonzero(~np.isnan(look.ahead))
        rivals = rivals[rivals != look.leader]
        wishes: list[tuple[float, tuple[int, ...]]] = []
        if len(rivals) and not self._narrow(present, rivals, np.full(len(rivals), look.leader)).all():
            wishes += [(_FIRST, leader)]
            wishes += [(max(_LAST, float(look.ahead[rival])), (int(rival), *leader)) for rival in rivals]
        if self._verdicts:
            open_now = np.flatnonzero(np.nan_to_num(look.decided, nan=-1.0) >= _FUTILE)
            open_now = open_now[~self._narrow(present, open_now, test.bases[open_now])]
            wishes += [
                (float(look.decided[index]), (int(index), int(test.bases[index]), *leader))
                for index in open_now
            ]
        return wishes

    def _narrow(self, present: FloatArray, rows: IntArray, references: IntArray) -> BoolArray:
        """Return whose difference to its reference is known within the width."""
        if self._width is None or not len(rows):
            return np.zeros(len(rows), dtype=bool)
        rng = np.random.default_rng(_SEED)
        paired = paired_difference(present[rows], present[references], rng=rng)
        width = np.asarray(paired.relative_high) - np.asarray(paired.relative_low)
        return np.asarray(np.nan_to_num(width, nan=math.inf) <= 2 * self._width)

    def _granted(
        self, wishes: Sequence[tuple[float, int, tuple[int, ...]]], step: int
    ) -> set[tuple[int, int]]:
        """Return which configurations of which groups the budget takes one round further."""
        left = self._budget - self.taken
        rest = self.rules.looks[-1] - self.rules.looks[self._number - 1]
        share = left if math.isinf(left) else _EAGER * left * step / rest
        going: set[tuple[int, int]] = set()
        for _, group, configurations in wishes:
            with_these = going | {(group, configuration) for configuration in configurations}
            cost = step * len(with_these)
            if cost > left or (going and cost > share):
                break
            going = with_these
        return going
