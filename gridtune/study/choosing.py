"""Choosing a policy for a log on its first part, and judging it on the rest."""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gridtune.batch.policies.queue_order import ROLLOUT
from gridtune.core.system import SuggestedSpace, default_system, starter_windows
from gridtune.core.user_code.plugins import load_plugins
from gridtune.errors import SweepError
from gridtune.report.answer import Answer
from gridtune.report.labels import configuration_label
from gridtune.report.rankings.ranking import Ranking
from gridtune.report.summarising import summarise
from gridtune.report.summary import Summary
from gridtune.study.export import exported_configuration
from gridtune.study.run import FactsWriter
from gridtune.study.stored import StoredSweep, read_sweep
from gridtune.sweep.execution.executors import Executor
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
_ROLLOUTS = (
    "rollout(objective=index, moves=60, window_by=orders, backlog=100, arrivals=5)",
    "rollout(objective=balanced, moves=60)",
    "rollout",
)
_RULES = ("f1", "unicef", "saf", "wfp3", "sjf", "xfactor", "f4")
_BY_AREA = "rollout(objective=area, moves=60)"
_GUARDS = (None, 172_800, 345_600)
#: Parameters that a policy consists of.
_POLICY = ("order", "backfill", "guard")
#: Share of the budget that conservative backfilling may take.
_CONSERVATIVE = 0.5
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
        What was not tried, as the budget was spent.
    chosen
        The answer on the part that it was chosen on.
    judged
        The answer on the rest; None if the policy is the baseline.
    jobs
        Jobs of the two parts.
    exported
        The policy as `gridtune results export` writes it, with both answers.
    seconds
        Wall-clock seconds that all of it took.
    """

    parameters: Mapping[str, Any]
    tried: int
    left_out: Sequence[str]
    chosen: Answer
    judged: Answer | None
    jobs: tuple[int, int]
    exported: Mapping[str, Any]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return it in JSON's types."""
        return {
            "parameters": dict(self.parameters),
            "tried": self.tried,
            "left_out": list(self.left_out),
            "jobs": list(self.jobs),
            "chosen": self.chosen.as_dict(),
            "judged": None if self.judged is None else self.judged.as_dict(),
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        policy = configuration_label(self.parameters, list(self.parameters))
        text = f"{self.chosen.best}: chosen from {self.tried} policies on the first {self.jobs[0]:,} jobs"
        if self.judged is not None and not self.judged.is_confirmed:
            text = f"{policy}: {text}, not confirmed on the rest"
        return f"{text}; not tried in the budget: {', '.join(self.left_out)}" if self.left_out else text

    def _repr_html_(self) -> str:
        answer = self.judged or self.chosen
        lines = [str(self), answer.advice, *(f"{name}: {line}" for name, line in answer.lines)]
        return "".join(f"<p>{html.escape(line)}</p>" for line in lines)


@dataclass
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
    """

    log: Workload
    folder: Path
    starter: SuggestedSpace
    options: Mapping[str, Any]
    plugins: Sequence[str]
    costs: dict[str, float] = field(default_factory=dict)

    def run(self, dimensions: Mapping[str, Any], baseline: Mapping[str, Any], **fixed: Any) -> None:
        """Run what is missing of a space; `costs` has the seconds of its configurations afterwards."""
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
        result = run_space(plan, directory=self.folder, observers=[FactsWriter()], **self.options)
        self.costs = {}
        for cell in result.results:
            key = cell.configuration_id
            self.costs[key] = self.costs.get(key, 0.0) + cell.seconds

    def try_policies(
        self, own: Sequence[str], deadline: float, rest: float, say: Callable[[str], object]
    ) -> list[str]:
        """Try one order after another until the deadline; return what is left out.

        `rest` is the size of the other part to this one: two policies will be replayed on it.
        """
        base = self.starter.baseline
        informed = "sjf" in self.starter.dimensions["order"]
        usual = [*_ROLLOUTS, *_RULES, _BY_AREA] if informed else self.starter.dimensions["order"]
        orders = [order for order in dict.fromkeys([*own, *usual]) if order != base["order"]]
        backfills = ["easy", "conservative"] if informed else ["easy"]
        done, left_out = [str(base["order"])], list[str]()

        def run() -> float:
            """Run what is missing; return the seconds of the slowest policy."""
            guard = {"guard": None} if done[1:] else {}
            self.run(_dimensions(done, backfills), {**base, **guard})
            return max(self.costs.values())

        def seconds_left() -> float:
            return max(0.0, deadline - time.monotonic() - 2 * slowest * rest)

        say(f"trying {done[0]} on the first {len(self.log):,} jobs")
        slowest = run()
        rules = [order for order in orders if not order.startswith(ROLLOUT)]
        if informed and slowest * len(_GUARDS) * len(rules) > _CONSERVATIVE * seconds_left():
            backfills, left_out = ["easy"], ["conservative backfilling"]
            slowest = run()
        for number, order in enumerate(orders):
            policies = len(_GUARDS) * (len(backfills) if order in rules else 1)
            if slowest * policies > seconds_left():
                return [*left_out, *orders[number:]]
            say(f"trying {order}: {policies} policies, {seconds_left():.0f} s left")
            done.append(order)
            slowest = run()
        return left_out

    def judged(self, policy: Mapping[str, Any], baseline: Mapping[str, Any]) -> Answer:
        """Return the answer on a policy against the baseline on a part of the log."""
        varied = {name: policy.get(name) for name in _POLICY if policy.get(name) != baseline.get(name)}
        if "order" in varied:
            orders = [baseline["order"], policy["order"]]
            only = {"when": {"order": [policy["order"]]}}
            dimensions = {"order": orders} | {
                name: {"grid": [value], **only} for name, value in varied.items() if name != "order" and value
            }
            shared = {
                name: value for name, value in baseline.items() if name != "order" and name not in varied
            }
            self.run(dimensions, {"order": baseline["order"]}, **shared)
        else:
            dimensions = {name: [baseline.get(name), value] for name, value in varied.items()}
            shared = {name: value for name, value in baseline.items() if name not in varied}
            self.run(dimensions, {name: baseline.get(name) for name in varied}, **shared)
        summary, ranking = _findings(read_sweep(self.folder))
        row = next(row for row in ranking.rows if not row["is_baseline"])
        return summary.answer(ranking, row)


def choose(
    log: Workload | str | Path,
    *,
    budget: float = 300.0,
    share: float = 0.4,
    processors: int | None = None,
    order: Sequence[str] = (),
    plugin: Sequence[str | Path] = (),
    workers: int | None = None,
    address: str | None = None,
    executor: Executor | None = None,
    out: str | Path | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> Choice:
    """Choose the policy with the least `delay_index` on the first part of a log, and judge it on the rest.

    Policies are tried order by order, each with every guard and backfilling, until the budget is spent. A
    policy that breaks a bound is not chosen. The same call resumes where it was stopped; with a larger budget
    it tries more.

    Parameters
    ----------
    log
        The jobs: a log, a file or a name that `gridtune traces list` shows.
    budget
        Seconds for all of it; a policy that has begun is finished.
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
    >>> gt.choose("my_log.swf.gz", budget=60).parameters  # doctest: +SKIP
    {'order': 'sjf', 'backfill': 'easy'}
    """
    load_plugins([Path(path) for path in plugin])
    trace = str(log.source or log.name) if isinstance(log, Workload) else str(log)
    folder = Path("results") / f"choose-{space_name(trace)}" if out is None else Path(out)
    log = workload_of(log)
    options = {"workers": workers, "address": address, "executor": executor}
    plugins = [str(Path(path).resolve()) for path in plugin]
    began = time.monotonic()
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
        _Part(part, folder / name, starter, options, plugins)
        for part, name in zip(logs, ("first", "rest"), strict=True)
    )
    left_out = first.try_policies(order, began + budget, (1 - share) / share, say)
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
    seconds = time.monotonic() - began
    return Choice(policy, tried, left_out, chosen, judged, (jobs, len(rest.log)), exported, seconds)


def _dimensions(orders: Sequence[str], backfills: Sequence[str]) -> dict[str, Any]:
    """Return every order with every backfilling that it goes with and every guard; the first has none."""
    rules = [order for order in orders if not order.startswith(ROLLOUT)]
    return {
        "order": list(orders),
        "backfill": {"grid": list(backfills), "when": {"order": rules}},
        **({"guard": {"grid": list(_GUARDS), "when": {"order": list(orders[1:])}}} if orders[1:] else {}),
    }


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
