"""The page itself: text that can be read without scripts, and the charts' data, styles and scripts inline."""

from __future__ import annotations

import html
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from gridtune.core.cells import CellResult
from gridtune.core.sources import software_versions
from gridtune.report.labels import (
    configuration_label,
    count_text,
    interval_text,
    number_text,
    percent_text,
    row_label,
    varying_parameters,
)
from gridtune.report.page.content import page_content, page_json
from gridtune.report.ranking import RankingHead, Verdict, ranking_head, strata
from gridtune.report.schedules import ReportMaterial
from gridtune.report.summary import Summary
from gridtune.report.tables import html_document, plain_table

__all__ = [
    "PAGE_FILE",
    "verdict_sentences",
    "write_page",
]

#: The page in a report's folder.
PAGE_FILE = "report.html"
#: The scripts, in the order in which they need each other.
_SCRIPTS = (
    "core",
    "chart",
    "ranking",
    "strips",
    "effects",
    "parallel",
    "front",
    "convergence",
    "schedule",
    "main",
)
#: Answers that stand open at the top; the others can be unfolded.
_OPEN_SENTENCES = 6
#: Notes of cells that are listed.
_MOST_NOTES = 200


def write_page(material: ReportMaterial, path: Path) -> Path:
    """Write the report of a sweep as one HTML file, and return its path.

    The file loads nothing: its content security policy allows the styles and the script inside it and
    nothing else. The same results give the same bytes.

    Parameters
    ----------
    material
        What the page is made of.
    path
        The file.
    """
    data = page_json(page_content(material))
    body = [*_body(material), f'<script type="application/json" id="data">{data}</script>']
    text = html_document(f"{material.summary.facts.name}: report", body, styles=("page",), scripts=_SCRIPTS)
    path.write_text(text, encoding="utf-8")
    return path


def _body(material: ReportMaterial) -> Iterator[str]:
    facts = material.summary.facts
    description = (
        f'<p class="question">{html.escape(facts.description.strip())}</p>' if facts.description else ""
    )
    yield f"<header>\n<h1>{html.escape(facts.name)}</h1>\n{description}\n{_size(material)}\n</header>"
    yield "<main>"
    yield from _verdict(verdict_sentences(material.summary), material)
    yield '<noscript><p class="note">The charts and tables below need JavaScript. '
    yield "The same rankings are in ranking.md beside this page.</p></noscript>"
    yield '<div id="controls" class="controls"></div>'
    # The scripts fill these sections, and take away those that have nothing to show.
    for name, heading in _CHARTS:
        yield f'<section id="{name}" class="chart" hidden><h2>{heading}</h2></section>'
    yield from _failed(material)
    yield from _origin(material)
    yield "</main>"


_CHARTS = (
    ("ranking", "Ranking"),
    ("replicates", "Every replicate"),
    ("effects", "What each parameter does"),
    ("interactions", "What two parameters do together"),
    ("parallel", "All parameters at once"),
    ("front", "Pareto front"),
    ("convergence", "How the search went"),
    ("schedule", "Schedules"),
)


def _size(material: ReportMaterial) -> str:
    facts = material.summary.facts
    configurations = len({result.configuration_id for result in material.results})
    logs = len({result.workload for result in material.results})
    parts = [
        count_text(len(material.results), "cell"),
        count_text(configurations, "configuration"),
        count_text(facts.replicates, "replicate"),
        *([count_text(logs, "workload")] if logs > 1 else []),
        f"system {facts.system}",
    ]
    return f'<p class="size">{html.escape(" · ".join(parts))}</p>'


def _verdict(sentences: Sequence[_Sentence], material: ReportMaterial) -> Iterator[str]:
    yield '<section id="verdict"><h2>Verdict</h2>'
    if not sentences:
        yield '<p class="answer none">No cell has a result to rank.</p>'
    if len(sentences) > _OPEN_SENTENCES:
        # What holds over all of them comes before each.
        sentences = sorted(sentences, key=lambda sentence: sentence.stratum != "overall")
    items = []
    for sentence in sentences:
        # A number and its per cent sign stay on one line.
        text = html.escape(sentence.text.replace(" %", "\u00a0%"))
        if best := html.escape(sentence.best):
            text = text.replace(best, f"<strong>{best}</strong>", 1)
        items.append(f'<p class="answer {sentence.verdict.name.lower()}">{text}</p>')
    yield from items[:_OPEN_SENTENCES]
    if len(items) > _OPEN_SENTENCES:
        yield f"<details><summary>{len(items) - _OPEN_SENTENCES} more</summary>"
        yield from items[_OPEN_SENTENCES:]
        yield "</details>"
    notes = (*material.notes, *material.summary.remarks)
    yield from (f'<p class="note">{html.escape(note)}</p>' for note in notes)
    yield "</section>"


