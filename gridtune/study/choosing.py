"""Choosing a policy for a log on its first part, and judging it on the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from gridtune.batch.policies.queue_order import ROLLOUT
from gridtune.batch.policies.rollout import RECOMMENDED
from gridtune.core.system import SuggestedSpace, default_system, starter_windows
from gridtune.core.user_code.plugins import load_plugins
from gridtune.errors import SweepError
from gridtune.report.answer import GAINS, Answer
from gridtune.report.labels import configuration_label
from gridtune.report.rankings.ranking import Ranking
from gridtune.report.summarising import summarise
from gridtune.report.summary import Summary
from gridtune.study.export import exported_configuration
from gridtune.study.run import FactsWriter
from gridtune.study.stored import StoredSweep, read_sweep
from gridtune.sweep.execution.executors import Executor
from gridtune.sweep.execution.observing import Progress
from gridtune.sweep.run import run_space
from gridtune.sweep.space.constraints import Kept
from gridtune.sweep.space.overriding import SpaceObjects
from gridtune.sweep.space.plan import plan_space
from gridtune.sweep.space.starter import space_name
from gridtune.workload.cleaning import clean
from gridtune.workload.files import workload_of
from gridtune.workload.workload import Workload

#: What policies are chosen by, and what else the answers look at.
OBJECTIVES = (*("delay_index", "bounded_slowdown_mean", "area_weighted_response", "wait_mean", "wait_max"),)
#: In the order in which they are tried. Rollouts go with EASY alone.
_ROLLOUTS = (RECOMMENDED, "rollout(objective=balanced, moves=60)", "rollout")
_RULES = ("f1", "unicef", "saf", "wfp3", "sjf", "xfactor", "f4")
_BY_AREA = "rollout(objective=area, moves=60)"
_GUARDS = (None, 172_800, 345_600)
#: Parameters that a policy consists of.
_POLICY = ("order", "backfill", "guard")
_HINT = "`gridtune report FOLDER` shows the error"
#: Parameters of a cell that are about how it is measured.
_MEASURED = ("window_mode", "by_class", "classes")


@dataclass(frozen=True)
class Choice:
    """A policy that was chosen for a log.

    Attributes
    ----------
    parameters
        The policy to use: order, backfilling and guard, as far as they are set. It is the baseline where the
        gain of the policy that was chosen is not confirmed on the rest.
    tried
        How many policies were tried.
    left_out
        What was not tried, as more than so many policies were not asked for.
    chosen
        The answer on the part that it was chosen on.
    judged
        The answer on the rest; None if the policy is the baseline.
    jobs
        Jobs of the two parts.
    exported
        The policy as `gridtune results export` writes it, with both answers.
    """

    parameters: Mapping[str, Any]
    tried: int
    left_out: Sequence[str]
    chosen: Answer
    judged: Answer | None
    jobs: tuple[int, int]
    exported: Mapping[str, Any]

    @property
    def answer(self) -> Answer:
        """The policy to use, its gain on the jobs that had no part in the choice, and who loses."""
        first, rest = (f"{jobs:,} jobs" for jobs in self.jobs)
        origin = f"the best of {self.tried} policies on the first {first}"
        if self.tried == 1:
            alone = f"Keep the baseline: no other policy was tried, as an order counts as {len(_GUARDS)}."
            return replace(self.chosen, size=f"{self.chosen.size}: on the first {first}", advice=alone)
        if self.judged is None:
            return replace(self.chosen, size=f"{self.chosen.size}: {origin}")
        if self.judged.is_confirmed:
            size = f"{self.judged.size}; on the last {rest}, which had no part in the choice"
            return replace(self.judged, size=size, details=[*self.judged.details, ("chosen", origin)])
        why = "breaks a bound" if self.judged.verdict in GAINS else "has no confirmed gain"
        policy = configuration_label(self.parameters, list(self.parameters))
        advice = f"Keep {policy}: {self.judged.best}, {origin}, {why} on the last {rest}."
        return replace(self.judged, best="", advice=advice)

    def as_dict(self) -> dict[str, Any]:
        """Return it in JSON's types."""
        return {
            "parameters": dict(self.parameters),
            "tried": self.tried,
            "left_out": list(self.left_out),
            "jobs": list(self.jobs),
            "chosen": self.chosen.as_dict(),
            "judged": None if self.judged is None else self.judged.as_dict(),
            **self.answer.as_dict(),
        }

    def __repr__(self) -> str:
        return f"{self.answer}" + (f"\n  not tried: {', '.join(self.left_out)}" if self.left_out else "")

    def _repr_html_(self) -> str:
        return self.answer.paragraphs()


