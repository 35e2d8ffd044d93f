"""Gymnasium environments of a broker: one, or many stepped in one compiled call."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, NamedTuple

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from gridtune.core.cells import environment_parameters
from gridtune.core.compiled import bare, kernel
from gridtune.core.system import get_system
from gridtune.core.vector_environment import CompiledEnv, CompiledVectorEnv, one_of, stacked
from gridtune.errors import SimulationError
from gridtune.systems.dispatch.parameters import DispatchParameters
from gridtune.systems.dispatch.simulator.model import DispatchJobs, Machines
from gridtune.systems.dispatch.simulator.predicting import (
    LEARNED,
    learn,
    new_broker_state,
    predicted_finish,
)
from gridtune.systems.dispatch.simulator.replay import ORDERS, DispatchReplay
from gridtune.systems.dispatch.simulator.site import (
    NOBODY,
    MachineQueues,
    advance,
    follower_of,
    new_site,
    place,
)
from gridtune.types import BoolArray, Float32Array, FloatArray
from gridtune.workload import read_workload
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.cleaning import DEFAULT_RULES, clean
from gridtune.workload.workload import Workload

#: Features of a job on a machine: its estimate, the seconds to its deadline, the jobs at the machine, the
#: estimated seconds that wait before it and that running jobs still have, the learned speed factor, the
#: predicted seconds to its end, and the predicted slack over the estimate. Where jobs can be held, a last row
#: has the first two, the number of jobs held, their estimated seconds, those until a running job ends, and
#: three zeros.
FEATURES = 8
#: Seconds are shown as logarithms of 1 + seconds over this.
_SECOND = 1000.0


class _Observations(NamedTuple):
    """The result of a step of `count` brokers.

    Attributes
    ----------
    features
        Shape (count, actions · `FEATURES`), float32; zeros once an episode is over.
    rewards, over
        Shape (count,), float64 and bool.
    """

    features: Float32Array
    rewards: FloatArray
    over: BoolArray


@kernel()
def _step_brokers(sites, brokers, actions, restarted, order, due, scale, observed):
    """Send each site's job to a machine, and advance to its next one.

    Parameters
    ----------
    sites, brokers
        Stacked: every array has the sites as its first dimension.
    actions
        Shape (count,), int64: machines, or their number to hold the job.
    restarted
        Shape (count,), bool: sites that are at their beginning, and only advance to their first job.
    order
        Of the queues.
    due
        Shape (count, n), int64: when jobs begin to cost: from their deadline, or from their submission.
    scale
        Shape (count,), float64: a second that a job costs is a reward of minus one over this.
    observed
        The `_Observations` to fill in.
    """
    for index in range(actions.size):
        site, broker = bare(one_of(sites, index)), bare(one_of(brokers, index))
        since, done = site.state.now, site.state.finished
        if not restarted[index]:
            job, machine = site.state.deciding, _allowed(site, actions[index])
            if job != NOBODY:
                # A job that was held and is held again stays the first of those.
                again = machine == site.state.machines and site.state.offering
                follower = site.head[machine] if again else follower_of(site, job, machine, order)
                place(site, job, machine, follower)
        job = advance(site)
        observed.rewards[index] = 0.0
        if not restarted[index]:
            observed.rewards[index] = -_costs(site, due[index], since, done) / scale[index]
        observed.over[index] = job == NOBODY
        if job == NOBODY:
            observed.features[index] = 0.0
            continue
        learn(site, broker)
        for machine in range(site.state.machines):
            features = observed.features[index, machine * FEATURES :]
            _fill_features(site, broker, job, machine, follower_of(site, job, machine, order), features)
        if observed.features.shape[1] > site.state.machines * FEATURES:
            _fill_held(site, broker, job, observed.features[index, site.state.machines * FEATURES :])


@kernel()
def _allowed(site, action):
    """Return the machine of an action: one that would wait for nothing is not held: the fastest takes it."""
    fastest, running = 0, 0
    for machine in range(site.state.machines):
        running += site.running[machine]
        if site.believed[machine] < site.believed[fastest]:
            fastest = machine
    return action if action < site.state.machines or running > 0 else fastest


@kernel()
def _costs(site, due, since, done):
    """Return the seconds after their due times that jobs were in the system since then, added up.

    Parameters
    ----------
    site, due
        The site, and each job's due time.
    since, done
        The second from which on they count, and how many jobs had ended then.
    """
    now, deciding = site.state.now, site.state.deciding
    total = 0 if deciding == NOBODY else max(0, now - max(due[deciding], since))
    for ended in range(done, site.state.finished):
        job = site.ended[ended]
        total += max(0, site.finish[job] - max(due[job], since))
    for machine in range(site.state.machines + 1):
        job = site.head[machine]
        while job != NOBODY:
            total += max(0, now - max(due[job], since))
            job = site.after[job]
    for slot in range(site.state.slots):
        job = site.slot[slot]
        if job != NOBODY:
            total += max(0, now - max(due[job], since))
    return total


@kernel()
def _fill_features(site, broker, job, machine, follower, features):
    """Write what is shown of a job if it stood before `follower` in a machine's queue.

    Seconds and jobs as sign(x)·log(1 + |x|), seconds in thousands; the speed factor and the slack over the
    estimate, in turns of the same, as they are.
    """
    now, estimate = site.state.now, site.estimate[job]
    ending = predicted_finish(site, broker, machine, job, follower)
    before, waiting = 0, site.head[machine]
    if follower == NOBODY:
        before = site.backlog[machine]
    else:
        while waiting != follower:
            before += site.estimate[waiting]
            waiting = site.after[waiting]
    left = 0.0
    for slot in range(site.first_slot[machine], site.first_slot[machine + 1]):
        left += _left(site, broker, machine, slot)
    features[0] = _scaled(estimate / _SECOND)
    features[1] = _scaled((site.deadline[job] - now) / _SECOND)
    features[2] = _scaled(site.waiting[machine] + site.running[machine])
    features[3] = _scaled(before / _SECOND)
    features[4] = _scaled(left / _SECOND)
    features[5] = _scaled(broker.factor[machine])
    features[6] = _scaled((ending - now) / _SECOND)
    features[7] = _scaled((site.deadline[job] - ending) / estimate)


@kernel()
def _left(site, broker, machine, slot):
    """Return the seconds, at factor 1, that a processor's job still has by its estimate; 0 without one."""
    job = site.slot[slot]
    if job == NOBODY:
        return 0.0
    elapsed = (site.state.now - site.start[job]) / broker.factor[machine]
    return max(0.0, site.estimate[job] - elapsed)