def _failed(material: ReportMaterial) -> Iterator[str]:
    failed = [result for result in material.results if result.state != "done"]
    if not failed:
        return
    yield f'<section id="failed"><h2>Cells without a result</h2><p>{count_text(len(failed), "cell")}'
    if len(failed) > _MOST_FAILED:
        yield f"; the first {_MOST_FAILED} are listed, all are in results.parquet"
    yield ". Run them again with <code>--retry-failed</code>.</p>"
    for result in failed[:_MOST_FAILED]:
        label = configuration_label(result.configuration, sorted(result.configuration))
        error = (result.error or result.state).strip()
        last = error.splitlines()[-1]
        error = error if len(error) <= _LONGEST_ERROR else f"… {error[-_LONGEST_ERROR:]}"
        title = f"{result.workload}, {label}, {result.replicate}: {result.state}"
        yield f"<details><summary><code>{html.escape(result.cell_id)}</code> {html.escape(title)}"
        yield f'<span class="error">{html.escape(last)}</span></summary>'
        yield f"<pre>{html.escape(error)}</pre></details>"
    yield "</section>"


def _origin(material: ReportMaterial) -> Iterator[str]:
    facts = material.summary.facts
    yield '<section id="origin"><h2>How this was made</h2>'
    yield "<h3>Run it again</h3>"
    source, folder = facts.source or f"{facts.name}.yaml", str(material.directory)
    command = f"gridtune sweep {shlex.quote(source)} --out {shlex.quote(folder)}"
    if facts.command:
        command = f"cd {shlex.quote(facts.folder)}\n{facts.command}"
    yield f"<pre>{html.escape(command)}</pre>"
    if not (facts.command or facts.source):
        name = html.escape(f"{facts.name}.yaml")
        yield f'<p class="note">The sweep was run from Python. Save the search space as {name} first.</p>'
    if facts.base:
        yield f'<p class="note">Relative paths in the search space start at {html.escape(facts.base)}.</p>'
    space = yaml.safe_dump(dict(facts.space), sort_keys=False, allow_unicode=True, width=100)
    yield f"<details><summary>The search space</summary><pre>{html.escape(space)}</pre></details>"
    yield "<h3>Software</h3>"
    versions = facts.versions or software_versions()
    if not facts.versions:
        yield '<p class="note">The sweep did not note its versions; these wrote the page.</p>'
    system = [("system", f"{facts.system}, version {facts.system_version} of its results")]
    yield plain_table(("what", "version"), [*system, *versions.items()])
    checksums = [*(("trace " + name, value) for name, value in facts.workloads.items())]
    checksums += [("code of " + name, value) for name, value in facts.code.items()]
    if checksums:
        yield "<h3>Checksums (SHA-256)</h3>"
        yield plain_table(("what", "checksum"), checksums, "mono")
    notes = _cell_notes(material.results)
    if notes:
        yield "<h3>What the cells note</h3><p>Sizes, and what cleaning left out or changed, over all cells "
        yield "of a workload.</p>"
        yield plain_table(("workload", "note", "value"), notes[:_MOST_NOTES])
    yield "</section>"


#: Cells without a result that the page lists.
_MOST_FAILED = 200
#: Characters of an error that the page shows: the end says what went wrong.
_LONGEST_ERROR = 4_000


def _cell_notes(results: Sequence[CellResult]) -> list[tuple[str, str, str]]:
    """Return (workload, note, value) of what the cells say beside their metrics: jobs, cleaning, and so on.

    A note that differs among the cells of a workload is given as its range; words that differ are left out.
    """
    found: dict[tuple[str, str], list[Any]] = {}
    last: dict[tuple[str, str], Mapping[str, Any]] = {}
    for result in results:
        # Most configurations note the same of a replicate.
        if last.get((result.workload, result.replicate)) == result.notes:
            continue
        last[result.workload, result.replicate] = result.notes
        for name, value in _flat(result.notes):
            found.setdefault((result.workload, name), []).append(value)
    return [
        (workload, name, text)
        for (workload, name), values in found.items()
        if (text := _note_text(values)) is not None
    ]


def _flat(notes: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in notes.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}: ")
        elif isinstance(value, int | float | str):
            yield f"{prefix}{name}", value


