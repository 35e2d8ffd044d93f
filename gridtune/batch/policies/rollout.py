"""Rollouts: the policy that plays several orders of the waiting jobs forward and takes the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from gridtune.arguments import require_number
from gridtune.batch.policies.policy import Policy
from gridtune.batch.policies.queue_order import ROLLOUT, QueueOrder, get_queue_order
from gridtune.errors import PolicyError
from gridtune.registry import name_hint

#: What a decision minimizes, summed over the jobs of the window, with w, r and p of a job, its wait, walltime
#: and processors: w + r; p r (w + r); √(p / r) (w + r)², r at least a minute; p (w + r)²; and `index`,
#: (1 / (r S) + p r / A + 1 / W) (w + r)², r at least a minute in the first term, where S, A and W are the
#: sums of (w + r) / r, p r (w + r) and w + r over the window, at the decision.
OBJECTIVES = ("wait", "area", "balanced", "safe", "index")
#: The orders that are played forward, unless others are named.
PORTFOLIO = (
    *("saf", "walltime / processors", "sjf", "fcfs", "f1", "f4", "wfp3", "unicef", "xfactor", "widest"),
)
#: How long jobs are played: as long as they request, or as the predictor says.
DURATIONS = ("walltime", "predicted")
#: The jobs of the window: half by the portfolio's first order and half the oldest, or by each order some.
WINDOWS = ("oldest", "orders")
_CHOICES = {"objective": OBJECTIVES, "durations": DURATIONS, "window_by": WINDOWS}
#: The one that is recommended, with a guard of four days; `python -m benchmarks.lookahead` judges it.
RECOMMENDED = "rollout(objective=index, moves=60, window_by=orders, backlog=100, arrivals=5)"
#: The most orders of a portfolio.
MOST_ORDERS = 16


@dataclass(frozen=True)
class Rollout:
    """A policy that looks ahead, under EASY backfilling.

    Whenever some but not all waiting jobs fit, each order of the portfolio is played forward: jobs run as
    long as they request, and no other job arrives. The order with the least cost is used for this pass.

    Attributes
    ----------
    portfolio
        Queue orders, at most `MOST_ORDERS`.
    objective
        One of `OBJECTIVES`.
    window
        So many waiting jobs are played, at least 2. The others follow behind.
    window_by
        One of `WINDOWS`, for a queue that is longer. `orders` takes as many by each order of the portfolio.
    backlog
        The guard, if there is one, is at least this percentage of the time that the machine needs for all
        that waits and runs, as requested.
    arrivals
        The cost has so many more jobs, average ones of the window, that start with its last: jobs to come.
    moves
        So many changes of the best order are tried too; see `improve_order`.
    durations
        One of `DURATIONS`: as long as what jobs are played.
    """

    portfolio: tuple[QueueOrder, ...] = tuple(map(get_queue_order, PORTFOLIO))
    objective: str = "wait"
    window: int = 64
    moves: int = 0
    durations: str = "walltime"
    window_by: str = "oldest"
    backlog: int = 0
    arrivals: int = 0

    name: ClassVar[str] = ROLLOUT
    description: ClassVar[str] = "Plays several orders forward in every pass and uses the best."
    static: ClassVar[bool] = False
    decides: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 1 <= len(self.portfolio) <= MOST_ORDERS:
            raise PolicyError(f"a portfolio has 1 to {MOST_ORDERS} orders, but got {len(self.portfolio)}")
        for key, known in _CHOICES.items():
            value = getattr(self, key)
            if value not in known:
                hint = name_hint(value, known)
                raise PolicyError(f"rollouts have no {key} {value!r}", hint=hint)
        for key, least in (("window", 2), ("moves", 0), ("backlog", 0), ("arrivals", 0)):
            require_number(getattr(self, key), key, whole=True, least=least, error=PolicyError)

    @property
    def parameters(self) -> dict[str, str | int]:
        """The parameters as `get_order` reads them."""
        orders = " | ".join(order.label for order in self.portfolio)
        return {"portfolio": orders, **{key: getattr(self, key) for key in _PARAMETERS[1:]}}

    @property
    def label(self) -> str:
        """The name with what is not by default, as `get_order` reads it."""
        changed = [
            f"{one.name}={self.parameters[one.name]}"
            for one in fields(self)
            if getattr(self, one.name) != one.default
        ]
        return f"{self.name}({', '.join(changed)})" if changed else self.name

    @property
    def fields(self) -> frozenset[str]:
        """The fields of a job that decisions depend on."""
        read = (order.fields for order in self.portfolio)
        return frozenset({"walltime", "processors", "wait"}).union(*read)

    def canonical(self, text: str) -> str:
        """Return the one form of a text that `get_order` reads as this rollout."""
        return self.label

    @property
    def predicts(self) -> bool:
        """True if decisions may depend on a predictor."""
        return self.durations == "predicted" or any(order.predicts for order in self.portfolio)


_PARAMETERS = tuple(field.name for field in fields(Rollout))


def get_order(
    reference: str | QueueOrder | Rollout | Policy | Callable[..., Any],
    coefficients: Mapping[str, float] | None = None,
) -> QueueOrder | Rollout:
    """Return a queue order as `get_queue_order` does, or a rollout.

    `"rollout(objective=area, moves=60, portfolio=saf | fcfs | wfp3(exponent=2))"` is one; all has a default.

    Raises
    ------
    PolicyError
        As for `get_queue_order`; or if a rollout has no such parameter, or not such a value.
    """
    if isinstance(reference, Rollout):
        return reference
    name, _, rest = reference.strip().partition("(") if isinstance(reference, str) else ("", "", "")
    if name.strip() != ROLLOUT:
        return get_queue_order(reference, coefficients)
    if not rest:
        return Rollout()
    if not rest.endswith(")"):
        raise PolicyError(f"{reference!r} has no closing parenthesis", hint="as in 'rollout(moves=60)'")
    options: dict[str, Any] = {}
    for part in _split(rest[:-1], ","):
        key, sign, value = (piece.strip() for piece in part.partition("="))
        if key not in _PARAMETERS or not sign:
            hint = f"it has: {', '.join(_PARAMETERS)}"
            raise PolicyError(f"a rollout has no parameter {key!r}", hint=hint)
        if key == "portfolio":
            options[key] = tuple(get_queue_order(text, coefficients) for text in _split(value, "|"))
        elif key in _CHOICES:
            options[key] = value
        elif value.isdecimal():
            options[key] = int(value)
        else:
            raise PolicyError(f"parameter {key!r} of a rollout must be a whole number, got {value!r}")
    return Rollout(**options)


def _split(text: str, separator: str) -> list[str]:
    """Return the parts of a text between separators that are in no brackets."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]
