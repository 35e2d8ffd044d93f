"""Two sweeps, or two configurations of one, compared replicate by replicate.

The statistics are those of a ranking: paired differences to a baseline, which is the first side here, tested
for all comparisons of a workload together.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from gridtune.errors import SweepError
from gridtune.report.facts import ObjectiveFacts, SweepFacts
from gridtune.report.labels import PARAMETER_PREFIX, row_parameters
from gridtune.report.rankings.cells import configuration_parameters, read_cells
from gridtune.report.rankings.combined import rank_overall
from gridtune.report.rankings.ranking import PAIRED, Ranking, Verdict, rank
from gridtune.sweep.journal.results import find_other_code

if TYPE_CHECKING:
    import pandas as pd

    from gridtune.core.cells import CellResult
    from gridtune.core.system import System

#: The parameter that tells the two sides apart.
_SIDE = "compared side"
#: Values that a table of both sides holds as they are.
_PLAIN = (str, int, float, type(None))


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    Attributes
    ----------
    name
        Its name in messages.
    facts
        The facts of its sweep.
    table
        One row per cell of the sweep.
    selection
        Parameters that a configuration must have to be compared; empty for all.
    results
        Results of the cells; they have the checksums of the code that ran them.
    """

    name: str
    facts: SweepFacts
    table: pa.Table
    selection: Mapping[str, Any] = field(default_factory=dict)
    results: Sequence[CellResult] = ()

    def selected(self, system: System | None) -> list[_Cell]:
        """Return the cells of the configurations that are meant."""
        wanted = self.facts.with_baseline(self.selection, self.table).baseline if self.selection else {}
        if not self.table.num_rows:
            raise SweepError(f"{self.name} has no cells")
        fields = {} if system is None else system.Parameters.model_fields
        defaults = {name: None if field.is_required() else field.default for name, field in fields.items()}
        cells = [_Cell(row, {**defaults, **row_parameters(row)}) for row in self.table.to_pylist()]
        return [cell for cell in cells if wanted.items() <= cell.parameters.items()]