def _note_text(values: Sequence[Any]) -> str | None:
    """Write a note's value, or the range of its values; None for words that differ."""

    def write(value: Any) -> str:
        if isinstance(value, float):
            return number_text(value, 6)
        return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)

    if len(set(values)) == 1:
        return write(values[0])
    if any(isinstance(value, str | bool) or not math.isfinite(value) for value in values):
        return None
    return f"{write(min(values))} … {write(max(values))}"


@dataclass(frozen=True)
class _Sentence:
    """The answer for one objective on one stratum.

    Attributes
    ----------
    objective, stratum
        Which; the stratum is "overall" over all of them.
    best
        The best configuration in words; "" where there is none.
    verdict
        What is proven of it.
    text
        The sentence.
    """

    objective: str
    stratum: str
    best: str
    verdict: Verdict
    text: str


def verdict_sentences(summary: Summary) -> list[_Sentence]:
    """Return the answers: by objective, over all strata first where there are several."""
    return [
        sentence
        for objective, ranking in summary.rankings.items()
        for table in (summary.overall.get(objective), ranking)
        if table is not None
        for sentence in _sentences(table, ranking)
    ]


def _sentences(ranking: pa.Table, single: pa.Table) -> Iterator[_Sentence]:
    """Yield the sentence of each stratum of a ranking; `single` is the one within each stratum."""
    head = ranking_head(ranking)
    varying = varying_parameters(ranking, without=head.group_by)
    for name, rows in strata(ranking):
        where = f"On {name}" if name else "Here"
        if head.overall:
            names = ranking_head(single).group_by
            what = "workloads" if names == ("workload",) else f"combinations of {' and '.join(names)}"
            where = f"Over the {len(list(strata(single)))} {what}"
        stratum = "overall" if head.overall else name
        first = [row for row in rows if row["rank"] == 1]
        if not first:
            text = f"{where} no configuration has a value of {head.objective} in every replicate."
            yield _Sentence(head.objective, stratum, "", Verdict.NONE, text)
            continue
        # Of equals the baseline stands for all: to change nothing is the simplest.
        best = next((row for row in first if row["is_baseline"]), first[0])
        label = row_label(best, varying)
        parts = [f"{where} {label} {_lead(head, best)}"]
        if len(first) > 1:
            others = "another configuration shares" if len(first) == 2 else f"{len(first) - 1} others share"
            parts.append(f"{others} the first place")
        text = "; ".join(parts) + _against(head, best, rows, varying)
        yield _Sentence(head.objective, stratum, label, Verdict(best["verdict"]), text)


def _lead(head: RankingHead, row: Mapping[str, Any]) -> str:
    extreme = "smallest" if head.direction == "min" else "largest"
    if head.overall:
        return f"has the {extreme} {head.objective} relative to the baseline"
    unit = f" {head.unit}" if head.unit else ""
    interval = interval_text(row["ci_low"], row["ci_high"], number_text)
    spread = f" (95 % interval {interval})" if interval else ""
    return f"has the {extreme} {head.objective}: {number_text(row['mean'])}{unit}{spread}"


def _against(
    head: RankingHead, row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], varying: Sequence[str]
) -> str:
    """Return what the sentence says of the baseline."""
    if row["is_baseline"]:
        return ". It is the baseline: nothing that was tried has a better mean."
    if row["relative"] is None:
        return ". There is no baseline to compare it with." if not head.baseline else "."
    base = next((row_label(other, varying) for other in rows if other["is_baseline"]), "")
    change = percent_text(abs(row["relative"])).lstrip("+")
    amount = f"{change} {'less' if row['relative'] < 0 else 'more'} than the baseline{base and f' {base}'}"
    interval = interval_text(row["relative_low"], row["relative_high"], percent_text)
    paired = f" (paired 95 % interval {interval})" if interval else ""
    these = " on these workloads" if head.overall else ""
    certainty = {
        Verdict.BETTER: (
            f"The difference{these} is significant at {'the error of the race' if 'race' in row else '5 %'}, "
            "all comparisons taken together."
        ),
        Verdict.EQUAL: "It is equal to the baseline in every replicate.",
        Verdict.WORSE: "It is worse.",
    }.get(Verdict(row["verdict"]), "Whether it really is better is not sure.")
    text = f", {amount}{paired}. {certainty}"
    if by_log := interval_text(row.get("by_log_low"), row.get("by_log_high"), percent_text):
        sure = row["by_log_low"] > 0 or row["by_log_high"] < 0
        end = "which excludes 0" if sure else "so on another log it may be otherwise"
        text += f" With each log as one observation the interval is {by_log}, {end}."
    return text
