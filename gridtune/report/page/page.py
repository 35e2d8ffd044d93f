"""The page itself: text that can be read without scripts, and the charts' data, styles and scripts inline."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from pathlib import Path

from gridtune.core.checksums import software_versions
from gridtune.report.page.content import PageMaterial, page_content, page_json
from gridtune.report.page.document import count_text, html_document, plain_table
from gridtune.report.page.origin import MOST_FAILED, cell_notes, command_of, failed_cells, space_yaml
from gridtune.report.page.verdict import Sentence, verdict_sentences

__all__ = ["PAGE_FILE", "PageMaterial", "write_page"]

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


def write_page(material: PageMaterial, path: Path) -> Path:
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


def _body(material: PageMaterial) -> Iterator[str]:
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


def _size(material: PageMaterial) -> str:
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


def _verdict(sentences: Sequence[Sentence], material: PageMaterial) -> Iterator[str]:
    yield '<section id="verdict"><h2>Verdict</h2>'
    if not sentences:
        yield '<p class="answer none">No cell has a result to rank.</p>'
    if len(sentences) > _OPEN_SENTENCES:
        # What holds over all of them comes before each.
        sentences = sorted(sentences, key=lambda sentence: sentence.stratum != "overall")
    items = [_answer(sentence) for sentence in sentences]
    yield from items[:_OPEN_SENTENCES]
    if len(items) > _OPEN_SENTENCES:
        yield f"<details><summary>{len(items) - _OPEN_SENTENCES} more</summary>"
        yield from items[_OPEN_SENTENCES:]
        yield "</details>"
    notes = (*material.notes, *material.summary.remarks)
    yield from (f'<p class="note">{html.escape(note)}</p>' for note in notes)
    yield "</section>"


def _answer(sentence: Sentence) -> str:
    # A number and its per cent sign stay on one line.
    text = html.escape(sentence.text.replace(" %", "\u00a0%"))
    best = html.escape(sentence.best)
    if best:
        text = text.replace(best, f"<strong>{best}</strong>", 1)
    return f'<p class="answer {sentence.verdict.name.lower()}">{text}</p>'


def _failed(material: PageMaterial) -> Iterator[str]:
    rows = list(failed_cells(material.results))
    if not rows:
        return
    yield f'<section id="failed"><h2>Cells without a result</h2><p>{count_text(len(rows), "cell")}'
    if len(rows) > MOST_FAILED:
        yield f"; the first {MOST_FAILED} are listed, all are in results.parquet"
    yield ". Run them again with <code>--retry-failed</code>.</p>"
    for result, label, error in rows[:MOST_FAILED]:
        last = error.splitlines()[-1] if error else result.state
        title = f"{result.workload}, {label}, {result.replicate}: {result.state}"
        yield f"<details><summary><code>{html.escape(result.cell_id)}</code> {html.escape(title)}"
        yield f'<span class="error">{html.escape(last)}</span></summary>'
        yield f"<pre>{html.escape(error)}</pre></details>"
    yield "</section>"


def _origin(material: PageMaterial) -> Iterator[str]:
    facts = material.summary.facts
    yield '<section id="origin"><h2>How this was made</h2>'
    yield "<h3>Run it again</h3>"
    yield f"<pre>{html.escape(command_of(facts, material.directory))}</pre>"
    if not (facts.command or facts.source):
        name = html.escape(f"{facts.name}.yaml")
        yield f'<p class="note">The sweep was run from Python. Save the search space as {name} first.</p>'
    if facts.base:
        yield f'<p class="note">Relative paths in the search space start at {html.escape(facts.base)}.</p>'
    yield f"<details><summary>The search space</summary><pre>{html.escape(space_yaml(facts))}</pre></details>"
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
    notes = cell_notes(material.results)
    if notes:
        yield "<h3>What the cells note</h3><p>Sizes, and what cleaning left out or changed, over all cells "
        yield "of a workload.</p>"
        yield plain_table(("workload", "note", "value"), notes[:_MOST_NOTES])
    yield "</section>"
