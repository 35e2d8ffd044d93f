"""What a learner of candidate values is made of and how it learns: every parameter, as the papers set it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from gridtune.errors import PolicyError

__all__ = ["IMPROVED", "PAPER", "Inputs", "LearnerSettings", "Method", "Regressor"]

Method = Literal["sarsa", "fitted_q", "counterfactual"]
Regressor = Literal["esn", "ffnn"]
Inputs = Literal["paper", "extended", "relative"]


@dataclass(frozen=True)
class LearnerSettings:
    """All parameters of a learner; `PAPER` and `IMPROVED` are the two sets to start from.

    Attributes
    ----------
    method
        `sarsa`: on-policy targets while it decides (Perez et al. 2009, § 3.1 and § 3.3); `fitted_q`: the
        best candidate of the next decision, over whole runs (Perez et al. 2010, algorithm 1);
        `counterfactual`: first how urgent candidates were, in hindsight; then what each of some candidates
        of a decision comes to, from the same moment on.
    regressor
        `esn`: an echo state network, its readout by ridge regression. `ffnn`: a feed-forward network of
        one hidden layer of sigmoid neurons, trained by back-propagation; for `sarsa` and `fitted_q`.
    inputs
        `paper`: state and candidate as the papers describe them. `extended`: the site's larger set, with how
        long the candidate has waited and what its organisation lacks. `relative`: besides, how it compares
        with the others that wait, see `gridtune.systems.responsive.learners.relative`.
    neurons
        Of each reservoir, or of the hidden layer.
    connectivity
        Share of the neuron pairs that are connected.
    readout_connectivity
        Share of the neurons that the readout sees.
    spectral_radius
        That the recurrent weights are scaled to.
    leak
        Share of a neuron's state that is renewed at a decision, in (0, 1].
    input_scale
        Input weights, uniform, are multiplied by it.
    signed
        False: weights are drawn from [0, 1], as in the papers. True: from [-1, 1].
    direct
        Whether the readout sees the inputs, too.
    reservoirs
        Networks whose values are averaged; each has its own readout.
    ridge
        Weight of the squared change of the readout against the squared errors.
    epsilon
        Share of the decisions that are drawn at random while it learns.
    discount
        γ, by which the value of the next decision counts.
    learning_rate
        η: how far a SARSA target is from the present value to the observed one.
    pretraining_sweeps
        Learning sweeps over a run under earliest deadline first, before the first decision of its own.
    sweeps
        Runs over the workload with decisions of its own.
    iterations
        N of fitted Q: sweeps over the sample set after each run.
    relearn
        SARSA: decisions between two solutions of the normal equations.
    probes, branches, horizon
        Counterfactual: decisions of a run that are tried again, candidates tried at each, and how long each
        trial goes on, in seconds.
    epochs, step
        Feed-forward: passes over the sample set at each fit, and Adam's learning rate.
    """

    method: Method = "sarsa"
    regressor: Regressor = "esn"
    inputs: Inputs = "paper"
    neurons: int = 100
    connectivity: float = 0.10
    readout_connectivity: float = 0.15
    spectral_radius: float = 0.9
    leak: float = 1.0
    input_scale: float = 1.0
    signed: bool = False
    direct: bool = False
    reservoirs: int = 1
    ridge: float = 1e-3
    epsilon: float = 0.05
    discount: float = 0.8
    learning_rate: float = 0.2
    pretraining_sweeps: int = 5
    sweeps: int = 5
    iterations: int = 10
    relearn: int = 1
    probes: int = 150
    branches: int = 4
    horizon: float = 14400.0
    epochs: int = 20
    step: float = 0.01

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            _require(getattr(self, name) in allowed, name, f"one of {', '.join(allowed)}", self)
        for name in ("neurons", "reservoirs", "relearn", "probes", "epochs", "iterations"):
            _require(getattr(self, name) >= 1, name, "at least 1", self)
        _require(self.branches >= 2, "branches", "at least 2", self)
        for name in ("pretraining_sweeps", "sweeps"):
            _require(getattr(self, name) >= 0, name, "at least 0", self)
        _require(
            self.pretraining_sweeps + self.sweeps >= 1,
            "sweeps",
            "at least 1 where there is no pretraining",
            self,
        )
        for name in ("connectivity", "readout_connectivity", "leak", "learning_rate"):
            _require(0 < getattr(self, name) <= 1, name, "in (0, 1]", self)
        for name in ("epsilon", "discount"):
            _require(0 <= getattr(self, name) <= 1, name, "in [0, 1]", self)
        for name in ("ridge", "horizon", "input_scale", "step"):
            _require(getattr(self, name) > 0, name, "above 0", self)
        _require(self.spectral_radius >= 0, "spectral_radius", "at least 0", self)
        if self.regressor == "ffnn" and self.method == "counterfactual":
            raise PolicyError(
                "regressor='ffnn' learns by 'sarsa' or 'fitted_q', but got method='counterfactual'",
                field="method",
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters by name."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LearnerSettings:
        """Return settings of parameters by name; unknown names are refused."""
        known = {each.name for each in fields(cls)}
        for name in values:
            if name not in known:
                raise PolicyError(f"a learner has no parameter {name!r}", hint=f"one of {', '.join(known)}")
        return cls(**values)


_CHOICES = {
    "method": ("sarsa", "fitted_q", "counterfactual"),
    "regressor": ("esn", "ffnn"),
    "inputs": ("paper", "extended", "relative"),
}


def _require(sound: bool, name: str, expected: str, settings: LearnerSettings) -> None:
    if not sound:
        raise PolicyError(f"{name} must be {expected}, but got {getattr(settings, name)!r}", field=name)


#: As in Perez et al. 2009; their fitted Q of 2010 with `method="fitted_q"`.
PAPER = LearnerSettings()
#: What does better: see docs/echo_state.md for how much.
IMPROVED = replace(
    PAPER,
    method="counterfactual",
    inputs="relative",
    signed=True,
    direct=True,
    ridge=10.0,
    sweeps=0,
)