@kernel()
def _fill_held(site, broker, job, features):
    """Write what is shown of holding a job, scaled as for a machine."""
    soonest = np.inf
    for machine in range(site.state.machines):
        for slot in range(site.first_slot[machine], site.first_slot[machine + 1]):
            soonest = min(soonest, broker.factor[machine] * _left(site, broker, machine, slot))
    features[0] = _scaled(site.estimate[job] / _SECOND)
    features[1] = _scaled((site.deadline[job] - site.state.now) / _SECOND)
    features[2] = _scaled(site.waiting[site.state.machines])
    features[3] = _scaled(site.backlog[site.state.machines] / _SECOND)
    features[4] = _scaled(soonest / _SECOND)
    features[5:] = 0.0


@kernel(inline="always")
def _scaled(value):
    return np.sign(value) * np.log1p(abs(value))


class BrokerBatch:
    """Brokers with an episode of jobs each, stepped decision by decision.

    Parameters
    ----------
    jobs, machines
        An episode's jobs, of which all episodes have as many; and the machines of all episodes, which do not
        change.
    order
        Of the queues, as a number.
    count
        Number of brokers.
    until_deadline
        Whether a job costs from its deadline on (tardiness), or from its submission (response time).
    hold
        Whether a job can be held: it is decided on again when others have ended, in the order of the queues.
    forget
        See `gridtune.systems.dispatch.simulator.replay.dispatch`.

    Attributes
    ----------
    observed
        The result of the last step; the next one overwrites it.
    """

    def __init__(
        self,
        jobs: DispatchJobs,
        machines: Machines,
        *,
        order: int,
        count: int = 1,
        until_deadline: bool = True,
        hold: bool = False,
        forget: float = 0.95,
    ) -> None:
        if len(machines.changes.time):
            raise SimulationError("the machines of an environment neither change nor fail", field="mean_up")
        self._machines, self._order = machines, order
        self._until_deadline, self._forget = until_deadline, forget
        site = new_site(jobs, machines)
        self._sites = stacked(site, count)
        broker = stacked(new_broker_state(site, LEARNED, forget), count)
        # A broker's speed factors are those that its site keeps.
        self._brokers = broker._replace(factor=self._sites.believed)
        self._due, self._scale = np.zeros((count, len(jobs)), np.int64), np.ones(count)
        self._nobody = np.zeros(count, np.bool_)
        self.observed = _Observations(
            np.zeros((count, (len(machines) + hold) * FEATURES), np.float32),
            np.zeros(count),
            np.zeros(count, np.bool_),
        )

    def begin(self, index: int, jobs: DispatchJobs) -> None:
        """Take a broker to the beginning of an episode of these jobs."""
        site = new_site(jobs, self._machines)
        begun: tuple[Any, ...] = (*site, *new_broker_state(site, LEARNED, self._forget))
        for mine, column in zip((*self._sites, *self._brokers), begun, strict=True):
            mine[index] = column
        self._due[index] = jobs.deadline if self._until_deadline else jobs.submit
        self._scale[index] = len(jobs) * jobs.length.mean()

    def step(self, actions: npt.ArrayLike, begun: BoolArray | None = None) -> None:
        """Send the jobs to machines, shape (count,); those that have just begun advance to their first."""
        _step_brokers(
            self._sites,
            self._brokers,
            np.ascontiguousarray(actions, np.int64),
            self._nobody if begun is None else begun,
            self._order,
            self._due,
            self._scale,
            self.observed,
        )

    def outcome(self, index: int = 0) -> DispatchReplay:
        """Return the results of a broker's jobs, once all have ended."""
        site = MachineQueues(*(column[index].copy() for column in self._sites))
        n = site.machine.size
        return DispatchReplay.of(site, np.full(n, np.nan), np.zeros(n, np.bool_))


