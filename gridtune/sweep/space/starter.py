"""A first search space for a log: the text of the file that `gridtune init` writes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import yaml

from gridtune.core.system import SuggestedSpace, System, starter_windows
from gridtune.sweep.space.plan import short_name
from gridtune.workload.workload import Workload

#: Copies of a log that is too short to be cut into windows.
_SHAKES = 10
#: Widest line of a comment.
_WIDTH = 100


def space_name(log: str) -> str:
    """Return a name for a study of a log, from the name of its file."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", short_name(log.rstrip("/\\"))).strip("-_.")
    return name or "study"


def starter_text(
    system: System, starter: SuggestedSpace, workload: Workload, *, name: str, trace: str, path: str
) -> str:
    """Return the search space that a system proposes for a log, with comments.

    Parameters
    ----------
    system, starter
        The system, and what it proposes.
    workload
        The log.
    name
        Of the study.
    trace
        The log, as the file is to name it.
    path
        Where the file goes, for the command in its first lines.
    """
    fields = system.Parameters.model_fields

    def meaning(parameter: str) -> str:
        return (fields[parameter].description or "").removeprefix("… ")

    fixed = {"trace": trace, **starter.fixed}
    lines = [
        f"# {starter.question}",
        "#",
        f"#   gridtune sweep {path} --dry-run     # count the cells",
        f"#   gridtune sweep {path}               # run them; the same command goes on after a kill",
        "#",
        "# docs/search_spaces.md explains every key, `gridtune run "
        f"{system.name} --help` every parameter and metric.",
        "",
        f"name: {_value(name)} # of the folder in results/, of tables and of the MLflow experiment",
        f"description: {_value(starter.question)}",
        f"system: {system.name}",
        "",
        "# Parameters that every cell has.",
        *_block("fixed", fixed, meaning),
        "",
        "# The parameters to vary: every value is combined with every other.",
        *_block("dimensions", starter.dimensions, meaning),
        "",
        *_replicates(system, workload),
        "",
        *_objectives(system, starter.objectives),
        "",
        "# The configuration that the others are compared with. A parameter that is not named here is",
        "# that of the configuration it is compared with.",
        *_block("baseline", starter.baseline, lambda parameter: ""),
    ]
    if starter.subject_to:
        lines += [
            "",
            "# Bounds that configurations must keep, judged by 95 % intervals; what breaks one has no rank.",
            *_block("subject_to", starter.subject_to, lambda name: ""),
        ]
    if starter.classes:
        lines += [
            "",
            "# Classes of jobs. Each has its own metrics, such as wait_mean[NAME]; answers name the losers.",
            *_block("classes", starter.classes, lambda name: ""),
        ]
    return "\n".join(lines) + "\n"


def _objectives(system: System, names: Sequence[str]) -> Iterator[str]:
    """Yield the metrics to rank by, with their formulas."""
    several = "s" if len(names) > 1 else ""
    first = ", the first first" if several else ""
    command = f"gridtune list metrics {system.name}"
    yield f"# The metric{several} to rank by{first}. `{command}` shows all."
    for name in names:
        metric = system.metrics[name]
        unit = "" if metric.unit == "1" else f", in {metric.unit}"
        better = {"min": "; less is better", "max": "; more is better"}.get(metric.direction, "")
        yield from (
            f"#   {line}" for line in textwrap.wrap(f"{name} = {metric.formula}{better}{unit}", _WIDTH - 4)
        )
    yield f"objective: {_value(list(names) if several else names[0])}"


def _block(key: str, values: Mapping[str, Any], comment: Callable[[str], str]) -> Iterator[str]:
    yield f"{key}:"
    for name, value in values.items():
        yield from (f"  # {line}" for line in textwrap.wrap(comment(name), _WIDTH - 4))
        yield f"  {name}: {_value(value)}"


def _value(value: Any) -> str:
    """Return a value as one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10_000, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...").strip()


def _replicates(system: System, workload: Workload) -> Iterator[str]:
    """Yield how often every configuration is repeated, and why so."""
    fields = system.Parameters.model_fields
    replicates = {"seeds": _SHAKES}
    why = ["# Repetitions of every configuration. Differences are taken one by one."]
    if system.Parameters.window_parameter in fields:
        windows = starter_windows(len(workload))
        # Six comparisons are the fewest that can prove anything; a log of a few jobs has what it has.
        replicates = {"windows": windows or max(1, min(6, len(workload) // 10))}
        if windows is None and "shake" in fields:
            # The median time between two submissions: from a second to an hour.
            gaps = np.diff(np.sort(workload.columns["submit_time"]))
            amount = int(min(3600, max(1, np.median(gaps)))) if len(gaps) else 1
            replicates = {"shakes": _SHAKES, "amount": amount}
            why = [
                f"# The log has {len(workload):,} jobs, too few for windows: copies instead, their jobs",
                "# submitted up to `amount` seconds earlier or later. They say nothing of other weeks.",
            ]
        else:
            why = [
                f"# Every configuration runs on the same windows of the log, of about "
                f"{len(workload) // replicates['windows']:,} jobs each. Differences are taken",
                "# window by window, so that one that is hard for all does not hide which is better.",
            ]
    yield from why
    yield "replicates:"
    for name, value in replicates.items():
        yield f"  {name}: {value}"
