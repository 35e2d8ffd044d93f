"""The page itself: text that can be read without scripts, and the charts' data, styles and scripts inline."""

from __future__ import annotations

import html
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from gridtune.core.sources import software_versions
from gridtune.report.answer import GAINS, Answer
from gridtune.report.labels import configuration_label, count_text
from gridtune.report.page.content import page_content, page_json
from gridtune.report.schedules import ReportMaterial
from gridtune.report.tables import html_document, plain_table

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
_OPEN_ANSWERS = 6
#: Cells without a result that the page lists.
_MOST_FAILED = 200
#: Characters of an error that the page shows: the end has the reason.
_LONGEST_ERROR = 4_000


def write_page(material: ReportMaterial, path: Path) -> Path:
    """Write the report of a sweep as one HTML file, and return its path.

    The file loads nothing: its content security policy allows the styles and the script inside it and
    nothing else. The same results give the same bytes.

    Parameters
    ----------
    material
        The results.
    path
        The file.
    """
    data = page_json(page_content(material))
    body = [*_Page(material).body(), f'<script type="application/json" id="data">{data}</script>']
    text = html_document(f"{material.summary.facts.name}: report", body, styles=("page",), scripts=_SCRIPTS)
    path.write_text(text, encoding="utf-8")
    return path


@dataclass(frozen=True)
class _Page:
    """The parts of the page of a sweep."""

    material: ReportMaterial

    def body(self) -> Iterator[str]:
        """Yield the page's body."""
        facts = self.material.summary.facts
        description = (
            f'<p class="question">{html.escape(facts.description.strip())}</p>' if facts.description else ""
        )
        yield f"<header>\n<h1>{html.escape(facts.name)}</h1>\n{description}\n{self._size()}\n</header>"
        yield "<main>"
        yield from self._verdict()
        yield '<noscript><p class="note">The charts and tables below need JavaScript. '
        yield "The same rankings are in ranking.md beside this page.</p></noscript>"
        yield '<div id="controls" class="controls"></div>'
        # The scripts fill these sections, and take away those that have nothing to show.
        for name, heading in _CHARTS:
            yield f'<section id="{name}" class="chart" hidden><h2>{heading}</h2></section>'
        yield from self._failed()
        yield from self._origin()
        yield "</main>"

    def _size(self) -> str:
        facts = self.material.summary.facts
        configurations = len({result.configuration_id for result in self.material.results})
        logs = len({result.workload for result in self.material.results})
        parts = [
            count_text(len(self.material.results), "cell"),
            count_text(configurations, "configuration"),
            count_text(facts.replicates, "replicate"),
            *([count_text(logs, "workload")] if logs > 1 else []),
            f"system {facts.system}",
        ]
        return f'<p class="size">{html.escape(" · ".join(parts))}</p>'

    def _verdict(self) -> Iterator[str]:
        answers = self.material.summary.answers
        yield '<section id="verdict"><h2>Verdict</h2>'
        if not answers:
            yield '<p class="answer none">No cell has a result to rank.</p>'
        if len(answers) > _OPEN_ANSWERS:
            # Answers over all strata come before those of each.
            answers = sorted(answers, key=lambda answer: answer.stratum != "overall")
        items = list(map(_answer, answers))
        yield from items[:_OPEN_ANSWERS]
        if len(items) > _OPEN_ANSWERS:
            yield f"<details><summary>{len(items) - _OPEN_ANSWERS} more</summary>"
            yield from items[_OPEN_ANSWERS:]
            yield "</details>"
        notes = (*self.material.notes, *self.material.summary.remarks)
        yield from (f'<p class="note">{html.escape(note)}</p>' for note in notes)
        yield "</section>"

    def _failed(self) -> Iterator[str]:
        failed = [result for result in self.material.results if result.state != "done"]
        if not failed:
            return
        yield f'<section id="failed"><h2>Cells without a result</h2><p>{count_text(len(failed), "cell")}'
        if len(failed) > _MOST_FAILED:
            yield f"; the first {_MOST_FAILED} are listed, all are in results.parquet"
        yield ". Run them again with <code>--retry all</code>.</p>"
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

    def _origin(self) -> Iterator[str]:
        facts = self.material.summary.facts
        yield '<section id="origin"><h2>Reproduce</h2>'
        yield "<h3>Run it again</h3>"
        source, folder = facts.source or f"{facts.name}.yaml", str(self.material.directory)
        command = f"gridtune sweep {shlex.quote(source)} --out {shlex.quote(folder)}"
        if facts.command:
            command = f"cd {shlex.quote(facts.folder)}\n{facts.command}"
        yield f"<pre>{html.escape(command)}</pre>"
        if not (facts.command or facts.source):
            name = html.escape(f"{facts.name}.yaml")
            yield f'<p class="note">The sweep was run from Python. Save the search space as {name} first.</p>'
        if facts.base:
            base = html.escape(facts.base)
            yield f'<p class="note">Relative paths in the search space start at {base}.</p>'
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
        yield "</section>"


_CHARTS = (
    ("ranking", "Ranking"),
    ("replicates", "Every replicate"),
    ("effects", "Effect of each parameter"),
    ("interactions", "Interactions of two parameters"),
    ("parallel", "All parameters at once"),
    ("front", "Pareto front"),
    ("convergence", "Progress of the search"),
    ("schedule", "Schedules"),
)


def _answer(answer: Answer) -> str:
    """Return an answer: its advice, its lines, and its details folded."""

    def escaped(text: str) -> str:
        # A number and its per cent sign stay on one line.
        return html.escape(text.replace(" %", "\u00a0%").replace("(--details)", "(below)"))

    def rows(lines: Iterable[tuple[str, str]]) -> str:
        items, before = "", ""
        for name, line in lines:
            kind = " class=worse" if name == "loses" and answer.losers else ""
            items += f"<dt{kind}>{escaped(name) if name != before else ''}</dt><dd>{escaped(line)}</dd>"
            before = name
        return f'<dl class="lines">{items}</dl>' if items else ""

    text = escaped(answer.advice)
    if (best := html.escape(answer.best)) and answer.verdict in GAINS:
        text = text.replace(best, f"<strong>{best}</strong>", 1)
    kind = answer.verdict.value.replace(" ", "-") or "none"
    details = rows(answer.all_details)
    folded = f"<details><summary>Details</summary>{details}</details>" if details else ""
    return f'<p class="answer {kind}">{text}</p>{rows(answer.lines)}{folded}'