@dataclass(frozen=True)
class Comparison:
    """The second side compared with the first.

    Attributes
    ----------
    first, second
        Names of the sides.
    objective
        The metric that was compared.
    parameters
        Those that tell the compared configurations apart.
    rows
        One for each workload and configuration that both sides have: `workload`, the parameters, `n`
        (common replicates), `first_mean`, `second_mean`, `diff` (second minus first) with its interval
        `diff_low`, `diff_high`, the same as fractions of the first's mean in `relative*`, `p_value` and
        `verdict` ("better": the second is).
    overall
        The same over all workloads, by relative differences alone; empty for one workload.
    differs
        Parameter to its values on the two sides, where it has one on each and they differ.
    notes
        Remarks, on replicates or configurations that only one side has.
    """

    first: str
    second: str
    objective: ObjectiveFacts
    parameters: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    overall: Sequence[Mapping[str, Any]]
    differs: Mapping[str, tuple[Any, Any]]
    notes: Sequence[str]

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison in JSON's types."""
        return {
            "first": self.first,
            "second": self.second,
            "objective": asdict(self.objective),
            "differs": {name: list(values) for name, values in self.differs.items()},
            "comparisons": [dict(row) for row in self.rows],
            "overall": [dict(row) for row in self.overall],
            "notes": list(self.notes),
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return the comparisons as a data frame, a row each."""
        return self.table().to_pandas()

    def __repr__(self) -> str:
        title = f"{self.second} compared with {self.first}: {self.objective.metric}"
        return "\n".join([title, self.to_pandas().T.to_string(header=False), *self.notes])

    def _repr_html_(self) -> str:
        title = escape(f"{self.second} compared with {self.first}: {self.objective.metric}")
        rows = self.to_pandas().to_html(index=False, float_format="%.4g", na_rep="–")
        return f"<h4>{title}</h4>{rows}"

    def table(self) -> pa.Table:
        """Return the comparisons as a table, a row each."""
        return pa.Table.from_pylist([dict(row) for row in self.rows])


def compare(first: Side, second: Side, system: System | None, *, objective: str | None = None) -> Comparison:
    """Compare two sides on the workloads, configurations and replicates that both have.

    Configurations are compared if they have the same parameters but for those that a side's selection names
    and those with one value on each side. A parameter that a side does not set has its default.

    Parameters
    ----------
    first, second
        The sides; the second is compared with the first.
    system
        The system of both; None where it is not installed, then a parameter that a side lacks is null.
    objective
        The metric; by default the first side's own.

    Raises
    ------
    GridtuneError
        If nothing can be compared; the message has the reason.
    """
    if first.facts.system != second.facts.system:
        message = f"{first.name} is a sweep of {first.facts.system}, {second.name} of {second.facts.system}"
        raise SweepError(f"{message}: their configurations cannot be paired")
    facts = first.facts if objective is None else first.facts.with_objective(objective)
    goal = facts.objectives[0]
    for side in (first, second):
        if f"metric.{goal.metric}" not in side.table.column_names:
            raise SweepError(f"no cell of {side.name} has the metric {goal.metric!r}")
    names = (first.name, second.name)
    rows = [side.selected(system) for side in (first, second)]
    apart = _apart(rows, {*first.selection, *second.selection})
    paired = _Paired(rows, apart, names)
    pairs, notes = paired.pairs()
    cells = read_cells(paired.combined(pairs, goal.metric), {_SIDE: 0})
    ranking = rank(cells, objective=goal.metric, direction=goal.direction, unit=goal.unit)
    overall = rank_overall(cells, ranking.head)
    notes += _without_value(cells.table, names, goal.metric)
    other_code = find_other_code({result.cell_id: result for result in first.results}, second.results)
    if other_code is not None:
        changes = "; ".join(other_code.changes)
        notes.append(f"the two were run by other code, from the first to the second: {changes}")
    elif first.facts.system_version != second.facts.system_version:
        versions = f"{first.facts.system_version} and {second.facts.system_version}"
        notes.append(f"the cells were run under versions {versions} of the system {first.facts.system}")
    return Comparison(
        first=first.name,
        second=second.name,
        objective=goal,
        parameters=apart,
        rows=list(paired.rows(ranking)),
        overall=[] if overall is None else list(paired.rows(overall)),
        differs=paired.differing(),
        notes=notes,
    )


class _Cell(NamedTuple):
    """A cell of one side: its row, and its parameters, defaults included."""

    row: Mapping[str, Any]
    parameters: Mapping[str, Any]

    def configuration(self, apart: Sequence[str]) -> tuple[Any, ...]:
        return tuple(self.parameters.get(name) for name in apart)


def _apart(sides: Sequence[Sequence[_Cell]], selected: Container[str]) -> list[str]:
    """Return the parameters that tell configurations of one side apart: in the order of the tables."""
    names: dict[str, None] = {}
    for cells in sides:
        table = pa.Table.from_pylist([dict(cell.row) for cell in cells])
        varying = configuration_parameters(table, ["workload"])
        names |= dict.fromkeys(name for name in varying if len(table[PARAMETER_PREFIX + name].unique()) > 1)
    return [name for name in names if name not in selected]


#: A workload and a configuration; and label and seed of a replicate to its cells on both sides.
_Place = tuple[str, tuple[Any, ...]]
_Pairs = Mapping[tuple[str, int], tuple[_Cell, _Cell]]


@dataclass(frozen=True)
class _Paired:
    """The cells of two sides, and the parameters that tell configurations of one side apart."""

    sides: Sequence[Sequence[_Cell]]
    apart: Sequence[str]
    names: tuple[str, str]

    def pairs(self) -> tuple[dict[_Place, _Pairs], list[str]]:
        """Pair cells of both sides under the first one's workloads; return them and remarks on the rest."""
        second_of = self._workloads()
        called = ({name: name for name in second_of}, {other: name for name, other in second_of.items()})
        first, second = (self._by_place(cells, own) for cells, own in zip(self.sides, called, strict=True))
        pairs: dict[_Place, _Pairs] = {}
        incomplete = 0
        for place in (place for place in first if place in second):
            one, other = first[place], second[place]
            pairs[place] = {key: (cell, other[key]) for key, cell in one.items() if key in other}
            incomplete += len(pairs[place]) < max(len(one), len(other))
            if not pairs[place]:
                labels = [list(dict.fromkeys(label for label, _ in side)) for side in (one, other)]
                texts = [
                    f"{name} has {' … '.join(dict.fromkeys((has[0], has[-1])))}"
                    for name, has in zip(self.names, labels, strict=True)
                ]
                raise SweepError(f"on {place[0]} the two have no replicate in common: {', '.join(texts)}")
        if not pairs:
            message = f"no configuration is both in {self.names[0]} and in {self.names[1]}"
            hint = "name one of each: --configuration NAME=VALUE --configuration NAME=VALUE"
            raise SweepError(message, hint=hint)
        notes = []
        workloads = [{cell.row["workload"] for cell in cells} for cells in self.sides]
        alone = {name for has, own in zip(workloads, called, strict=True) for name in has - own.keys()}
        if alone:
            notes.append(f"only one of the two has the workload {', '.join(sorted(alone))}")
        if single := len(first.keys() ^ second.keys()):
            notes.append(f"{single} configurations are in one of the two only, and left out")
        if incomplete:
            verb = "comparisons leave" if incomplete > 1 else "comparison leaves"
            notes.append(f"{incomplete} {verb} out replicates that only one of the two has")
        return pairs, notes

    def _workloads(self) -> dict[str, str]:
        """Return the first side's workloads that the second has: by name or else by content."""
        first, second = (
            {cell.row["workload"]: cell.row["trace_checksum"] for cell in cells} for cells in self.sides
        )
        found = {}
        for name, checksum in first.items():
            same = [other for other, content in second.items() if content == checksum and other not in first]
            if name in second:
                if second[name] != checksum:
                    contents = f"{checksum[:12]} in {self.names[0]}, {second[name][:12]} in {self.names[1]}"
                    raise SweepError(f"{name} is not the same log on both sides: its SHA-256 is {contents}")
                found[name] = name
            elif len(same) == 1:
                found[name] = same[0]
        if not found:
            has = [
                f"{name} has {', '.join(sorted(side))}"
                for name, side in zip(self.names, (first, second), strict=True)
            ]
            raise SweepError(f"the two have no workload in common: {', '.join(has)}")
        return found

    def _by_place(
        self, cells: Sequence[_Cell], called: Mapping[str, str]
    ) -> dict[_Place, dict[tuple[str, int], _Cell]]:
        """Return a side's cells by workload, configuration and replicate.

        Raises
        ------
        SweepError
            If two configurations of a workload have the same values of the parameters `apart`.
        """
        places: dict[_Place, dict[tuple[str, int], _Cell]] = {}
        for cell in cells:
            row = cell.row
            if row["workload"] not in called:
                continue
            replicates = places.setdefault((called[row["workload"]], cell.configuration(self.apart)), {})
            before = replicates.setdefault((row["replicate"], row["seed"]), cell)
            if before.row["configuration_id"] != row["configuration_id"]:
                raise SweepError(
                    "several configurations of a side cannot be told apart by their parameters",
                    hint="name more of their parameters with --configuration",
                )
        return places

    def combined(self, pairs: Mapping[_Place, _Pairs], metric: str) -> pa.Table:
        """Return one table of cells of both sides, as a ranking reads it."""
        column = f"metric.{metric}"
        return pa.Table.from_pylist(
            [
                {
                    "workload": workload,
                    "configuration_id": f"{number}:{cell.row['configuration_id']}",
                    "replicate": f"{label}, {seed}",
                    "state": cell.row["state"],
                    column: math.nan if cell.row[column] is None else cell.row[column],
                    **{
                        PARAMETER_PREFIX + name: value if isinstance(value, _PLAIN) else str(value)
                        for name, value in zip(self.apart, configuration, strict=True)
                    },
                    PARAMETER_PREFIX + _SIDE: number,
                }
                for (workload, configuration), replicates in pairs.items()
                for (label, seed), cells in replicates.items()
                for number, cell in enumerate(cells)
            ]
        )

    def rows(self, ranking: Ranking) -> Iterable[dict[str, Any]]:
        """Yield a row for each comparison, from the two rows that a ranking has of it."""
        for workload, rows in ranking.strata.items():
            of = {(row[PARAMETER_PREFIX + _SIDE], *self._key(row)): row for row in rows}
            for row in rows:
                if row[PARAMETER_PREFIX + _SIDE] == 0:
                    continue
                base = of[0, *self._key(row)]
                yield {
                    "workload": workload,
                    **{name: row.get(PARAMETER_PREFIX + name) for name in self.apart},
                    "n": row["pairs"],
                    "first_mean": base["mean"],
                    "second_mean": row["mean"],
                    **{name: row[name] for name in (*PAIRED, "p_value")},
                    "verdict": Verdict.FAILED.value if base["failures"] else row["verdict"],
                }

    def _key(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row.get(PARAMETER_PREFIX + name) for name in self.apart)

    def differing(self) -> dict[str, tuple[Any, Any]]:
        """Return the parameters with one value on each side, and another on the other."""
        found = {}
        for name in dict.fromkeys(name for cells in self.sides for name in row_parameters(cells[0].row)):
            values = [
                {repr(one): one for one in (cell.parameters.get(name) for cell in cells)}
                for cells in self.sides
            ]
            # The path of a log may differ; its content was compared.
            if name in self.apart or name == "trace" or values[0].keys() == values[1].keys():
                continue
            if len(values[0]) == len(values[1]) == 1:
                found[name] = (next(iter(values[0].values())), next(iter(values[1].values())))
        return found


def _without_value(combined: pa.Table, names: tuple[str, str], metric: str) -> Iterable[str]:
    """Yield remarks on runs of either side that failed, or have no value of the metric."""
    rows = combined.to_pylist()
    for number, name in enumerate(names):
        side = [row for row in rows if row[PARAMETER_PREFIX + _SIDE] == number]
        done = [row for row in side if row["state"] == "done"]
        if len(done) < len(side):
            failed = f"{len(side) - len(done)} of {len(side)} runs of {name} failed"
            yield f"{failed}: a comparison with failed runs has no verdict"
        if undefined := sum(not math.isfinite(row[f"metric.{metric}"]) for row in done):
            yield f"{undefined} of {len(side)} runs of {name} gave no {metric}"
