"""`gridtune score`: checks that a policy sees no future, and says how good it is beside simple rules."""

from __future__ import annotations

import html
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gridtune.cli.main import EXIT_FAILED_CELLS
from gridtune.cli.parameters import JSON, folder_option
from gridtune.cli.tables import new_table, print_json, print_tables
from gridtune.errors import GridtuneError

if TYPE_CHECKING:
    from gridtune.workload.workload import Workload

__all__ = ["score"]

#: What each policy comes to on a log.
_METRICS = ("delay_index", "bounded_slowdown_mean", "area_weighted_response", "wait_mean", "wait_max")
#: The policies that one is compared with.
_FLOOR: Mapping[str, Mapping[str, Any]] = {
    "saf": {"order": "saf"},
    "unicef": {"order": "unicef"},
    "f1, guard of 2 days": {"order": "f1", "guard": 172_800},
    "rollout, guard of 4 days": {"order": "rollout(objective=balanced, moves=60)", "guard": 345_600},
}
_CHECKS = {
    "source": "the source does arithmetic with the fields of a job, and no more",
    "load": "it is registered and compiles",
    "futures": "no decision changes with what happens after it",
    "repeat": "a second replay of each log is the same",
    "process": "so is one in another process: other environment, folder and order of logs",
}


@dataclass(frozen=True)
class _Check:
    """A check: its key in `_CHECKS`, whether it passed (None: it was not made), and what was seen."""

    name: str
    passed: bool | None
    detail: str = ""


