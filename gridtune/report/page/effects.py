"""Main effects of parameters and interactions of pairs, from the configurations' means.

The main effect of a parameter is the mean of the configurations that share a value of it, whatever their
other parameters are. On a full grid that is the functional analysis of variance (I. M. Sobol', "Sensitivity
estimates for nonlinear mathematical models", 1993): the variance among the configurations' means splits into
shares of single parameters, of pairs beyond the sum of the two, and a rest. In a sample numbers are put into
bins of about equally many configurations, parameters are correlated by chance (or, where the strategy is
adaptive, because good regions are visited more often), and the shares need not add up; they are corrected for
the number of bins as ε² is (T. L. Kelley, PNAS 21, 1935).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from gridtune.report.labels import distinct, value_text
from gridtune.types import FloatArray, IntArray

#: A number with more values than these is put into bins; a word with more is too much for a figure.
_MOST_VALUES, _MOST_WORDS = 12, 24
_MOST_BINS = 6
#: Configurations that a bin of two parameters should have on average.
_PER_FIELD = 5
#: What is looked at, and what is shown.
_MOST_PARAMETERS, MOST_INTERACTIONS = 12, 6


@dataclass(frozen=True)
class _Levels:
    name: str
    labels: list[str]
    codes: IntArray
    binned: bool
    ordered: bool

    def parts(self, values: FloatArray) -> list[FloatArray]:
        """Return the values of each level."""
        return [values[self.codes == place] for place in range(len(self.labels))]

    @classmethod
    def of(cls, name: str, column: Sequence[Any], bins: int) -> _Levels | None:
        """Return the levels of one parameter: its values, or bins of about equally many configurations."""
        listed = distinct([value for value in column if value is not None])
        number = all(isinstance(value, int | float) and not isinstance(value, bool) for value in listed)
        # A sample of numbers hardly has one twice; a list of a few is a grid's.
        sampled = number and len(listed) > max(len(column) // 2, bins) and len(listed) > _MOST_VALUES // 2
        if len(listed) <= (_MOST_VALUES if number else _MOST_WORDS) and not sampled:
            missing = [None] if None in column else []
            places = {value: place for place, value in enumerate([*listed, *missing])}
            codes = np.array([places[value] for value in column], dtype=np.int64)
            return cls(name, list(map(value_text, places)), codes, binned=False, ordered=number)
        return cls._binned(name, column, bins) if number else None

    @classmethod
    def _binned(cls, name: str, column: Sequence[Any], bins: int) -> _Levels:
        """Return a number's levels: ranges of about equally many configurations, and without a value."""
        numbers = np.array([math.nan if value is None else float(value) for value in column])
        cuts = np.nanquantile(numbers, np.linspace(0, 1, bins + 1)[1:-1])
        places = np.searchsorted(cuts, numbers, side="left")
        places[np.isnan(numbers)] = bins
        # Where a value is frequent, a bin may be empty.
        found, codes = np.unique(places, return_inverse=True)
        labels = []
        for place in range(len(found)):
            inside = numbers[codes == place]
            low, high = (value_text(float(f"{end:.3g}")) for end in (inside.min(), inside.max()))
            labels.append("–" if np.isnan(inside[0]) else low if low == high else f"{low} … {high}")
        return cls(name, labels, codes.astype(np.int64), binned=True, ordered=True)


