"""What each environment shows its agent, as tables: from the modules that fill the observations in."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from gridtune.systems.provisioning import environment as of_provisioning
from gridtune.systems.responsive.simulator import candidates as of_responsive
from gridtune.systems.shutdown.simulator import clusters as of_shutdown

__all__ = ["observation_of"]

DOCS = Path(__file__).resolve().parents[2] / "docs"
#: As `gridtune.systems.dispatch.environment` fills them in.
_OF_DISPATCH = (
    "estimated run time",
    "seconds to the deadline",
    "jobs at the machine",
    "estimated seconds waiting before it",
    "estimated seconds left of running jobs",
    "learned speed factor",
    "predicted seconds to its end",
    "predicted slack over the estimate",
)


def observation_of(environment: str) -> str:
    """Return the Markdown of an environment's observation, by the environment's name."""
    return _OBSERVATIONS[environment]()


def _batch() -> str:
    page = (DOCS / "batch_environment.md").read_text(encoding="utf-8")
    part = page.partition("\n## Observations\n")[2].partition("\n## ")[0].strip() + "\n"
    # The page it goes to is in a folder below.
    return re.sub(r"\]\((?=[a-z_]+\.md)", "](../", part)


def _dispatch() -> str:
    rows = ((str(number), name) for number, name in enumerate(_OF_DISPATCH))
    held = "With `hold` a last row has columns 0 and 1, the jobs held, their seconds, the next end, zeros."
    return f"For each machine in turn:\n\n{_table(('column', 'the arriving job there'), rows)}\n\n{held}"


def _provisioning() -> str:
    rows = ((str(number), *text.split(": ", 1)) for number, text in enumerate(of_provisioning.FEATURES))
    head = "M is the bound of the makespan, A that of the cost, P the most processors that are ever free."
    return f"{head}\n\n{_table(('number', 'name', 'what it is'), rows)}"


def _responsive() -> str:
    return _without_rst_tables(inspect.getdoc(of_responsive) or "")


def _shutdown() -> str:
    text = (inspect.getdoc(of_shutdown) or "").partition("\n\n")[2]
    return text.replace("`FEATURES`", str(of_shutdown.FEATURES))


def _without_rst_tables(text: str) -> str:
    """Return a docstring with its reStructuredText tables as Markdown."""
    rule = r"^=+ +=+\n"

    def table(match: re.Match[str]) -> str:
        rows = (re.split(r"  +", line, maxsplit=1) for line in match[1].splitlines())
        return _table(("column", "what it is"), rows) + "\n"

    return re.sub(rf"{rule}((?:(?!=).*\n)+?){rule}", table, text + "\n", flags=re.MULTILINE)


def _table(head: tuple[str, ...], rows: Iterable[Iterable[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    return "\n".join(
        [*lines, *(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)]
    )


_OBSERVATIONS: dict[str, Callable[[], str]] = {
    "Batch-v0": _batch,
    "Dispatch-v0": _dispatch,
    "Provisioning-v0": _provisioning,
    "Responsive-v0": _responsive,
    "Shutdown-v0": _shutdown,
}
