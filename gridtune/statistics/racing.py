"""Racing: replicates go, round by round, to the configurations that can still matter.

A race knows nothing of cells: it takes the values of a finished round and says which configurations go on
to the next. The same values give the same race, in whatever order they came.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.statistics.dependence import error_ratio, series_correlation
from gridtune.statistics.inference import paired_difference
from gridtune.types import BoolArray, FloatArray, IntArray

__all__ = [
    "Boundaries",
    "Race",
    "RaceRules",
    "RaceTest",
    "race_looks",
]

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
    """Decide which configurations go on; each group is a race of its own, with a shared budget.

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

    def _wishes(
        self, test: RaceTest, look: _Look, present: FloatArray
    ) -> list[tuple[float, tuple[int, ...]]]:
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


#: Each look comes after this many times the replicates of the one before, or one more.
_GROWTH = 1.25
#: Weight of the variance that is typical of all differences, in replicates, beside a difference's own.
_PRIOR = 4.0
#: Spread of the noise of simulated configurations: the standard deviation of its logarithm.
_NOISE_SPREAD = 0.5
#: Standard deviations below this are rounding.
_SMALLEST = 1e-9
#: Configurations that are simulated; for more, the error is divided among groups of as many.
_MOST_SIMULATED = 200
#: Simulated races, and the largest number of simulated values.
_RACES, _VALUES = 10_000, 40_000_000
_CHUNK = 500_000
_NULL_SEED = 1_979


def race_looks(first: int, most: int) -> tuple[int, ...]:
    """Return after how many replicates a race is looked at, from the first look to the last."""
    looks = [min(first, most)]
    while looks[-1] < most:
        looks.append(min(most, max(looks[-1] + 1, round(_GROWTH * looks[-1]))))
    return tuple(looks)


def _relative_scores(values: npt.ArrayLike) -> FloatArray:
    """Return values on a scale on which replicates of any size can be compared.

    Parameters
    ----------
    values
        Shape (configurations, replicates), finite.

    Returns
    -------
    numpy.ndarray
        The same shape and order: logarithms where all values have the same sign, so that differences are
        ratios; else values over the mean size of their replicate's.
    """
    rows = np.asarray(values, dtype=np.float64)
    if (rows > 0).all():
        return np.asarray(np.log(rows))
    if (rows < 0).all():
        return np.asarray(-np.log(-rows))
    size = np.abs(rows).mean(axis=0)
    return rows / np.where(size > 0, size, 1.0)


