"""`dispatch/ppo`: PPO that sends jobs to machines, judged beside the shared queue and the drain model."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import model_validator

from gridtune.core.measures import Measure
from gridtune.core.system import SystemParameters, Window, described
from gridtune.errors import PolicyError
from gridtune.systems.dispatch.metrics import tardiness
from gridtune.systems.dispatch.parameters import DispatchParameters, InstanceParameters
from gridtune.systems.dispatch.simulator.model import DispatchJobs, Machines
from gridtune.systems.dispatch.simulator.replay import INSERTING, ORDERS, DispatchReplay, Order, dispatch
from gridtune.training.ppo_training import (
    Positive,
    PPOParameters,
    PPOTraining,
    Share,
    split_log,
)
from gridtune.training.system import TRAINING_MEASURES, Count
from gridtune.workload.workload import Workload

if TYPE_CHECKING:
    from gridtune.training.networks import ActorCritic

#: Episodes that the agent is evaluated on, and the seed of the first; others follow one by one.
_EPISODES, _HELD_OUT_SEED = 20, 100_000
#: Rules it is judged beside, by their settings.
_RULES: Mapping[str, dict[str, Any]] = {
    "shared_queue": {"rule": "shared_queue", "speeds": "nominal"},
    "drain": {"speeds": "learned"},
}


@described(__file__)
class _DispatchPPOParameters(PPOParameters, InstanceParameters):
    """The parameters of one training; those of jobs and machines are as in `dispatch`."""

    window: Window | None = None
    held_out: Share = 0.2
    batch_jobs: Count = 500
    offered_load: Positive = 1.6
    order: Order = "shortest"
    reward: Literal["tardiness", "response"] = "tardiness"
    hold: bool = False
    network: Literal["rows", "mlp", "recurrent"] = "rows"
    iterations: Count = 60
    schedule: Count = 60
    steps: Count = 480
    entropy_decay: Positive = 0.1
    gradient_norm: Positive | None = 0.5

    @model_validator(mode="after")
    def _check_combinations(self) -> _DispatchPPOParameters:
        if self.trace is None:
            self._refuse_idle([(("window", "held_out", "first"), "drawn jobs (no trace)")])
        return self

    @property
    def episode(self) -> DispatchParameters:
        """The system's parameters for the jobs and the machines of an episode."""
        names = ("batch_jobs", "offered_load", "mean_length", "slack", "estimate_error", "factors", "cpus")
        given = {name: getattr(self, name) for name in names}
        broker = {"mode": "direct", "learner": "drain", "order": self.order, "forget": self.forget}
        return DispatchParameters.model_validate({"batches": 1, **given, **broker})


class DispatchPPO(PPOTraining):
    """PPO that binds each job to a machine when it comes, or may hold it.

    It is evaluated on episodes that it does not learn from: of drawn jobs other ones, of a log the last jobs
    of the part that it learns on.
    """

    name: ClassVar[str] = "dispatch/ppo"
    version: ClassVar[str] = "1"
    Parameters: ClassVar[type[SystemParameters]] = _DispatchPPOParameters
    objective: ClassVar[str] = "tardiness_mean"
    metrics: ClassVar[Mapping[str, Measure]] = {
        "tardiness_mean": Measure.own(
            "s", "min", f"mean of max(0, C − d) over the jobs of {_EPISODES} held-out episodes"
        ),
        **{
            f"tardiness_mean_{name}": Measure.own(
                "s", "none", f"the same under {text}, in the same order of the queues"
            )
            for name, text in (
                ("shared_queue", "one queue for all machines"),
                ("drain", "insertion by learned speeds"),
            )
        },
        **TRAINING_MEASURES,
    }

    def split(
        self, parameters: _DispatchPPOParameters, log: Workload | None
    ) -> tuple[Workload | None, Workload | None]:
        """Return the jobs of a log to learn on and those held out; None of drawn jobs."""
        p = parameters
        if log is None:
            return None, None
        whole = {"trace": p.trace, "clean": p.clean, "window": p.window or "1/2"}
        log = DispatchParameters.model_validate(whole).log_part(log)
        log = log if p.first is None else log.first(p.first)
        return split_log(log, p.held_out, p.batch_jobs, field="batch_jobs")

    def env_maker(self, parameters: _DispatchPPOParameters, learned: Workload | None) -> Callable[[int], Any]:
        """Return the environments of jobs to learn on."""
        from gridtune.systems.dispatch.environment import DispatchVectorEnv  # noqa: PLC0415 (gymnasium)

        p = parameters
        given = p.episode.model_dump(exclude={"mode", "learner"}, exclude_unset=True)
        return partial(DispatchVectorEnv, log=learned, reward=p.reward, hold=p.hold, copy=False, **given)

    def scores(
        self,
        parameters: _DispatchPPOParameters,
        network: ActorCritic,
        held_out: Workload | None,
        rng: np.random.Generator,
    ) -> Mapping[str, float]:
        """Return the tardiness of held-out jobs with the likeliest actions, and under rules."""
        p = parameters
        episodes, machines = _held_out(p.episode, held_out)
        outcomes = _play(network, episodes, machines, **self.policy_notes(p)[BROKER])
        late = [tardiness(*pair).mean() for pair in zip(episodes, outcomes, strict=True)]
        metrics = {"tardiness_mean": float(np.mean(late))}
        for name, settings in _RULES.items():
            rule = {"rule": INSERTING[p.order], "order": p.order, "forget": p.forget, **settings}
            late = [
                tardiness(jobs, dispatch(jobs, machines, rng=np.random.default_rng(0), **rule)).mean()
                for jobs in episodes
            ]
            metrics[f"tardiness_mean_{name}"] = float(np.mean(late))
        return metrics

    def policy_notes(self, parameters: _DispatchPPOParameters) -> Mapping[str, Any]:
        """Return the order of the queues, how much a job counts for its machine, and if jobs are held."""
        return {BROKER: {name: getattr(parameters, name) for name in ("order", "forget", "hold")}}


