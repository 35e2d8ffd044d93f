"""`simulate`: replay a workload on a machine under a queue order and a backfilling rule.

Dependencies make it a closed loop: a job is submitted after its predecessor has ended, as simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from gridtune.arguments import require, require_number
from gridtune.batch.checks import check_order, machines_of
from gridtune.batch.estimates import Kill, estimate_walltimes, kills_jobs
from gridtune.batch.partitions import Partitions, separate_starts
from gridtune.batch.policies import (
    SWITCHES,
    Backfilling,
    Policy,
    QueueOrder,
    get_backfilling,
    get_queue_order,
)
from gridtune.batch.policies.rollout import Rollout, get_order
from gridtune.batch.power import PowerPolicy
from gridtune.batch.predictors import PREDICTORS, Predictor
from gridtune.batch.predictors.replayed import PredictedReplay, WatchedReplay
from gridtune.batch.simulator.events import BACKFILL, EXTRA, FROZEN, PASS_PER_EVENT, STRICT, JobLog
from gridtune.batch.simulator.nodes import NEVER, PoweredNodes
from gridtune.batch.simulator.ranked import ranked_schedule, static_ranks
from gridtune.batch.simulator.scores import (
    Facts,
    ScoreInputs,
    Undefined,
    check_scores,
    compile_score,
    facts_of,
    naming_jobs,
    score_inputs,
)
from gridtune.core.remarks import WALLTIMES, doubts, kill_remarks, log_remarks, lost_work
from gridtune.core.schedules.schedule import JobState, Schedule
from gridtune.errors import SimulationError
from gridtune.types import FloatArray, Int32Array, IntArray
from gridtune.workload.workload import Workload

#: Whether jobs are submitted as the log has it, or after their predecessors.
Dependencies = Literal["ignore", "log"]


def models_of(partitions: str = "pooled", dependencies: str = "ignore") -> Collection[str]:
    """Return what a replay models of what a log may say."""
    parts = ("partitions",) if partitions == "separate" else ()
    after = ("dependencies", "think_times") if dependencies == "log" else ()
    return (WALLTIMES, *parts, *after)


def schedule_notes(
    workload: Workload,
    run: IntArray,
    *,
    kill: Kill,
    orders: Iterable[QueueOrder | Rollout] = (),
    walltime: str = "log",
    models: Collection[str] = (WALLTIMES,),
) -> dict[str, Any]:
    """Return the notes of a schedule.

    Parameters
    ----------
    workload
        The jobs.
    run
        Shape (n,), seconds that each runs in the schedule.
    kill
        As it was asked for.
    orders
        Queue orders that were used.
    walltime
        The kind of walltimes that the scheduler got.
    models
        What was modelled of what the log says.
    """
    contents = workload.contents
    notes: dict[str, Any] = dict(log_remarks(contents, models))
    if walltime == "log" and contents.equal_requests and contents.jobs:
        blind = [order.label for order in orders if "walltime" in order.fields]
        notes |= {"orders": blind} if blind else {}
    notes |= kill_remarks(contents, killing=kills_jobs(workload, kill))
    return notes | lost_work(workload.run_time, run, workload.processors)


def simulate(
    workload: Workload,
    *,
    processors: int | None = None,
    order: str | QueueOrder | Rollout | Policy | Callable[..., Any] = "fcfs",
    backfill: str | Backfilling = "easy",
    fill_order: str | QueueOrder | Callable[..., float] | None = None,
    walltime: str = "log",
    noise: float = 0.0,
    predictor: str | Callable[[], Predictor] = "last-two",
    kill: Kill = "auto",
    half_life: float | None = None,
    guard: int | None = None,
    undefined_scores: Undefined = "fail",
    rng: np.random.Generator | None = None,
    partitions: Partitions = "pooled",
    partition_processors: Mapping[str, int] | None = None,
    dependencies: Dependencies = "ignore",
    power: PowerPolicy | None = None,
    **switches: bool | None,
) -> Schedule:
    """Replay a workload on a pool of identical processors.

    Jobs are rigid and never preempted. At an instant all completions come first, then all submissions,
    then one scheduling pass. No policy sees a job's run time.

    Parameters
    ----------
    workload
        Jobs in submit order, each with a run time and a number of processors (see `gridtune.clean`).
    processors
        The machine's size; by default what the log says.
    order
        A queue order's name, with parameters if it has any (`"wfp3(exponent=2)"`), or the function itself;
        `"rollout"`, the policy that looks ahead (see `Rollout`); or a policy that decides (see `Policy`).
    backfill
        A backfilling variant's name; see `gridtune.batch.policies.backfilling_names`.
    fill_order
        EASY: the order in which candidates are tried, by default the queue's (`"sjf"` gives SJBF).
    walltime
        "log", "exact", "noise" or "predicted": the estimates that the scheduler gets (see
        `estimate_walltimes`). Predicted ones, in orders and reservations, go with EASY or no backfilling.
    noise
        For "noise": the standard deviation of the walltime's logarithm.
    predictor
        A predictor's name, or a function that makes one: the source of jobs' `prediction` and `early_end`, of
        durations of rollouts and of predicted walltimes (see `gridtune.batch.predictors`).
    kill
        True: a job is killed at its walltime. False: it continues, and the scheduler expects it to end at any
        moment. "auto" decides from the whole log that the jobs are from: no if more than 1 % of
        its jobs with a requested time outlived it by more than five minutes (`kills_jobs`).
    half_life
        Fair share: seconds after which past use counts half; with None it always counts in full.
    guard
        Seconds; jobs that have waited for longer go first under every order, the oldest first.
    undefined_scores
        What a score of an expression or a user's function that is infinite or not a number does: "fail" is an
        error that names the job and the instant, "last" puts such a job last (−∞ first).
    rng
        The run's stream of random numbers; needed for `"random"` and for noise.
    partitions
        "pooled": all jobs on one machine. "separate": each partition is a machine of its own, with its own
        queue; the schedule is of all of them together.
    partition_processors
        With separate partitions: their sizes by name (or number); see `partition_sizes` for the others.
    dependencies
        "ignore": jobs are submitted as the log has it. "log": jobs that depend on another are submitted after
        its end in the simulation (`closed_loop`); the schedule's workload has these submissions, in order.
    power
        Nodes that are switched off when idle, and what they draw; by default every processor is always there
        and nothing is measured. A job on nodes that are not on starts when they are.
    switches
        `extra`, `strict`, `frozen`, `pass_per_event` and `compression`: True or False overrides the switch of
        the backfilling variant (see `Backfilling`), None keeps it.

    Raises
    ------
    SimulationError
        If the workload cannot be simulated as it is; the message names the first faulty job and a rule.
    PolicyError
        If a policy's name or parameter is unknown, its function does not compile, it does not score a job, or
        the predictor fails.

    Examples
    --------
    >>> import gridtune as gt
    >>> log = gt.generate_workload("poisson", jobs=100, seed=1)
    >>> gt.simulate(log, order="sjf", backfill="easy")
    Schedule('poisson', 100 jobs, 4 processors)
    """
    require(workload, Workload, "workload", error=SimulationError, hint="read_workload(PATH) reads a log")
    _check_numbers(noise, guard, rng)
    if dependencies not in get_args(Dependencies):
        raise SimulationError(f"dependencies must be 'ignore' or 'log', got {dependencies!r}")
    policy = _Policy(
        queue=get_order(order),
        fill=None if fill_order is None else get_queue_order(fill_order),
        rule=get_backfilling(backfill, **switches),
        predictor=predictor,
        plans=walltime == "predicted",
        half_life=half_life or 0.0,
        guard=guard,
        undefined=undefined_scores,
    )
    check_order(
        *(policy.queue, policy.fill, policy.rule, walltime),
        power=None if power is None else "on",
        undefined_scores="last" if undefined_scores == "last" else None,
    )
    if isinstance(predictor, str):
        PREDICTORS.find(predictor)
    sizes = machines_of(workload, processors, partitions, partition_processors)
    estimates, guessed = estimate_walltimes(workload, walltime, noise, rng)
    killing = kills_jobs(workload, kill)
    run = np.minimum(workload.run_time, estimates) if killing else np.ascontiguousarray(workload.run_time)
    known = _Known(run, estimates, _draw_lots(workload, policy.orders, rng))
    nodes: PoweredNodes | None = None

    def starts(jobs: Workload, index: IntArray | slice) -> IntArray:
        """Return the starts of these jobs; `index` has their rows in the workload."""
        nonlocal nodes
        if power is not None:  # each replay begins with all nodes on
            nodes = power.machine_nodes(sizes, policy.rule, len(workload))
        if isinstance(sizes, int):
            return policy.start_times(jobs, known.take(index), sizes, nodes)
        row = np.arange(len(workload))[index]
        return separate_starts(
            jobs,
            sizes,
            policy.orders,
            lambda rows, size: policy.start_times(jobs.take(rows), known.take(row[rows]), size, None),
        )

    left_out = 0
    if dependencies == "ignore":
        start = starts(workload, slice(None))
    else:
        workload, start, index, left_out = _closed_loop(workload, run, starts)
        run, estimates = run[index], estimates[index]
    settings: dict[str, Any] = {
        "order": policy.queue.label,
        "backfill": backfill if isinstance(backfill, str) else policy.rule.kind,
        "fill_order": None if policy.fill is None else policy.fill.label,
        "walltime": walltime,
        "noise": noise,
        "predictor": predictor if isinstance(predictor, str) else predictor.__name__,
        "kill": killing,
        "half_life": half_life,
        "guard": guard,
        "guessed_walltimes": guessed,
        "guessed_processors": workload.unknown_processors,
        **{name: getattr(policy.rule, name) for name in SWITCHES},
    }
    models = models_of(partitions, dependencies)
    notes = schedule_notes(workload, run, kill=kill, orders=policy.orders, walltime=walltime, models=models)
    if dependencies == "log":
        settings["dependencies"] = dependencies
        remark = f"{left_out:,} jobs depend on jobs that are not among those before them"
        notes |= {"dependencies": remark} if left_out else {}
    machine = sizes if isinstance(sizes, int) else sum(sizes.values())
    waits = bool((start > workload.submit_time).any())
    stated = workload.machine_processors
    notes |= doubts(workload.contents, machine, stated=stated is not None, waits=waits)
    if not isinstance(sizes, int):
        settings["partitions"] = {workload.partition_names.get(n, str(n)): size for n, size in sizes.items()}
        remark = f"{len(sizes):,} machines of {machine:,} processors in all"
        if stated is not None and machine > stated:
            remark += f", more than the log's {stated:,}: nodes that several share count in each"
        notes["partitions"] = remark
    states = None
    if power is not None and nodes is not None:
        settings["power"] = asdict(power)
        states = power.states_of(nodes, int(workload.submit_time[:1].sum()))
    state = (run < workload.run_time) * np.int8(JobState.KILLED)
    return Schedule(workload, machine, start, start + run, estimates, state, settings, notes, states)


def _check_numbers(noise: float, guard: int | None, rng: np.random.Generator | None) -> None:
    require_number(noise, "noise", error=SimulationError)
    if guard is not None:
        require_number(guard, "guard", whole=True, least=0, error=SimulationError)
    if rng is not None:
        hint = "pass numpy.random.default_rng(7)"
        require(rng, np.random.Generator, "rng", error=SimulationError, hint=hint)


@dataclass(frozen=True)
class _Policy:
    """A policy with its predictor, as `simulate` takes them; `plans` if predictions take requests' place."""

    queue: QueueOrder | Rollout
    fill: QueueOrder | None
    rule: Backfilling
    predictor: str | Callable[[], Predictor]
    plans: bool
    half_life: float
    guard: int | None
    undefined: Undefined

    @property
    def orders(self) -> list[QueueOrder | Rollout]:
        """The queue's order, and that of backfilling where it is another."""
        return [self.queue] if self.fill is None else [self.queue, self.fill]

    @property
    def flags(self) -> int:
        """The backfilling rule as kernels take it."""
        flags = (
            (self.rule.kind == "easy", BACKFILL),
            (self.rule.extra, EXTRA),
            (self.rule.strict, STRICT),
            (self.rule.frozen, FROZEN),
            (self.rule.pass_per_event, PASS_PER_EVENT),
        )
        return sum(flag for is_set, flag in flags if is_set)

    def new_predictions(
        self,
        submit: IntArray,
        requested: IntArray,
        processors: IntArray,
        facts: Facts,
        planned: IntArray | None,
    ) -> PredictedReplay:
        """Return the predictions of a replay to begin; without a predictor where nothing reads any."""
        if not (self.plans or any(order.predicts for order in self.orders)):
            return PredictedReplay(len(submit))
        if self.predictor == "last-two" and not self.plans and not isinstance(self.queue, Rollout):
            from gridtune.batch.predictors.last_two import LastTwoReplay  # noqa: PLC0415 (for this alone)

            return LastTwoReplay(facts.user)
        asked = {"submit_time": submit, "walltime": requested, "processors": processors}
        asked |= {name: getattr(facts, name) for name in Facts._fields[:4]}
        kind = PREDICTORS.find(self.predictor) if isinstance(self.predictor, str) else self.predictor
        return WatchedReplay(kind, asked, planned)

    def plan_conservatively(
        self,
        log: JobLog,
        machine: int,
        nodes: PoweredNodes | None,
        queue: QueueOrder,
        ranks: Callable[[QueueOrder], Int32Array],
        new_inputs: Callable[[], tuple[ScoreInputs, PredictedReplay]],
    ) -> None:
        """Fill in the start times under conservative backfilling."""
        from gridtune.batch.simulator.conservative import conservative_schedule  # noqa: PLC0415 (for this alone)

        # Every job is planned with the longest time that its nodes may need.
        planned = log
        if nodes is not None and nodes.state["timeout"] != NEVER:
            # A job can hold cores before its start while its nodes boot, and they may be switching off then.
            held = int(nodes.state["boot"] + nodes.state["shutdown"])
            planned = log._replace(walltime=log.walltime + held)
        if queue.static and self.guard is None:
            conservative_schedule(planned, machine, nodes, ranks(queue), self.rule.compression)
        else:
            rank, (inputs, said) = np.arange(len(log.submit), dtype=np.int32), new_inputs()
            score = compile_score(queue)
            conservative_schedule(planned, machine, nodes, rank, self.rule.compression, score, inputs)
            said.check()
            check_scores([queue], inputs, self.undefined)
        if nodes is not None:
            np.add(log.start, nodes.boot_wait, out=log.start)

    def start_times(
        self, workload: Workload, known: _Known, machine: int, nodes: PoweredNodes | None
    ) -> IntArray:
        """Run the kernel that the policy needs, on a clock that starts at the first submission."""
        if len(workload) == 0:
            return np.empty(0, np.int64)
        origin = int(workload.submit_time[0])
        submit, width = workload.submit_time - origin, np.ascontiguousarray(workload.processors)
        facts = cache(partial(facts_of, workload, known.lots))
        walltime, planned = known.walltime, known.walltime.copy() if self.plans else None
        if planned is not None:  # what is predicted takes the place of the requests as jobs are submitted
            walltime = planned.view()
            # Kernels are compiled for one type of each.
            walltime.setflags(write=known.walltime.flags.writeable)
        log = JobLog(submit, known.run, walltime, width, np.empty(len(submit), np.int64))

        def ranks(order: QueueOrder) -> Int32Array:
            return static_ranks(order, submit, walltime, width, facts, undefined=self.undefined)

        def new_inputs() -> tuple[ScoreInputs, PredictedReplay]:
            said = self.new_predictions(submit, known.walltime, width, facts(), planned)
            return score_inputs(submit, walltime, width, facts(), self.half_life, self.guard, said), said

        queue, fill = self.queue, self.fill
        with naming_jobs(workload.job_id):
            if queue.decides and isinstance(queue, QueueOrder):
                from gridtune.batch.simulator.decided import decided_schedule  # noqa: PLC0415 (for these alone)

                decided_schedule(log, machine, queue, new_inputs)
            elif self.rule.kind == "conservative" and not isinstance(queue, Rollout):
                self.plan_conservatively(log, machine, nodes, queue, ranks, new_inputs)
            elif (
                isinstance(queue, QueueOrder)
                and queue.static
                and (fill is None or fill.static)
                and not self.plans
            ):
                fill_rank = None if fill is None else ranks(fill)
                ranked_schedule(log, machine, self.flags, nodes, ranks(queue), fill_rank, self.guard)
            else:
                from gridtune.batch.simulator.scored import scored_schedule  # noqa: PLC0415 (for these orders alone)

                scored_schedule(
                    log,
                    machine,
                    self.flags,
                    nodes,
                    queue,
                    fill,
                    new_inputs,
                    undefined=self.undefined,
                    bounded=self.guard is None and not self.plans,
                )
        return log.start + origin


