"""The page of messages: what gridtune refuses and what to do about it, read from where errors are raised."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gridtune import errors

__all__ = ["ADVICE", "SECTIONS", "Message", "families", "messages", "messages_page", "section_of"]

PACKAGE = Path(errors.__file__).parent
#: What to do about errors of a family whose message does not say it.
ADVICE: Mapping[str, str] = {
    "GridtuneError": "Read the place it names: a file, a line, a field.",
    "WorkloadError": "Look at the line that it names; `gridtune traces describe LOG` shows what a log holds.",
    "TraceError": "`gridtune traces list` shows every name; without a network give `--mirror FOLDER`.",
    "PolicyError": "`gridtune list orders` shows orders, `gridtune run SYSTEM --help` a system's policies.",
    "SimulationError": "Change the parameter it names, or clean the log: `gridtune help cleaning`.",
    "ScheduleError": "The schedule is wrong, not the log: mend what made it; report it if that was gridtune.",
    "MetricError": "`gridtune list metrics` shows every metric of every system.",
    "SpaceError": "Mend the line of the file; `gridtune sweep FILE --dry-run` checks it and runs nothing.",
    "SweepError": "Nothing is lost: the same command goes on with what is missing.",
    "MissingExtraError": "Install what the hint says; `gridtune doctor` checks the installation.",
    "StorageError": "Check the URL and the credentials in the environment.",
    "UnknownNameError": "The hint says the name that was probably meant, or all of them.",
    "TrackingError": "Results are in the sweep's folder; `gridtune report FOLDER --track` sends them later.",
}
#: Sections: title, the commands that say such things, the beginnings of their modules; the first that fits.
SECTIONS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Logs", "`simulate`, `init`, `traces`, and wherever a log is named", ("workload/",)),
    (
        "Search spaces",
        "`sweep`",
        ("sweep/space/", "sweep/search/"),
    ),
    (
        "Running a sweep",
        "`sweep`, `merge`, `status`, `rerun`",
        ("sweep/", "study/run", "study/shards", "storage"),
    ),
    ("Results", "`report`, `compare`, `export`, `rerun`, `reproduce`", ("report/", "study/", "statistics/")),
    ("Tracking", "`ui`, `sweep`, `report --track`", ("tracking/",)),
    ("Training", "`train`, and Ray Tune", ("training/", "tune/", "environments")),
    ("Policies and schedules", "`simulate`, `run batch`", ("batch/", "systems/batch/")),
    ("The system shutdown", "`run shutdown`, `sweep`", ("systems/shutdown/",)),
    ("The system responsive", "`run responsive`, `sweep`", ("systems/responsive/",)),
    ("The system provisioning", "`run provisioning`, `sweep`", ("systems/provisioning/",)),
    ("The system dispatch", "`run dispatch`, `sweep`", ("systems/dispatch/",)),
    ("The system placement", "`run placement`, `sweep`", ("systems/placement/",)),
    ("The system gangs", "`run gangs`, `sweep`", ("systems/gangs/",)),
    ("Every command", "arguments, plug-ins, files", ("cli/", "core/", "arguments", "registry", "")),
)
#: Calls that make an error, beside the families: a search space's own, and what click and pydantic show.
_OTHERS = ("fault", "UsageError", "BadParameter", "ValueError", "MissingExtraError")
#: Modules whose ValueErrors reach a reader: pydantic shows them as refused values.
_VALIDATED = ("parameters", "sweep/space/", "training/contract")
#: Letters that a message must have to be worth looking up.
_FEWEST = 12


@dataclass(frozen=True)
class Message:
    """A message as the source has it; … stands for a value.

    Attributes
    ----------
    module
        Path of the module within the package.
    text, hint
        What is wrong, and what to do; "" where the message says it.
    """

    module: str
    text: str
    hint: str = ""


def messages_page() -> str:
    """Return the page."""
    refusals = list(messages())
    parts = [
        "# Messages",
        "What gridtune refuses, and what to do about it. Look here, or search the site, for the words of a "
        "message; … stands for a value. A message is one line on the standard error, and a hint a second.",
        "```text\nerror: FILE:LINE, field FIELD: what is wrong\n  hint: what to do\n```",
        "Exit codes: 0 all is well, 1 some cells failed or something differs, 2 bad input, 130 interrupted. "
        "From Python, each is an exception of one of these families, with `path`, `line`, `field`, `hint`.",
        _table(("exception", "means", "if in doubt"), families()),
    ]
    for title, commands, _ in SECTIONS:
        own = [message for message in refusals if section_of(message.module) == title]
        if not own:
            continue
        parts += [f"## {title}", f"Said by {commands}."]
        hinted = sorted({(_code(one.text), one.hint) for one in own if one.hint}, key=_key)
        plain = sorted(
            {_code(one.text) for one in own if not one.hint} - {text for text, _ in hinted}, key=_key
        )
        if hinted:
            parts.append(_table(("message", "what to do"), hinted))
        if plain:
            listed = "\n".join(f"    - {text}" for text in plain)
            parts.append(f'??? note "{len(plain)} more, which say themselves what is needed"\n\n{listed}')
    return "\n\n".join(parts)


def families() -> list[tuple[str, str, str]]:
    """Return the families of errors: name, meaning, advice."""
    kinds = [getattr(errors, name) for name in errors.__all__ if name.endswith("Error")]
    return [(f"`{kind.__name__}`", _first_line(kind), ADVICE[kind.__name__]) for kind in kinds]


def messages() -> Iterator[Message]:
    """Yield every message that the package's source has, in the order of its modules."""
    names = {name for name in errors.__all__ if name.endswith("Error")}
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).with_suffix("").as_posix()
        for function, call in _calls(ast.parse(path.read_text(encoding="utf-8"))):
            name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
            if not call.args or not (name in names or name in _OTHERS):
                continue
            if name == "ValueError" and not any(part in module for part in _VALIDATED):
                continue
            hints = [keyword.value for keyword in call.keywords if keyword.arg == "hint"]
            hint = next(iter(_texts(hints[0], function)), "") if hints else ""
            for text in _texts(call.args[0], function):
                if sum(letter.isalpha() for letter in text) >= _FEWEST:
                    yield Message(module, text, "" if hint.strip("… ") == "" else hint)


