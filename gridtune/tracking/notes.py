"""What the run of a sweep and its experiment say in words: tags, parameters and descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gridtune.report.facts import SweepFacts
from gridtune.report.labels import value_text
from gridtune.report.summary import Summary
from gridtune.report.tables import ranking_markdown
from gridtune.tracking.views import ranking_link

__all__ = ["cells_text", "description", "remarks_tags", "runs_text", "sweep_parameters", "sweep_tags"]

#: Rows of a ranking and characters that a description has.
_NOTE_ROWS, _NOTE_LENGTH = 10, 4800
#: Remarks on logs that a description has; the tag and the report have more.
_REMARKS = 8


def sweep_tags(facts: SweepFacts, directory: Path) -> dict[str, str]:
    """Return the tags of a sweep's run; they may change when it goes on with an extended space."""
    return {
        "gridtune.directory": str(directory.resolve()),
        "mlflow.note.content": facts.description,
    }


def sweep_parameters(facts: SweepFacts) -> dict[str, str]:
    """Return the parameters of a sweep's run."""
    return {
        "space": facts.name,
        "system": facts.system,
        "searched": ", ".join(facts.dimensions) or "nothing",
        "objective": ", ".join(
            f"{objective.metric} ({objective.direction})" for objective in facts.objectives
        ),
        "baseline": ", ".join(f"{name}={value_text(value)}" for name, value in facts.baseline.items())
        or "none",
        "replicates": str(facts.replicates),
    }


def cells_text(states: Sequence[str], planned: int) -> str:
    """Return how far a sweep is."""
    done = sum(state == "done" for state in states)
    failed = f", {len(states) - done:,} failed" if len(states) > done else ""
    return f"{done:,} of {max(planned, len(states)):,} done{failed}"


def remarks_tags(summary: Summary) -> dict[str, str]:
    """Return the tag that says what of the logs was ignored, as long as a tag may be; none if nothing was."""
    text = "\n".join(summary.remarks)
    return {"remarks": text[:_NOTE_LENGTH]} if text else {}


def runs_text(runs: int, configurations: int, tables: Sequence[str]) -> str:
    """Return what stands where for a sweep that has more configurations than runs; else ""."""
    if runs >= configurations:
        return ""
    files = " and ".join(f"{name}.html" for name in tables)
    return (
        f"{runs:,} of {configurations:,} configurations have runs: the baseline and the best. "
        f"All of them are in {files} among the artifacts of the sweep's run."
    )


def description(summary: Summary, runs: str = "", *, experiment: str | None = None) -> str:
    """Return a description, which the UI shows as Markdown: the question, and the first of the ranking.

    Parameters
    ----------
    summary
        The rankings.
    runs
        What `runs_text` says.
    experiment
        For an experiment's description its id: a link to the view of the ranking is added.
    """
    parts = [summary.facts.description.strip()] if summary.facts.description else []
    if experiment is not None:
        parts.append(f"\n[Ranking of the latest sweep]({ranking_link(experiment)})\n")
    if summary.remarks:
        parts.append("\n" + "\n".join(f"- {remark}" for remark in summary.remarks[:_REMARKS]) + "\n")
    if runs:
        parts.append(f"\n{runs}\n")
    for objective, ranking in list(summary.rankings.items())[:1]:
        if objective in summary.overall:
            parts.append(ranking_markdown(summary.overall[objective], limit=_NOTE_ROWS))
        parts.append(ranking_markdown(ranking, limit=_NOTE_ROWS))
    text = ""
    for part in parts:
        if len(text) + len(part) < _NOTE_LENGTH:
            text += part + "\n"
    return text