class _Known(NamedTuple):
    """Columns of the jobs, shape (n,): run times as simulated, the scheduler's estimates, and lots."""

    run: IntArray
    walltime: IntArray
    lots: FloatArray

    def take(self, rows: IntArray | slice) -> _Known:
        """Return the columns of some jobs."""
        return _Known(self.run[rows], self.walltime[rows], self.lots[rows])


def _draw_lots(
    workload: Workload, orders: Iterable[QueueOrder | Rollout], rng: np.random.Generator | None
) -> FloatArray:
    """Draw a number for each job, for the order `random`; zeros without a stream where no order needs it."""
    if rng is not None:
        return rng.random(len(workload))
    for order in orders:
        parts = order.portfolio if isinstance(order, Rollout) else [order]
        if any(part.name == "random" for part in parts):
            raise SimulationError("order 'random' needs rng=, the stream its lots come from")
    return np.zeros(len(workload))


class _FollowUps(NamedTuple):
    """The jobs that depend on another job of the same workload.

    Attributes
    ----------
    row
        Shape (m,): their rows.
    before
        Shape (m,): the row of each one's predecessor, which is smaller.
    think
        Shape (m,): seconds from its end to the submission; -1 where the log only says that the job waits for
        that end.
    left_out
        Jobs whose predecessor is not among those before them.
    """

    row: IntArray
    before: IntArray
    think: IntArray
    left_out: int


