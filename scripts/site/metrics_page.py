"""The page of reference with the metrics and their sources, from the descriptions in the systems."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby

from gridtune.core.measures import Measure
from gridtune.core.system import SYSTEMS, System

__all__ = ["metrics_tables"]

_BETTER = {"min": "less", "max": "more", "none": "–"}
_STATISTIC = re.compile(r"(.+)_(mean|median|p90|p95|p99|max)")
#: The classes of jobs of the responsive site, each of which has the same metrics.
_CLASS = re.compile(r"(interactive|batch)_(.+)")
#: A publication, which ends with its year and perhaps its DOI, or with its title, and the place in it.
_CITATION = re.compile(r"(.+\b(?:19|20)\d\d(?:, doi \S+?)?|.+”)(?:,? (.+))?")
_CODE_OF = "the authors' code of: "


def metrics_tables(systems: Mapping[str, System] = SYSTEMS) -> str:
    """Return the metrics of systems, sorted by name, and their sources, in Markdown."""
    # The order of entry points differs between installations.
    systems = dict(sorted(systems.items()))
    cited = [metric.source for system in systems.values() for metric in system.metrics.values()]
    publications = dict.fromkeys(publication for source in cited for publication, _ in _citations(source))
    numbers = {publication: number for number, publication in enumerate(publications, start=1)}
    parts = ["# Metrics of the systems\n"]
    for name, system in systems.items():
        parts += [f"\n## Metrics of `{name}`\n\n", *_table(system.metrics, numbers)]
    parts.append("\n## Sources\n\n")
    parts += [f"{number}. {publication}\n" for publication, number in numbers.items()]
    return "".join([*parts, "\n"])


def _citations(source: str) -> Iterator[tuple[str, str]]:
    """Yield the publications of a source with the place in each; nothing where it is gridtune itself."""
    for citation in source.split("; "):
        if citation in {"gridtune", "gridtune, 2026"}:
            continue
        match = _CITATION.fullmatch(citation.removeprefix(_CODE_OF))
        code = "the authors' code" if citation.startswith(_CODE_OF) else ""
        yield (match[1], match[2] or code) if match is not None else (citation, "")


def _row_name(name: str, metric: Measure) -> tuple[str, str]:
    """Return the name and formula of a metric's row, which statistics and classes of jobs share."""
    of_class = _CLASS.fullmatch(name)
    if of_class is not None and of_class[1] in metric.formula:
        return f"…_{of_class[2]}", metric.formula.replace(f"{of_class[1]} jobs", "jobs of the class")
    match = _STATISTIC.fullmatch(name)
    if match is None or not metric.formula.startswith(f"{match[2]} over i of "):
        return name, metric.formula
    return f"{match[1]}_…", metric.formula.removeprefix(f"{match[2]} over i of ")


def _table(metrics: Mapping[str, Measure], numbers: Mapping[str, int]) -> Iterator[str]:
    described = any(getattr(metric, "description", "") for metric in metrics.values())
    columns = ["metric", "unit", "better", "formula", *(["description"] if described else []), "source"]
    yield f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}\n"
    rows = {_row_name(name, metric): metric for name, metric in metrics.items()}
    for family, group in groupby(rows.items(), lambda row: getattr(row[1], "family", "")):
        if family:
            yield f"| **{family}** |{' |' * (len(columns) - 1)}\n"
        yield from (_row(name, formula, metric, described, numbers) for (name, formula), metric in group)


def _row(name: str, formula: str, metric: Measure, described: bool, numbers: Mapping[str, int]) -> str:
    citations = [f"[{numbers[work]}] {place}".rstrip() for work, place in _citations(metric.source)]
    words = [getattr(metric, "description", "")] if described else []
    cells = [f"`{name}`", metric.unit, _BETTER[metric.direction], formula, *words]
    cells.append(", ".join(citations) or "gridtune")
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"
