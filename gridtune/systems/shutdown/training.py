"""`shutdown/ppo`: PPO on a cluster's train days; one in ten is held out. Playing a trained policy on days.

Imports nothing heavy, so the names of bundled policies are resolved without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from gridtune.core.array_files import read_arrays
from gridtune.core.measures import Measure
from gridtune.core.system import SystemParameters, described
from gridtune.errors import PolicyError
from gridtune.systems.shutdown.metrics import SHUTDOWN_METRICS, combine_days, measure_days
from gridtune.systems.shutdown.parameters import CLUSTERS
from gridtune.systems.shutdown.simulator.clusters import ClusterBatch
from gridtune.systems.shutdown.simulator.days import Days, build_days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.replay import replay
from gridtune.systems.shutdown.simulator.state import FEATURES
from gridtune.tracking import checkpoints
from gridtune.training.ppo_training import (
    EntropyWeight,
    Positive,
    PPOParameters,
    PPOTraining,
    UnitInterval,
)
from gridtune.training.system import TRAINING_MEASURES, Count
from gridtune.types import IntArray
from gridtune.workload.files import WorkloadReference
from gridtune.workload.workload import Workload

if TYPE_CHECKING:
    from gridtune.training.networks import ActorCritic

#: Days that are simulated at once.
_BATCH_DAYS = 256
#: One train day in this many is held out for evaluation.
HELD_OUT = 10
#: Metrics of the held-out days with sampled actions; with the prefix `greedy_`, of the likeliest actions.
_EVALUATED = ("score_per_day", "energy_waste_per_day", "switches_per_day", "stretch_mean", "qos_violations")


@described(__file__)
class _ShutdownPPOParameters(PPOParameters):
    """The parameters of one training."""

    trace: str
    first: Count | None = None
    cluster: Literal["taurus", "orion", "graphite", "econome"] = "taurus"
    tau: Annotated[float, Field(ge=0)] = 0.5
    variant: Literal["paper", "exact"] = "paper"
    network: Literal["paper", "recurrent", "mlp"] = "recurrent"
    frames: Count | None = None
    iterations: Count = 160
    schedule: Count = 160
    environments: Count = 16
    steps: Count = 1440
    learning_rate: Positive = 5e-4
    entropy_weight: EntropyWeight = 0.005
    gamma: UnitInterval = 0.99

    @model_validator(mode="after")
    def _check_combinations(self) -> _ShutdownPPOParameters:
        if self.network != "paper":
            self._refuse_idle([(("frames",), f"network={self.network}")])
        return self

    @property
    def platform(self) -> Platform:
        """The cluster."""
        return Platform(*CLUSTERS[self.cluster])

    @property
    def reference(self) -> WorkloadReference:
        """The days."""
        return WorkloadReference(self.trace, days=True)


_MEASURES: dict[str, Measure] = {name: SHUTDOWN_METRICS[name] for name in _EVALUATED}


class ShutdownPPO(PPOTraining):
    """PPO on a cluster's train days; one in ten is held out for evaluation."""

    name: ClassVar[str] = "shutdown/ppo"
    version: ClassVar[str] = "3"
    Parameters: ClassVar[type[SystemParameters]] = _ShutdownPPOParameters
    objective: ClassVar[str] = "score_per_day"
    metrics: ClassVar[Mapping[str, Measure]] = {
        **_MEASURES,
        **{f"greedy_{name}": measure for name, measure in _MEASURES.items()},
        **TRAINING_MEASURES,
    }

    def split(self, parameters: _ShutdownPPOParameters, log: Workload | None) -> tuple[Days, Days]:
        """Return the days to train on, and those held out."""
        assert log is not None
        days = build_days(log)
        train = np.flatnonzero(days.subset("train"))
        return _hold_out(days.take(train if parameters.first is None else train[: parameters.first]))

    def env_maker(self, parameters: _ShutdownPPOParameters, learned: Days) -> Callable[[int], Any]:
        """Return the environments of the days to learn on."""
        from gridtune.systems.shutdown.environment import ShutdownVectorEnv  # noqa: PLC0415 (gymnasium)

        p = parameters
        model: dict[str, Any] = {"platform": p.platform, "tau": p.tau, "variant": p.variant}
        return partial(ShutdownVectorEnv, days=learned, copy=False, **model)

    def scores(
        self,
        parameters: _ShutdownPPOParameters,
        network: ActorCritic,
        held_out: Days,
        rng: np.random.Generator,
    ) -> Mapping[str, float]:
        """Return the metrics of the held-out days, with sampled and with the likeliest actions."""
        p, metrics = parameters, dict[str, float]()
        for prefix, generator in (("", rng), ("greedy_", None)):
            actions = play_days(network, held_out, p.platform, rng=generator, tau=p.tau)
            results, _ = replay(held_out, p.platform, rule=actions, tau=p.tau, variant=p.variant)
            measured = combine_days(measure_days(held_out, results, p.platform, tau=p.tau))
            metrics |= {prefix + name: measured[name] for name in _EVALUATED}
        return metrics