def _follow_ups(workload: Workload) -> _FollowUps:
    """Return the dependencies of a workload (SWF fields 17 and 18)."""
    named = np.flatnonzero(workload.column("preceding_job") > 0)
    place = {number: row for row, number in reversed(list(enumerate(workload.job_id.tolist())))}
    wanted = workload.column("preceding_job")[named].tolist()
    before = np.array([place.get(number, -1) for number in wanted], np.int64)
    earlier = (before >= 0) & (before < named)
    think = workload.column("think_time")[named]
    return _FollowUps(named[earlier], before[earlier], think[earlier], int((~earlier).sum()))


def _closed_loop(
    workload: Workload, run: IntArray, starts: Callable[[Workload, IntArray], IntArray]
) -> tuple[Workload, IntArray, IntArray, int]:
    """Replay jobs of which some are submitted after others have ended.

    A job with a think time is submitted that long after its predecessor has ended; one without as in the log,
    or when the predecessor has ended if that is later; always after the predecessor has started.

    The log is replayed until submissions no longer change. No job's start depends on later submissions, so
    every replay is right up to the first submission that was not, and sets that one right: the result is the
    only schedule that agrees with itself, and is reached after at most a replay for each dependent job.

    Parameters
    ----------
    workload, run
        The jobs, and their run times as simulated.
    starts
        Returns the starts of jobs, given with their rows in the workload.

    Returns
    -------
    The jobs with their submissions, in order of these; their starts; their rows in the workload; and the
    number of jobs whose predecessor is not among those before them.
    """
    after = _follow_ups(workload)
    submit = workload.submit_time
    while True:
        index = np.argsort(submit, kind="stable")
        jobs = workload.submitted(submit).take(index)
        ordered = starts(jobs, index)
        start = np.empty_like(ordered)
        start[index] = ordered
        begun, ended = start[after.before], (start + run)[after.before]
        asked = np.where(
            after.think >= 0, ended + after.think, np.maximum(workload.submit_time[after.row], ended)
        )
        following = workload.submit_time.copy()
        following[after.row] = np.maximum(asked, begun + 1)
        if (following == submit).all():
            return jobs, ordered, index, after.left_out
        submit = following