def effects_of(
    parameters: Mapping[str, Sequence[Any]],
    means: Sequence[float | None],
    *,
    direction: str,
    logarithmic: bool,
) -> dict[str, Any] | None:
    """Return the effects of parameters on the means of configurations.

    Parameters
    ----------
    parameters
        Name to value of each configuration, None where it does not apply.
    means
        The objective's mean of each configuration; those without a finite one are left out.
    direction
        "min" or "max".
    logarithmic
        True to take logarithms; the means must be positive.

    Returns
    -------
    dict or None
        None where fewer than three configurations have a mean, or no parameter varies among them.

        - `main`: the parameters by falling share, each with its `name`; the `labels` of its values or bins;
          for each of these the mean over the configurations in `means` (geometric where `logarithmic`), the
          best mean of one in `best` and their number in `counts`; the `share` of the variance among
          configurations, from 0 to 1; in `ordered` whether the labels are numbers, and in `binned` whether
          they are ranges of a number that hardly has a value twice: it is drawn as a scatter.
        - `interactions`: the strongest pairs by falling share, each with the parameters `down` and `across`,
          the `labels` of both, `binned` (both are such numbers: a contour), the `means` of shape (down,
          across), NaN where no configuration is, and the `share` beyond what the two do each by itself.
        - `logarithmic`: True if logarithms were taken.
        - `complete`: True if every combination of the values was run, so that the shares add up.
        - `leftOut`: parameters that are not shown: words with too many values, and all beyond a dozen.
    """
    values = np.array(means, dtype=np.float64)
    there = np.flatnonzero(np.isfinite(values)).tolist()
    values = values[there]
    columns = {name: [column[index] for index in there] for name, column in parameters.items()}
    columns = {name: column for name, column in columns.items() if len(set(column)) > 1}
    if len(there) < 3 or not columns:
        return None
    bins = int(min(max(math.sqrt(len(there) / _PER_FIELD), 2), _MOST_BINS))
    levels: list[_Levels] = []
    left_out: list[str] = []
    for name, column in columns.items():
        level = _Levels.of(name, column, bins) if len(levels) < _MOST_PARAMETERS else None
        if level is None:
            left_out.append(name)
        else:
            levels.append(level)
    combinations_run = set(zip(*(level.codes.tolist() for level in levels), strict=True))
    grid = math.prod(len(level.labels) for level in levels)
    complete = not any(level.binned for level in levels) and len(combinations_run) == len(there) == grid
    variance = _Variance(np.log(values) if logarithmic else values, logarithmic, complete)
    best = np.min if direction == "min" else np.max
    main = [
        variance.main(level) | {"best": [float(best(part)) for part in level.parts(values)]}
        for level in levels
    ]
    pairs = [variance.interaction(*pair) for pair in combinations(levels, 2)]
    by_share = partial(sorted, key=lambda effect: -effect["share"])
    return {
        "main": by_share(main),
        "interactions": by_share(pairs)[:MOST_INTERACTIONS],
        "logarithmic": logarithmic,
        "complete": complete,
        "leftOut": left_out,
    }


@dataclass(frozen=True)
class _Variance:
    """The variance among configurations, and its shares.

    Attributes
    ----------
    response
        Shape (configurations,): their means, or the logarithms of these.
    logarithmic
        True if they are logarithms.
    exact
        True if the configurations are a full grid, so that nothing is explained by chance.
    """

    response: FloatArray
    logarithmic: bool
    exact: bool

    def main(self, level: _Levels) -> dict[str, Any]:
        """Return the effect of one parameter."""
        shown, sizes, explained = self._groups(level.codes, len(level.labels))
        share = self._share(explained, len(sizes) - 1, explained, len(sizes))
        facts = {"name": level.name, "labels": level.labels, "ordered": level.ordered, "binned": level.binned}
        return facts | {"means": shown.tolist(), "counts": sizes.tolist(), "share": share}

    def interaction(self, first: _Levels, second: _Levels) -> dict[str, Any]:
        """Return the effect of two parameters beyond those of each."""
        # The longer list goes down, where there is room for its words.
        across, down = sorted((first, second), key=lambda level: len(level.labels))
        rows, columns = len(down.labels), len(across.labels)
        means, sizes, between = self._groups(down.codes * columns + across.codes, rows * columns)
        indicators = np.hstack([np.eye(rows)[down.codes], np.eye(columns)[across.codes]])
        fitted = indicators @ np.linalg.lstsq(indicators, self.response, rcond=None)[0]
        explained = between - float(((fitted - self.response.mean()) ** 2).sum())
        used = int((sizes > 0).sum())
        share = self._share(explained, max(used - (rows + columns - 1), 0), between, used)
        shown = means.reshape(rows, columns).tolist()
        return {
            "down": down.name,
            "across": across.name,
            "labels": [down.labels, across.labels],
            "binned": down.binned and across.binned,
            "means": shown,
            "share": share,
        }

    def _groups(self, codes: IntArray, count: int) -> tuple[FloatArray, IntArray, float]:
        """Return the means of groups as they are shown, their sizes, and the variation between them."""
        sizes = np.bincount(codes, minlength=count)
        with np.errstate(invalid="ignore"):
            sums = np.bincount(codes, weights=self.response, minlength=count)
            means = sums / np.where(sizes, sizes, math.nan)
        between = float(np.nansum(sizes * (means - self.response.mean()) ** 2))
        return np.exp(means) if self.logarithmic else means, sizes, between

    def _share(self, explained: float, freedom: int, between: float, groups: int) -> float:
        """Return an effect's share of the variance, without what as many random groups would explain."""
        total, left = float(((self.response - self.response.mean()) ** 2).sum()), len(self.response) - groups
        if total <= 0:
            return 0.0
        chance = 0.0 if self.exact or left <= 0 else freedom * (total - between) / left
        return float(min(max((explained - chance) / total, 0.0), 1.0))
