"""The settings of learners of candidate values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any, Literal, get_args

from gridtune.arguments import require_fields
from gridtune.errors import PolicyError

Method = Literal["sarsa", "fitted_q"]
Regressor = Literal["esn", "ffnn"]


@dataclass(frozen=True)
class LearnerSettings:
    """All settings of a learner; the defaults are those of Perez et al. 2009, `PAPER`.

    Attributes
    ----------
    method
        `sarsa`: on-policy targets during a run (Perez et al. 2009, § 3.1 and § 3.3); `fitted_q`: targets
        from the best candidate of the next decision, over whole runs (Perez et al. 2010, algorithm 1).
    regressor
        `esn`: an echo state network, its readout by ridge regression. `ffnn`: a feed-forward network of
        one hidden layer of sigmoid neurons, trained by back-propagation.
    neurons
        Neurons of each reservoir, or of the hidden layer.
    connectivity
        Share of the pairs of neurons that are connected.
    readout_connectivity
        Share of the neurons that the readout uses.
    spectral_radius
        Spectral radius of the recurrent weights.
    leak
        Share of a neuron's state that is replaced at a decision, in (0, 1].
    input_scale
        Factor on the uniform input weights.
    reservoirs
        Number of networks whose values are averaged; each has its own readout.
    ridge
        Weight of the squared change of the readout relative to the squared errors.
    epsilon
        Share of random decisions during learning.
    discount
        γ, the weight of the next decision's value.
    learning_rate
        η, the step of a SARSA target from the present value to the observed one.
    pretraining_sweeps
        Learning sweeps over a first run under earliest deadline first.
    sweeps
        Runs over the workload with the learner's own decisions.
    iterations
        N of fitted Q: iterations over the samples after each run.
    relearn
        SARSA: decisions between two solutions of the normal equations.
    epochs, step
        Feed-forward: epochs of each fit, and Adam's learning rate.
    """

    method: Method = "sarsa"
    regressor: Regressor = "esn"
    neurons: int = 100
    connectivity: float = 0.10
    readout_connectivity: float = 0.15
    spectral_radius: float = 0.9
    leak: float = 1.0
    input_scale: float = 1.0
    reservoirs: int = 1
    ridge: float = 1e-3
    epsilon: float = 0.05
    discount: float = 0.8
    learning_rate: float = 0.2
    pretraining_sweeps: int = 5
    sweeps: int = 5
    iterations: int = 10
    relearn: int = 1
    epochs: int = 20
    step: float = 0.01

    def __post_init__(self) -> None:
        require = partial(require_fields, self, error=PolicyError)
        for name, choices in {"method": Method, "regressor": Regressor}.items():
            allowed = get_args(choices)
            require(f"one of {', '.join(allowed)}", allowed.__contains__, name)
        counts = ("neurons", "reservoirs", "relearn", "epochs", "iterations")
        shares = ("connectivity", "readout_connectivity", "leak", "learning_rate")
        require("at least 1", lambda value: value >= 1, *counts)
        require("at least 0", lambda value: value >= 0, "pretraining_sweeps", "sweeps", "spectral_radius")
        require(
            "at least 1 without pretraining", lambda value: self.pretraining_sweeps + value >= 1, "sweeps"
        )
        require("in (0, 1]", lambda value: 0 < value <= 1, *shares)
        require("in [0, 1]", lambda value: 0 <= value <= 1, "epsilon", "discount")
        require("above 0", lambda value: value > 0, "ridge", "input_scale", "step")

    @property
    def first_sweep(self) -> int:
        """The number of a training's first sweep: 0 is the one under a simple rule."""
        return 0 if self.pretraining_sweeps > 0 else 1

    def to_dict(self) -> dict[str, Any]:
        """Return the settings by name."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LearnerSettings:
        """Return settings from parameters by name.

        Raises
        ------
        PolicyError
            If a name is unknown.
        """
        names = [field.name for field in fields(cls)]
        for name in values:
            if name not in names:
                raise PolicyError(f"a learner has no parameter {name!r}", hint=f"one of {', '.join(names)}")
        return cls(**values)


#: The settings of Perez et al. 2009; `method="fitted_q"` gives those of 2010.
PAPER = LearnerSettings()