def section_of(module: str) -> str:
    """Return the title of the section that a module's messages are in."""
    return next(title for title, _, places in SECTIONS if any(module.startswith(place) for place in places))


def _calls(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.Call]]:
    """Yield each call with the innermost function around it."""

    def visit(node: ast.AST, function: ast.AST) -> Iterator[tuple[ast.AST, ast.Call]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call):
                yield function, child
            inner = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from visit(child, child if inner else function)

    yield from visit(tree, tree)


def _texts(node: ast.expr, function: ast.AST) -> list[str]:
    """Return what a message may be: a text, an f-string, one of two, or a name that was given one."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
        return ["".join(map(str, parts))]
    if isinstance(node, ast.IfExp):
        return _texts(node.body, function) + _texts(node.orelse, function)
    if isinstance(node, ast.BoolOp):
        return _texts(node.values[-1], function)
    if isinstance(node, ast.Name):
        given = [
            assigned
            for assigned in ast.walk(function)
            if isinstance(assigned, ast.Assign)
            and assigned.lineno < node.lineno
            and any(isinstance(target, ast.Name) and target.id == node.id for target in assigned.targets)
            and node.id not in {inner.id for inner in ast.walk(assigned.value) if isinstance(inner, ast.Name)}
        ]
        return _texts(max(given, key=lambda last: last.lineno).value, function) if given else []
    return []


def _first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def _key(row: str | tuple[str, str]) -> str:
    text = row if isinstance(row, str) else row[0]
    return text.lower().lstrip("`… '")


def _code(text: str) -> str:
    """Return a message as code, which shows it as it is."""
    marks = "``" if "`" in text else "`"
    pad = " " if "`" in text else ""
    return f"{marks}{pad}{' '.join(text.split())}{pad}{marks}"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    lines += [
        f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in row)} |"
        for row in rows
    ]
    return "\n".join(lines)