@click.command()
@click.argument("policy")
@click.option("--log", "logs", multiple=True, help="A log to replay; may be repeated. [default: generated]")
@click.option("--order", help="The order, if the file registers several; may also be rollout(portfolio=…).")
@click.option("--backfill", default="easy", show_default=True, help="The backfilling.")
@click.option("--guard", type=click.IntRange(min=0), help="Seconds; longer waits go first.")
@click.option("--predictor", help="Where prediction and early_end come from. [default: last-two]")
@folder_option("Where score.json and score.html go. [default: results/score-NAME]")
@JSON
def score(
    policy: str,
    logs: tuple[str, ...],
    order: str | None,
    backfill: str,
    guard: int | None,
    predictor: str | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Check POLICY, and compare it with simple rules and a rollout.

    POLICY is a Python file that registers a queue order, the name of an order, or an expression. A file is
    read before it is run: what reaches beyond the fields of a job is refused, and nothing of it runs. Then no
    decision may change when run times and later submissions do, and replays must be the same twice and in
    another process.

    The exit code is 0 if all checks pass and 1 if not, however good the policy is.

    \b
    Examples:
      gridtune score my_order.py
      gridtune score my_order.py --log my_log.swf.gz --log kth-sp2 --guard 172800
      gridtune score "log(walltime) + 0.3 * processors" --json
      gridtune score "prediction * processors - wait" --predictor template
    """
    from gridtune.study.leaks import read_logs
    from gridtune.sweep.journal.disk import check_writable
    from gridtune.sweep.space.starter import space_name

    began = time.monotonic()
    file = Path(policy) if policy.endswith(".py") else None
    if file is not None and not file.is_file():
        raise click.UsageError(f"{file} is no file")
    folder = folder or Path("results") / f"score-{space_name(policy.removesuffix('.py'))}"
    check_writable(folder)
    jobs = read_logs(logs)
    options = {"backfill": backfill, "guard": guard, **({"predictor": predictor} if predictor else {})}
    checks, rules = _made_checks(file, policy, order, options, jobs, logs)
    passed = all(check.passed for check in checks)
    content: dict[str, Any] = {"policy": policy, "passed": passed, "checks": list(map(asdict, checks))}
    if rules is not None:
        content |= {"order": rules["order"], **_compared(rules, jobs)}
    content["seconds"] = time.monotonic() - began
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=2, ensure_ascii=False)
    (folder / "score.json").write_text(text + "\n", encoding="utf-8")
    (folder / "score.html").write_text(_page(content), encoding="utf-8")
    if as_json:
        print_json(content)
    else:
        print_tables(
            new_table(title, *names, rows=rows, right=names[1:] if number else ())
            for number, (title, names, rows) in enumerate(_tables(content))
        )
        click.echo(f"{'passed' if passed else 'failed'}: {folder / 'score.html'}")
    if not passed:
        sys.exit(EXIT_FAILED_CELLS)


def _made_checks(
    file: Path | None,
    policy: str,
    order: str | None,
    rules: Mapping[str, Any],
    jobs: Mapping[str, Workload],
    references: Sequence[str],
) -> tuple[list[_Check], Mapping[str, Any] | None]:
    """Return the checks, and the policy as `simulate` takes it; None if it cannot be replayed."""
    from gridtune.study.leaks import changed_decisions, replay, replay_elsewhere, source_faults

    checks: list[_Check] = []
    faults = source_faults(file) if file is not None else []
    checks.append(_Check("source", not faults, "; ".join(faults)))
    if faults:
        return [*checks, *(_Check(name, None, "not run") for name in list(_CHECKS)[1:])], None
    try:
        rules = {**rules, "order": _loaded(file, policy, order)}
        first = {name: replay(log, rules).digest for name, log in jobs.items()}
    except GridtuneError as fault:
        later = (_Check(name, None, "not run") for name in list(_CHECKS)[2:])
        return [*checks, _Check("load", False, str(fault)), *later], None
    checks.append(_Check("load", True, rules["order"]))
    counts = [changed_decisions(log, rules) for log in jobs.values()]
    changed, tried = sum(one for one, _ in counts), sum(one for _, one in counts)
    checks.append(_Check("futures", not changed, f"{changed} of {tried} futures change one"))
    again = {name: replay(log, rules).digest for name, log in jobs.items()}
    checks.append(_Check("repeat", again == first, _differing(first, again)))
    try:
        other = replay_elsewhere([] if file is None else [file], rules, references)
        checks.append(_Check("process", other == first, _differing(first, other)))
    except GridtuneError as fault:
        checks.append(_Check("process", False, str(fault)))
    return checks, rules


def _differing(first: Mapping[str, str], other: Mapping[str, str]) -> str:
    names = [name for name, digest in first.items() if other[name] != digest]
    return f"differs on {', '.join(names)}" if names else "the same"


def _loaded(file: Path | None, policy: str, order: str | None) -> str:
    """Return the queue order to replay: that of the file, or the policy itself."""
    from gridtune.batch.policies.queue_order import ORDERS
    from gridtune.core.user_code.plugins import load_plugins, plugin_of
    from gridtune.errors import PolicyError

    if file is None:
        return policy
    load_plugins([file])
    path = file.resolve()
    plugins = {name: plugin_of(one.score.__module__) for name, one in ORDERS.imported.items()}
    names = [name for name, plugin in plugins.items() if plugin is not None and plugin.path == path]
    if order is None and len(names) != 1:
        hint = f"name one with --order: {', '.join(names)}" if names else "decorate it: @gt.queue_order(NAME)"
        raise PolicyError(f"it registers {len(names)} queue orders", path=file, hint=hint)
    return order or names[0]


def _compared(rules: Mapping[str, Any], jobs: Mapping[str, Workload]) -> dict[str, Any]:
    """Return metrics of the policy and the floor by log, and the time for each job."""
    from gridtune.batch.metrics import evaluate
    from gridtune.study.leaks import replay

    logs: dict[str, Any] = {}
    times = []
    for name, log in jobs.items():
        values = {}
        for label, policy in {"this policy": rules, **_FLOOR}.items():
            done = replay(log, policy)
            values[label] = evaluate(done.schedule, only=_METRICS)
            times += [done.microseconds] if policy is rules else []
        logs[name] = {"jobs": len(log), "metrics": values}
    return {"logs": logs, "microseconds_per_job": max(times)}


_Rows = list[list[str]]


def _tables(content: Mapping[str, Any]) -> list[tuple[str, list[str], _Rows]]:
    """Return title, columns and rows: of the checks, and of each log."""
    from gridtune.report.labels import number_text, percent_text

    words = {True: "passed", False: "failed", None: "–"}
    rows = [[_CHECKS[one["name"]], words[one["passed"]], one["detail"]] for one in content["checks"]]
    tables = [("Checks", ["check", "", "what was seen"], rows)]
    for name, log in content.get("logs", {}).items():
        own = log["metrics"]["this policy"]["delay_index"]
        rows = [
            [label, *(number_text(values[metric]) for metric in _METRICS), _change(own, values, percent_text)]
            for label, values in log["metrics"].items()
        ]
        heads = ["policy", *_METRICS, "this policy's delay_index to it"]
        tables.append((f"{name}: {log['jobs']:,} jobs", heads, rows))
    return tables


def _change(own: float, values: Mapping[str, float], write: Any) -> str:
    other = values["delay_index"]
    return str(write(own / other - 1)) if other > 0 else "–"


def _page(content: Mapping[str, Any]) -> str:
    from gridtune.report.tables import html_document, plain_table

    verdict = "passed" if content["passed"] else "failed"
    body = [f"<header><h1>{html.escape(content['policy'])}: {verdict}</h1></header><main>"]
    for title, names, rows in _tables(content):
        body.append(f"<section><h2>{html.escape(title)}</h2>{plain_table(names, rows)}</section>")
    if "microseconds_per_job" in content:
        took = content["microseconds_per_job"]
        body.append(f'<p class="note">At most {took:.1f} µs of processor time for each job.</p>')
    return html_document(f"{content['policy']}: score", [*body, "</main>"], styles=("page",))