def _held_out(p: DispatchParameters, log: Workload | None) -> tuple[list[DispatchJobs], Machines]:
    """Return the jobs of the episodes that are not learned from, and the machines."""
    starts = np.linspace(0, 0 if log is None else len(log) - p.batch_jobs, _EPISODES).astype(int)
    episodes = []
    for number, start in enumerate(starts.tolist()):
        rng = np.random.default_rng(_HELD_OUT_SEED + number)
        part = None if log is None else log.take(slice(start, start + p.batch_jobs))
        episodes.append(p.make_jobs(rng.spawn(4), part))
    return episodes, p.make_machines(episodes[0], np.random.default_rng(0))


#: The note of a checkpoint with the order of the queues, how much a job counts for the learned speeds, and
#: whether jobs can be held.
BROKER = "broker"


def _play(
    network: ActorCritic,
    episodes: Sequence[DispatchJobs],
    machines: Machines,
    *,
    order: str,
    forget: float,
    hold: bool = False,
) -> list[DispatchReplay]:
    """Play episodes of as many jobs each, all of them side by side.

    Parameters
    ----------
    network
        The agent.
    episodes
        Their jobs.
    machines
        They neither change nor fail.
    order, forget, hold
        See `gridtune.systems.dispatch.environment.BrokerBatch`.
    """
    import torch  # noqa: PLC0415

    from gridtune.systems.dispatch.environment import BrokerBatch  # noqa: PLC0415 (gymnasium)
    from gridtune.training.acting import best_actions  # noqa: PLC0415 (torch)

    count = len(episodes)
    brokers = BrokerBatch(episodes[0], machines, order=ORDERS[order], count=count, forget=forget, hold=hold)
    for index, jobs in enumerate(episodes):
        brokers.begin(index, jobs)
    begins = np.ones(count, np.bool_)
    brokers.step(np.zeros(count, np.int64), begins)
    state = network.initial_state(count)
    for step in itertools.count():
        if brokers.observed.over.all():
            break
        seen = torch.from_numpy(brokers.observed.features)[None]
        with torch.no_grad():
            logits, _, state = network(seen, torch.from_numpy(begins)[None], state)
        brokers.step(best_actions(logits[0], step).numpy())
        begins = np.zeros(count, np.bool_)
    return [brokers.outcome(index) for index in range(count)]


def play_file(file: Path, jobs: DispatchJobs, machines: Machines) -> DispatchReplay:
    """Return the results of jobs under the policy in a file.

    Raises
    ------
    PolicyError
        If the file holds a policy of another system, or one for another number of machines.
    """
    from gridtune.training.networks import load_policy, read_checkpoint  # noqa: PLC0415 (torch)

    settings: dict[str, Any] | None = read_checkpoint(file)["notes"].get(BROKER)
    if settings is None:
        raise PolicyError("is not a policy of the dispatch system", path=file)
    (outcome,) = _play(
        load_policy(file).resized(len(machines) + settings.get("hold", False)), [jobs], machines, **settings
    )
    return outcome