Reward = Literal["tardiness", "response"]

#: Logarithms of what fits into int64 are within this.
_BOUND = 50.0
#: Parameters of an episode by default.
_DEFAULTS: dict[str, Any] = {"batches": 1, "batch_jobs": 500, "offered_load": 1.6, "order": "shortest"}


@lru_cache(maxsize=4)
def _first_part(trace: str, rules: tuple[str, ...], split: float) -> Workload:
    """Return the first part of a log, the one to learn on, in order of submission."""
    workload = read_workload(resolve_trace(trace), clean=rules or DEFAULT_RULES)
    workload, _ = clean(workload, ("sort_submits",))
    return workload.take(slice(0, max(1, round(split * len(workload)))))


class DispatchEnv(CompiledEnv):
    """A broker that sends each arriving job to one of several machines with queues of their own.

    Observation: for each machine in turn the attributes of the arriving job there
    (`gridtune.systems.dispatch.simulator.predicting`, without the machine's number), which any broker can
    observe or has learned, as sign(x)·log(1 + |x|) and seconds in thousands: shape (machines · 8,).
    Action: the machine. Reward: minus the seconds that jobs were late since the last decision, over jobs ×
    mean length: an episode's rewards add up to minus its mean tardiness over its mean length. The episode is
    over (`terminated`) when all jobs have ended.

    Parameters
    ----------
    reward
        `tardiness`, or `response`: seconds count from a job's submission.
    hold
        True for one more action and row, after those of the machines: the broker holds the job, and decides
        on it again, in the order of the queues, when others have ended. While no job runs, none is held.
    split
        With a trace: the share of it, from its beginning, that episodes are taken from: consecutive jobs from
        a random one on.
    log
        Instead of a trace: jobs in order of submission, clean; episodes are taken from all of it.
    parameters
        Of the system `dispatch`, for jobs, machines and the order of the queues. By default a batch of 500
        jobs at load 1.6, the shortest first. Machines do not change.

    Examples
    --------
    `reset(options={"jobs": jobs})` begins an episode with as many `DispatchJobs`, and `reset()` draws them.
    """

    def __init__(
        self,
        *,
        reward: Reward = "tardiness",
        hold: bool = False,
        split: float = 0.5,
        log: Workload | None = None,
        **parameters: Any,
    ) -> None:
        vector = DispatchVectorEnv(reward=reward, hold=hold, split=split, log=log, **parameters)
        self.brokers = vector.brokers
        super().__init__(vector)