@dataclass(frozen=True)
class _Part:
    """A part of the log, and the sweep over it.

    Attributes
    ----------
    log
        Its jobs.
    folder
        Where the sweep is kept.
    starter
        What the system proposes for the first part: its bounds and classes are those of both.
    options
        As of `run_space`: workers, executor, address.
    plugins
        Files with policies of the user's own.
    console
        Shows the progress of the sweep.
    """

    log: Workload
    folder: Path
    starter: SuggestedSpace
    options: Mapping[str, Any]
    plugins: Sequence[str]
    console: Console | None

    def run(self, dimensions: Mapping[str, Any], baseline: Mapping[str, Any], **fixed: Any) -> None:
        """Run what is missing of a space: one replay a policy, measured by blocks of consecutive jobs."""
        space = {
            "name": self.folder.name,
            "description": f"Which policy is best on {self.log.name}?",
            "fixed": {"trace": self.log, "window_mode": "continuous", **self.starter.fixed, **fixed},
            "dimensions": dimensions,
            "replicates": {"windows": starter_windows(len(self.log))},
            "objective": list(OBJECTIVES),
            "baseline": baseline,
            "subject_to": self.starter.subject_to,
            "classes": self.starter.classes,
            "plugins": list(self.plugins),
        }
        objects = SpaceObjects(self.folder)
        plan = plan_space(objects.replaced(space))
        objects.write()
        with Progress(self.console) as progress:
            options = {**self.options, "observers": [FactsWriter(), progress], "stage": progress.stage}
            run_space(plan, directory=self.folder, **options)

    def try_policies(
        self, own: Sequence[str], policies: int | None, say: Callable[[str], object]
    ) -> list[str]:
        """Try the baseline and others, so many at most; return what is left out.

        An order is tried with each guard. Conservative backfilling comes last: it takes longest.
        """
        base = self.starter.baseline
        informed = "sjf" in self.starter.dimensions["order"]
        usual = [*_ROLLOUTS, *_RULES, _BY_AREA] if informed else self.starter.dimensions["order"]
        orders = [str(order) for order in dict.fromkeys([base["order"], *own, *usual])]
        rules = [order for order in orders if informed and not order.startswith(ROLLOUT)]
        tried: dict[str, list[str]] = {"easy": [], "conservative": []}
        number, left_out = 0, []
        pairs = [*((one, "easy") for one in orders), *((one, "conservative") for one in rules)]
        for order, backfill in pairs:
            number += 1 if order == base["order"] else len(_GUARDS)
            if number == 1 or policies is None or number <= policies:
                tried[backfill].append(order)
            else:
                left_out.append(order if backfill == "easy" else f"{order} with conservative backfilling")
        others, careful = tried["easy"][1:], tried["conservative"]
        dimensions = {
            "order": tried["easy"],
            **({"guard": {"grid": list(_GUARDS), "when": {"order": others}}} if others else {}),
            **({"backfill": {"grid": list(tried), "when": {"order": careful}}} if careful else {}),
        }
        fixed = {name: value for name, value in base.items() if name not in dimensions}
        shown = {name: base.get(name) for name in dimensions}
        say(f"trying {len(tried['easy'])} orders on the first {len(self.log):,} jobs")
        self.run(dimensions, shown, **fixed)
        return left_out

    def judged(self, policy: Mapping[str, Any], baseline: Mapping[str, Any]) -> Answer:
        """Return the answer on a policy against the baseline on a part of the log."""
        varied = {name: policy.get(name) for name in _POLICY if policy.get(name) != baseline.get(name)}
        shared = {name: value for name, value in baseline.items() if name not in varied}
        if "order" in varied:
            orders = [baseline["order"], policy["order"]]
            only = {"when": {"order": [policy["order"]]}}
            dimensions = {"order": orders} | {
                name: {"grid": [value], **only} for name, value in varied.items() if name != "order" and value
            }
            self.run(dimensions, {"order": baseline["order"]}, **shared)
        else:
            dimensions = {name: [baseline.get(name), value] for name, value in varied.items()}
            self.run(dimensions, {name: baseline.get(name) for name in varied}, **shared)
        summary, ranking = _findings(read_sweep(self.folder))
        row = next(row for row in ranking.rows if not row["is_baseline"])
        return summary.answer(ranking, row)


