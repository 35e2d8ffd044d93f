"""The variants of backfilling, by name, and their switches."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gridtune.errors import PolicyError
from gridtune.registry import name_hint


@dataclass(frozen=True)
class Backfilling:
    """A rule that says which jobs may overtake the head of the queue.

    Attributes
    ----------
    kind
        "none", "easy" (only the head holds a reservation) or "conservative" (every job does).
    extra
        EASY: a job may run beyond the head's shadow time on processors the head leaves free.
    strict
        EASY: a backfilled job must end before the shadow time, not at it.
    frozen
        EASY: the shadow time is computed once, when a job becomes the blocked head.
    pass_per_event
        A scheduling pass after each event, not one after all events of an instant. Submissions come before
        completions then, unless the shadow is frozen.
    compression
        Conservative: when a job ends early, waiting jobs are moved to earlier reservations.
    """

    kind: str
    description: str
    extra: bool = True
    strict: bool = False
    frozen: bool = False
    pass_per_event: bool = False
    compression: bool = False


#: Fields that a caller may set by themselves.
SWITCHES = ("extra", "strict", "frozen", "pass_per_event", "compression")
_VARIANTS = {
    "none": Backfilling("none", "plain queueing: no job overtakes the head"),
    "easy": Backfilling("easy", "the head of the queue holds a reservation; one scheduling pass an instant"),
    "easy-per-event": Backfilling("easy", "EASY with a pass after each event, as pyss", pass_per_event=True),
    "easy-rlscheduler": Backfilling(
        "easy",
        "EASY as RLScheduler: no extra processors, ends before a frozen shadow, pass after each event",
        extra=False,
        strict=True,
        frozen=True,
        pass_per_event=True,
    ),
    "easy-batsched": Backfilling(
        "easy",
        "EASY as batsched's easy_bf_fast: no extra processors, a frozen shadow, pass after each event",
        extra=False,
        frozen=True,
        pass_per_event=True,
    ),
    "conservative": Backfilling(
        "conservative",
        "every job holds a reservation, which moves up when a job ends early",
        compression=True,
    ),
    "conservative-no-compression": Backfilling(
        "conservative", "every job holds a reservation, which never moves"
    ),
}
#: What a reader of results under a variant must know.
BACKFILLING_WARNINGS = {
    "conservative-no-compression": (
        "reservations never move, so what jobs that end early leave is lost to all who wait; waits can grow "
        "without bound; conservative backfilling in the field's sense is backfill=conservative"
    )
}


def backfilling_names() -> list[str]:
    """Return the names of all variants."""
    return list(_VARIANTS)


def get_backfilling(name: str | Backfilling, **switches: bool | None) -> Backfilling:
    """Return a variant by name; switches that are not None override its own.

    Raises
    ------
    PolicyError
        If there is no such variant, or it does not have one of the switches.
    TypeError
        If there is no such switch at all.
    """
    for key in switches:
        if key not in SWITCHES:
            raise TypeError(f"unexpected keyword argument {key!r}")
    variant = name if isinstance(name, Backfilling) else _VARIANTS.get(name)
    if variant is None:
        raise PolicyError(f"no backfilling is named {name!r}", hint=name_hint(str(name), _VARIANTS))
    changes = {key: value for key, value in switches.items() if value is not None}
    meaningful = {
        "none": {"pass_per_event"},
        "easy": {"extra", "strict", "frozen", "pass_per_event"},
        "conservative": {"compression"},
    }[variant.kind]
    for key in changes:
        if key not in meaningful:
            offered = ", ".join(sorted(meaningful))
            raise PolicyError(
                f"switch {key!r} means nothing to backfilling {name!r}", hint=f"it has: {offered}"
            )
    return replace(variant, **changes)  # type: ignore[arg-type]