class DispatchVectorEnv(CompiledVectorEnv):
    """Many brokers stepped in one compiled call; trajectories equal those of single environments.

    Parameters
    ----------
    num_envs
        Number of brokers.
    reward, hold, split, log, parameters
        See `DispatchEnv`.
    copy
        Return copies. False returns the environment's own memory, which the next step overwrites.
    """

    episode = "jobs"

    def __init__(
        self,
        num_envs: int = 1,
        *,
        reward: Reward = "tardiness",
        hold: bool = False,
        split: float = 0.5,
        log: Workload | None = None,
        copy: bool = True,
        **parameters: Any,
    ) -> None:
        options = {**_DEFAULTS, **parameters, "mode": "direct", "learner": "drain"}
        p = environment_parameters(get_system("dispatch"), options)
        assert isinstance(p, DispatchParameters)
        if p.learning_jobs:
            raise SimulationError(
                "an environment has no jobs to learn from beforehand", field="learning_jobs"
            )
        if reward not in ("tardiness", "response"):
            raise SimulationError(f"must be 'tardiness' or 'response', but got {reward!r}", field="reward")
        if not 0 < split <= 1:
            raise SimulationError(f"must be above 0 and at most 1, but got {split}", field="split")
        if log is not None and p.trace is not None:
            raise SimulationError("a log and a trace are one too many", field="trace")
        if p.trace is not None:
            log = _first_part(p.trace, p.rules, split)
        self._parameters, self._log, self._jobs = p, log, p.batches * p.batch_jobs
        if log is not None and len(log) < self._jobs:
            raise SimulationError(f"{len(log)} jobs are too few for episodes of {self._jobs}")
        jobs = self._draw_jobs(np.random.default_rng(0))
        machines = p.make_machines(jobs, np.random.default_rng(0))
        costs: dict[str, Any] = {"until_deadline": reward == "tardiness", "forget": p.forget, "hold": hold}
        self.brokers = BrokerBatch(jobs, machines, order=ORDERS[p.queue_order], count=num_envs, **costs)
        actions = len(machines) + hold
        features = gym.spaces.Box(-_BOUND, _BOUND, (actions * FEATURES,), np.float32)
        super().__init__(num_envs, (features, gym.spaces.Discrete(actions)), copy=copy)

    def _draw_jobs(self, rng: np.random.Generator) -> DispatchJobs:
        """Draw an episode's jobs, or consecutive ones of the log."""
        streams = [np.random.default_rng(seed) for seed in rng.integers(2**63, size=4)]
        if self._log is None:
            return self._parameters.make_jobs(streams, None)
        first = int(rng.integers(len(self._log) - self._jobs + 1))
        return self._parameters.make_jobs(streams, self._log.take(slice(first, first + self._jobs)))

    def _draw(self, where: BoolArray) -> None:
        for i in np.flatnonzero(where).tolist():
            self.brokers.begin(i, self._draw_jobs(self._rngs[i]))

    def _choose(self, numbers: DispatchJobs) -> None:
        for i in range(self.num_envs):
            self.brokers.begin(i, numbers)

    def _infos(self, begun: BoolArray) -> dict[str, Any]:
        return {}

    def _restart(self) -> None:
        self.brokers.step(np.zeros(self.num_envs, np.int64), self._everywhere)

    def _advance(self, actions: npt.ArrayLike, begins: BoolArray | None) -> dict[str, Any]:
        self.brokers.step(actions, self._never if begins is None else begins)
        return {}

    def _results(self) -> tuple[FloatArray, BoolArray]:
        return self.brokers.observed.rewards, self.brokers.observed.over

    def _observe(self) -> Float32Array:
        features = self.brokers.observed.features
        return features.copy() if self._copy else features