def choose(
    log: Workload | str | Path,
    *,
    policies: int | None = None,
    share: float = 0.4,
    processors: int | None = None,
    order: Sequence[str] = (),
    plugin: Sequence[str | Path] = (),
    workers: int | None = None,
    address: str | None = None,
    executor: Executor | None = None,
    out: str | Path | None = None,
    console: Console | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> Choice:
    """Choose the policy with the least `delay_index` on the first part of a log, and judge it on the rest.

    A policy is an order, a guard and a backfilling. One that breaks a bound is not chosen. The same call
    resumes where it was stopped.

    Parameters
    ----------
    log
        The jobs: a log, a file or a name that `gridtune traces list` shows.
    policies
        Try at most so many, the most promising first; by default all, about 50. The baseline is one, and
        each other order three: without a guard and with two.
    share
        Share of the jobs, the first ones, to choose on; above 0 and below 1.
    processors
        Size of the machine, if the log does not contain it.
    order
        Queue orders to try first, beside the usual ones.
    plugin
        Python files that register them.
    workers
        Cells at once; by default as many as there are processors.
    address
        A running Ray cluster to join; by default RAY_ADDRESS, else a local one.
    executor
        Place of the cells: "inline" for this process, "ray" for workers, "auto" for the faster one.
    out
        Folder of the two sweeps; by default results/choose-NAME.
    console
        Shows the progress of the sweeps.
    say
        Called with a line on each step.

    Returns
    -------
    Choice
        The policy, with its answer on the rest.

    Raises
    ------
    SweepError
        If a part of the log is too short to be judged by windows.

    Examples
    --------
    >>> gt.choose("my_log.swf.gz", policies=20).parameters  # doctest: +SKIP
    {'order': 'sjf', 'backfill': 'easy'}
    """
    load_plugins([Path(path) for path in plugin])
    trace = str(log.source or log.name) if isinstance(log, Workload) else str(log)
    folder = Path("results") / f"choose-{space_name(trace)}" if out is None else Path(out)
    log = workload_of(log)
    options = {"workers": workers, "address": address, "executor": executor}
    plugins = [str(Path(path).resolve()) for path in plugin]
    cleaned, _ = clean(log, processors=processors)
    jobs = int(len(cleaned) * share)
    logs = [
        cleaned.take(part, name=f"{log.name}-{word}")
        for part, word in ((slice(0, jobs), "first"), (slice(jobs, None), "rest"))
    ]
    for part in logs:
        if starter_windows(len(part)) is None:
            raise SweepError(
                f"{len(part):,} jobs of {len(cleaned):,} are too few to compare policies on",
                path=log.source,
                hint="give another --share, or a longer log; `gridtune init` can use copies of a short one",
            )
    system = default_system()
    starter = system.suggest_space(logs[0], processors or log.machine_processors)
    assert starter is not None
    first, rest = (
        _Part(part, folder / name, starter, options, plugins, console)
        for part, name in zip(logs, ("first", "rest"), strict=True)
    )
    left_out = first.try_policies(order, policies, say)
    stored = read_sweep(first.folder)
    chosen, parameters, rank, tried = _best(stored)
    policy = {name: parameters[name] for name in _POLICY if parameters.get(name) is not None}
    judged = None
    if policy != starter.baseline:
        say(f"judging on the other {len(rest.log):,} jobs")
        judged = rest.judged(policy, starter.baseline)
    if judged is not None and not judged.is_confirmed:
        policy = dict(starter.baseline)
        _, _, rank, _ = _best(stored, only_baseline=True)
    exported = dict(exported_configuration(stored, rank=rank))
    measured = {name: value for name, value in exported["parameters"].items() if name not in _MEASURED}
    exported["parameters"] = {**measured, "trace": trace}
    exported["judged"] = None if judged is None else judged.as_dict()
    return Choice(policy, tried, left_out, chosen, judged, (jobs, len(rest.log)), exported)


def _best(stored: StoredSweep, *, only_baseline: bool = False) -> tuple[Answer, Mapping[str, Any], int, int]:
    """Return the answer, the parameters and the rank of the best policy, and the number of those tried.

    A bound counts as broken where it is shown to be: with a few windows hardly any is shown to be kept.
    """
    summary, ranking = _findings(stored)
    rows = ranking.rows
    able = [
        row
        for row in rows
        if row["rank"] is not None and (row["is_baseline"] if only_baseline else row["subject_to"] != Kept.NO)
    ]
    if not able:
        raise SweepError("no policy has a result for every window", path=stored.directory, hint=_HINT)
    best = min(able, key=lambda row: (row["mean"], not row["is_baseline"]))
    rank = [row for row in rows if row["rank"] is not None].index(best) + 1
    parameters = next(
        one.configuration for one in stored.results if one.configuration_id == best["configuration_id"]
    )
    answer = summary.answer(ranking, best)
    return answer, parameters, rank, len(rows)


def _findings(stored: StoredSweep) -> tuple[Summary, Ranking]:
    """Return the findings of a part, and its ranking by the first objective."""
    summary = summarise(stored.table, stored.facts, stored.results)
    if OBJECTIVES[0] not in summary.rankings:
        raise SweepError("no policy could be replayed", path=stored.directory, hint=_HINT)
    return summary, summary.rankings[OBJECTIVES[0]]