def _hold_out(days: Days, one_in: int = HELD_OUT) -> tuple[Days, Days]:
    """Return the days to train on and those to evaluate on: every tenth one."""
    held_out = np.arange(len(days)) % one_in == one_in - 1
    if held_out.all() or not held_out.any():
        raise PolicyError(f"{len(days)} days are too few to hold out one in {one_in}")
    return days.take(~held_out), days.take(held_out)


def find_policy(name: str | Path) -> Path:
    """Return a policy's file; `taurus-lstm` is bundled. See `gridtune.tracking.checkpoints.find_policy`."""
    bundled = Path(__file__).parent / "trained" / "shutdown-taurus-lstm.pt"
    return checkpoints.find_policy(name, bundled={"taurus-lstm": bundled})


def load_published(path: str | Path) -> ActorCritic:
    """Return the network that the paper's authors trained, from the weights in their repository.

    Parameters
    ----------
    path
        An `.npz` file with an array for each of Keras' tensors, `/` in its name written as `__`.

    Raises
    ------
    PolicyError
        If it cannot be read, or its arrays are not those of the network.
    """
    import torch  # noqa: PLC0415 (slow to import)

    from gridtune.training.networks import make_network  # noqa: PLC0415 (torch)

    what = "weights of the published network"
    arrays, _ = read_arrays(path, what, error=PolicyError, described=False)
    try:
        weights = {**_tower_weights(arrays, "policy", ""), **_tower_weights(arrays, "value", "_1")}
        network = make_network("paper", FEATURES, len(weights["policy.out.bias"]))
        network.load_state_dict({name: torch.tensor(array) for name, array in weights.items()})
    except (KeyError, ValueError, RuntimeError, TypeError) as fault:
        raise PolicyError(f"holds no {what}", path=path) from fault
    return network.eval()


def _tower_weights(arrays: Mapping[str, Any], tower: str, number: str) -> dict[str, Any]:
    """Return the weights of the policy or of its value by torch's names; Keras numbers its layers."""
    memory, dense = f"{tower}_network__cu_dnnlstm{number}__", f"{tower}_network__dense{number}__"
    # The kernels of the four gates stand side by side, each as CuDNN lays it out in memory.
    kernels = np.split(arrays[f"{memory}kernel:0"], 4, axis=1)
    input_bias, hidden_bias = np.split(arrays[f"{memory}bias:0"], 2)
    return {
        f"{tower}.memory.weight_ih_l0": np.concatenate([gate.reshape(gate.shape[::-1]) for gate in kernels]),
        f"{tower}.memory.weight_hh_l0": np.concatenate(
            np.split(arrays[f"{memory}recurrent_kernel:0"], 4, axis=1)
        ),
        f"{tower}.memory.bias_ih_l0": input_bias,
        f"{tower}.memory.bias_hh_l0": hidden_bias,
        f"{tower}.dense.weight": arrays[f"{dense}kernel:0"].T,
        f"{tower}.dense.bias": arrays[f"{dense}bias:0"],
        f"{tower}.out.weight": arrays[f"{tower}_logits__kernel:0"].T,
        f"{tower}.out.bias": arrays[f"{tower}_logits__bias:0"],
    }


def play_days(
    network: ActorCritic,
    days: Days,
    platform: Platform | None = None,
    *,
    rng: np.random.Generator | None = None,
    tau: float = 0.5,
) -> IntArray:
    """Return the policy's reservations: shape (days, minutes), int64, as `replay` takes them.

    Parameters
    ----------
    network
        The policy.
    days, platform, tau
        As of `gridtune.systems.shutdown.simulator.clusters.ClusterBatch`.
    rng
        Samples actions from the policy; without it, the likeliest action is taken.
    """
    import torch  # noqa: PLC0415 (slow to import)

    from gridtune.training.acting import best_actions, draw  # noqa: PLC0415 (torch)

    cluster = platform or Platform()
    network = network.resized(cluster.nodes + 1)
    if network.features != FEATURES:
        raise PolicyError(f"a policy of {network.features} features cannot read the {FEATURES} of a cluster")
    longest = int(days.minutes.max(initial=0))
    reserved = np.zeros((len(days), longest), np.int64)
    device = next(network.parameters()).device
    for first in range(0, len(days), _BATCH_DAYS):
        part = np.arange(first, min(first + _BATCH_DAYS, len(days)))
        batch = ClusterBatch(days.take(part), cluster, count=len(part), tau=tau)
        batch.reset(np.arange(len(part)))
        with torch.no_grad():
            memory = network.memory(len(part))
            for minute in range(longest):
                logits, _, memory = network.step(torch.from_numpy(batch.observations).to(device), memory)
                if rng is None:
                    actions = best_actions(logits, minute)
                else:
                    chance = torch.from_numpy(rng.random(len(part), np.float32)).to(device)
                    actions, _ = draw(logits, chance, minute)
                reserved[part, minute] = actions.cpu().numpy()
                # A shorter day continues here; `replay` ends it in time.
                batch.step(reserved[part, minute])
    return reserved