def _differences(
    scores: FloatArray, references: FloatArray, sizes: Sequence[int]
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield the mean difference of each row to its reference, and the standard deviation of one, by size.

    The variance of two or three differences says little, so it is drawn towards the one that is typical of
    all rows (twice the mean of their residual variances around row and column means); upwards only, for
    rows that are noisier than most would pass for quiet ones.

    Parameters
    ----------
    scores, references
        Shape (..., rows, replicates); a row's reference is the same row of the other.
    sizes
        Numbers of replicates, from the first on, that are looked at.

    Yields
    ------
    tuple of numpy.ndarray
        Two of shape (..., rows).
    """
    count = scores.shape[-2]
    centred = scores - scores.mean(axis=-2, keepdims=True)
    sums, squares = centred.cumsum(axis=-1), (centred**2).sum(axis=-2).cumsum(axis=-1)
    differences = scores - references
    totals, total_squares = differences.cumsum(axis=-1), (differences**2).cumsum(axis=-1)
    for n in sizes:
        residual = squares[..., n - 1] - (sums[..., n - 1] ** 2).sum(axis=-1) / n
        typical = 2 * np.maximum(residual, 0) / ((count - 1) * (n - 1))
        mean = totals[..., n - 1] / n
        variance = np.maximum(total_squares[..., n - 1] - n * mean**2, 0) / (n - 1)
        drawn = (_PRIOR * typical[..., None] + (n - 1) * variance) / (_PRIOR + n - 1)
        yield mean, np.maximum(np.sqrt(np.maximum(variance, drawn)), _SMALLEST)


@dataclass(frozen=True)
class RaceRules:
    """Settings by which a race is decided.

    Attributes
    ----------
    looks
        Replicates at each look, ascending.
    error
        The chance of each of the two errors (see `Boundaries.of`) over the whole race.
    columns
        Values that each replicate has for a configuration.
    places
        Place in the log of each replicate, in the order they are run, where they are windows; else empty.
    """

    looks: tuple[int, ...]
    error: float
    columns: int = 1
    places: tuple[int, ...] = ()

    def error_ratio(self, differences: FloatArray) -> float:
        """Return by how much the error of a mean is larger than of independent replicates.

        Parameters
        ----------
        differences
            Shape (configurations, replicates · columns): of the first replicates of a race.
        """
        n = differences.shape[1] // self.columns
        if not self.places or n * self.columns != differences.shape[1] or n < 2:
            return 1.0
        order = np.argsort(self.places[:n], kind="stable")
        series = differences.reshape(len(differences), n, self.columns)[:, order]
        correlations = [series_correlation(series[:, :, column]) for column in range(self.columns)]
        return error_ratio(n, float(np.mean(correlations)))


class Boundaries(NamedTuple):
    """Limits of a race's statistics at each look.

    Attributes
    ----------
    worse
        The statistic from which a configuration is worse than the leader of the rest.
    different
        The statistic from which any configuration differs from its baseline, in either direction.
    """

    worse: tuple[float, ...]
    different: tuple[float, ...]

    @classmethod
    @functools.lru_cache(maxsize=64)
    def of(cls, count: int, rules: RaceRules) -> Boundaries:
        """Return the boundaries of a race of `count` configurations.

        The error is spent in proportion to the replicates seen, so that all looks together have it. It is the
        chance that one given configuration, no worse than the others, is ever found worse; and the chance
        that any configuration is ever found different from a baseline that none differs from.

        Notes
        -----
        Source: Lan and DeMets, "Discrete group sequential boundaries for clinical trials", Biometrika 70,
        1983, with the spending function α·t; the boundaries are simulated with a fixed seed.
        """
        simulated = min(count, _MOST_SIMULATED)
        share = rules.error * simulated / count
        spent = [share * look / rules.looks[-1] for look in rules.looks]
        worse, different = _null_statistics(simulated, rules.looks, rules.columns)
        return cls(_spend(worse, spent), _spend(different, spent))


def _spend(statistics: FloatArray, spent: Sequence[float]) -> tuple[float, ...]:
    """Return boundaries that the shares `spent` of the simulated races have exceeded by each look."""
    races = len(statistics)
    inside = np.ones(races, dtype=bool)
    limits = []
    for look, share in enumerate(spent):
        allowed = math.floor(share * races) - int((~inside).sum())
        ordered = np.sort(statistics[inside, look])[::-1]
        # The races above the limit are as many as allowed, or fewer where statistics are equal.
        limits.append(float(ordered[allowed]) if allowed > 0 else math.inf)
        inside &= ~(statistics[:, look] > limits[-1] * (1 + _SMALLEST))
    return tuple(limits)


@functools.lru_cache(maxsize=16)
def _null_statistics(count: int, looks: tuple[int, ...], columns: int) -> tuple[FloatArray, FloatArray]:
    """Return the largest one-sided and two-sided statistics of simulated races without a better one.

    Configurations differ in nothing but how noisy they are.

    Returns
    -------
    tuple of numpy.ndarray
        Two of shape (races, looks).
    """
    size = count * looks[-1] * columns
    races = max(1_000, min(_RACES, _VALUES // size))
    rng = np.random.default_rng(_NULL_SEED)
    worse, different = np.zeros((2, races, len(looks)))
    if looks[0] * columns < 2:
        return worse, different
    step = max(1, _CHUNK // size)
    for first in range(0, races, step):
        number = min(step, races - first)
        noise = np.exp(_NOISE_SPREAD * rng.standard_normal((number, count, 1)))
        scores = noise * rng.standard_normal((number, count, looks[-1] * columns))
        sizes = [look * columns for look in looks]
        for look, (mean, deviation) in enumerate(_differences(scores, scores[:, :1], sizes)):
            statistic = mean[:, 1:] / deviation[:, 1:] * math.sqrt(sizes[look])
            worse[first : first + number, look] = -statistic.min(axis=1)
            different[first : first + number, look] = np.abs(statistic).max(axis=1)
    return worse, different


class _Look(NamedTuple):
    """State of each configuration at a look at a race; NaN or -1 for those that are not in it.

    Attributes
    ----------
    leader
        Index of the contender with the lowest mean score, or -1.
    ahead
        Chance that a contender's mean over all replicates is below the leader's, from what is seen.
    decided
        Chance that a difference to the baseline that is not decided will be at the last look.
    """

    leader: int
    ahead: FloatArray
    decided: FloatArray


class RaceTest:
    """The tests of one race: which configurations can still be best, and which differ from the baseline.

    Parameters
    ----------
    bases
        Index of each configuration's baseline; its own for a baseline, -1 for none.
    rules
        Looks and error.

    Attributes
    ----------
    contender
        Which configurations have not been found worse than the leader.
    verdict
        -1 for those found below their baseline, +1 for above, 0 for not decided.
    """

    def __init__(self, bases: npt.ArrayLike, rules: RaceRules) -> None:
        self.bases = np.asarray(bases, dtype=np.int64)
        self.rules = rules
        count = len(self.bases)
        self.contender = np.ones(count, dtype=bool)
        self.verdict = np.zeros(count, dtype=np.int64)
        self._limits = Boundaries.of(max(2, count), rules)

    @property
    def compared(self) -> BoolArray:
        """Configurations with a baseline other than themselves."""
        return (self.bases >= 0) & (self.bases != np.arange(len(self.bases)))

    def look(self, values: npt.ArrayLike, number: int) -> _Look:
        """Take the values up to a look in, lower ones being better.

        Parameters
        ----------
        values
            Shape (configurations, replicates · columns); a row with NaN is not in the race now. A replicate
            that is NaN for all is passed over.
        number
            The look's number, from 0.
        """
        rows = np.asarray(values, dtype=np.float64)
        rows = rows[:, ~np.isnan(rows).all(axis=0)]
        inside = np.flatnonzero(~np.isnan(rows).any(axis=1))
        ahead, decided = np.full((2, len(rows)), math.nan)
        if rows.shape[1] < 2 or len(inside) < 2:
            alone = inside[self.contender[inside]]
            return _Look(int(alone[0]) if len(alone) else -1, ahead, decided)
        scores = _relative_scores(rows[inside])
        leader = self._find_worse(scores, inside, number, ahead)
        self._find_different(scores, inside, number, decided)
        return _Look(leader, ahead, decided)

    def _find_worse(self, scores: FloatArray, inside: IntArray, number: int, ahead: FloatArray) -> int:
        contending = self.contender[inside]
        if not contending.any():
            return -1
        n = scores.shape[1]
        place = int(np.argmin(np.where(contending, scores.mean(axis=1), math.inf)))
        ((mean, deviation),) = _differences(scores, scores[place], [n])
        deviation = deviation * self.rules.error_ratio(np.delete(scores, place, axis=0) - scores[place])
        worse = mean / deviation * math.sqrt(n) > self._limits.worse[number] * (1 + _SMALLEST)
        worse[place] = False
        self.contender[inside[worse]] = False
        left = self._replicates_left(number)
        if left:
            spread = deviation * math.sqrt(1 / n - 1 / (n + left))
            ahead[inside] = np.where(self.contender[inside], _below(-mean / spread), math.nan)
        return int(inside[place])

    def _find_different(self, scores: FloatArray, inside: IntArray, number: int, decided: FloatArray) -> None:
        places = np.full(len(self.bases), -1)
        places[inside] = np.arange(len(inside))
        open_now = self.compared[inside] & (self.verdict[inside] == 0)
        open_now &= places[np.maximum(self.bases[inside], 0)] >= 0
        if not open_now.any():
            return
        n = scores.shape[1]
        references = scores[places[np.maximum(self.bases[inside], 0)]]
        ((mean, deviation),) = _differences(scores, references, [n])
        deviation = deviation * self.rules.error_ratio((scores - references)[open_now])
        different = np.abs(mean) / deviation * math.sqrt(n) > self._limits.different[number] * (1 + _SMALLEST)
        found = open_now & different
        self.verdict[inside[found]] = np.sign(mean[found]).astype(np.int64)
        left = self._replicates_left(number)
        if left:
            # What the mean over all replicates must exceed at the last look, and how it may still change.
            goal = self._limits.different[-1] * deviation / math.sqrt(n + left)
            spread = deviation * math.sqrt(1 / n - 1 / (n + left))
            chance = _below((-goal - mean) / spread) + _below((mean - goal) / spread)
            decided[inside] = np.where(open_now & ~found, chance, math.nan)

    def _replicates_left(self, number: int) -> int:
        return (self.rules.looks[-1] - self.rules.looks[number]) * self.rules.columns


def _below(values: FloatArray) -> FloatArray:
    """Return the standard normal distribution function."""
    from scipy.special import ndtr  # noqa: PLC0415

    return np.asarray(ndtr(values))
