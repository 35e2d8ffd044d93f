"""Checks that a queue order knows nothing but what a scheduler may know, and decides the same every time.

Its source is read before it is run (`gridtune.batch.policies.reading`). Then it is replayed under other
futures, and in another process with another environment.
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core.errors import NumbaError

from gridtune.batch.metrics import evaluate
from gridtune.batch.policies.queue_order import ORDERS
from gridtune.batch.policies.reading import source_faults
from gridtune.batch.policies.rollout import RECOMMENDED
from gridtune.batch.replay import simulate
from gridtune.core.schedules.schedule import Schedule
from gridtune.core.user_code.plugins import load_plugins, plugin_of
from gridtune.errors import GridtuneError, PolicyError
from gridtune.report.labels import number_text, percent_text
from gridtune.report.tables import html_document, plain_table
from gridtune.sweep.journal.disk import check_writable
from gridtune.sweep.space.starter import space_name
from gridtune.workload.cleaning import clean
from gridtune.workload.files import WorkloadReference
from gridtune.workload.generators import generate_workload
from gridtune.workload.workload import Workload

#: Logs that a policy is tried on by default: generator, jobs, processors and load.
_GENERATED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "lublin, load 0.6": ("lublin", {"jobs": 2500, "processors": 128, "load": 0.6}),
    "lublin, load 0.8": ("lublin", {"jobs": 2500, "processors": 64, "load": 0.8}),
    "lublin, half a year": ("lublin", {"jobs": 10_000, "processors": 64, "load": 0.7}),
    "sessions": ("sessions", {"jobs": 2500, "processors": 128}),
}
#: The metrics that a policy is compared by, and the policies that it is compared with.
_METRICS = ("delay_index", "bounded_slowdown_mean", "area_weighted_response", "wait_mean", "wait_max")
_FLOOR: Mapping[str, Mapping[str, Any]] = {
    "saf": {"order": "saf"},
    "unicef": {"order": "unicef"},
    "f1, guard of 2 days": {"order": "f1", "guard": 172_800},
    "rollout, guard of 4 days": {"order": RECOMMENDED, "guard": 345_600},
}
_CHECKS = {
    "source": "the source does arithmetic with what a scheduler sees, and no more",
    "load": "it is registered and compiles",
    "futures": "no decision changes with later events",
    "date": "a replay of each log a year later is the same",
    "repeat": "a second replay of each log is the same",
    "process": "a replay in another process is the same: other environment, folder and order of logs",
}
#: Jobs that other futures are drawn for, and how many futures.
_JOBS, _FUTURES = 300, 40
#: Seconds of a week: a policy may know the hour and the weekday, but no date.
_WEEK = 7 * 86_400
#: Variables of the environment that the other process has, too: it could not start without them.
_KEPT = ("PATH", "HOME", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "SYSTEMROOT")


def _read_logs(references: Sequence[str], seed: int) -> dict[str, Workload]:
    """Return logs by name; without references those that are generated."""
    if not references:
        return {
            name: generate_workload(kind, **values, seed=seed + number)
            for number, (name, (kind, values)) in enumerate(_GENERATED.items())
        }
    return {one: clean(WorkloadReference(one).read())[0] for one in references}


@dataclass(frozen=True)
class _Replayed:
    """A policy's replay of one log.

    Attributes
    ----------
    schedule
        The schedule.
    digest
        SHA-256 of its start times.
    microseconds
        Processor time for each job.
    """

    schedule: Schedule
    digest: str
    microseconds: float


def _replay(log: Workload, policy: Mapping[str, Any]) -> _Replayed:
    """Replay a log under a policy, with the same random numbers each time."""
    began = time.process_time()
    schedule = simulate(log, rng=np.random.default_rng(0), **policy)
    seconds = time.process_time() - began
    digest = hashlib.sha256(np.ascontiguousarray(schedule.start_time).tobytes()).hexdigest()
    return _Replayed(schedule, digest, 1e6 * seconds / len(log))


@contextmanager
def _checked_bounds() -> Iterator[None]:
    """Have numba check the bounds of arrays in functions of the policy: beyond them may lie run times."""

    def checked(compiler: Any) -> Any:
        return lambda *given, **options: compiler(*given, **{**options, "boundscheck": True, "cache": False})

    before = numba.njit, numba.jit
    numba.njit, numba.jit = map(checked, before)
    try:
        yield
    finally:
        numba.njit, numba.jit = before


def _depends_on_date(log: Workload, policy: Mapping[str, Any]) -> bool:
    """Return whether a replay is another one if the log's clock began a year earlier.

    The clock starts at the first job. A job without length, of another user, is added before the others:
    with them, so that submissions are those of the log, then 53 weeks before.
    """
    jobs = log.take(np.concatenate([[0], np.arange(len(log))]))
    first = {"run_time": 0, "requested_processors": 1, "user": int(log.user.max()) + 1}
    columns = {name: np.array(jobs.column(name)) for name in ("submit_time", *first)}
    for name, value in first.items():
        columns[name][0] = value
    columns["submit_time"] += 53 * _WEEK
    starts = []
    for weeks in (0, 53):
        columns["submit_time"][0] = columns["submit_time"][1] - weeks * _WEEK
        schedule = _replay(replace(jobs, columns={**jobs.columns, **columns}), policy).schedule
        starts.append(schedule.start_time[1:] - schedule.start_time[1])
    return not np.array_equal(*starts)


def _replay_elsewhere(
    plugins: Sequence[Path], policy: Mapping[str, Any], references: Sequence[str], seed: int = 0
) -> dict[str, str]:
    """Return the digest of each log's replay in another process: other environment, folder, order of logs.

    Raises
    ------
    PolicyError
        If the policy fails there.
    """
    given: dict[str, Any] = {
        "plugins": [str(path.resolve()) for path in plugins],
        "policy": dict(policy),
        "seed": seed,
        "references": [str(Path(one).resolve()) if Path(one).exists() else one for one in references],
    }
    numba = {name: value for name, value in os.environ.items() if name.startswith(("NUMBA_", "GRIDTUNE_"))}
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    other = {"TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "7", "LANG": "C.UTF-8"}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", f"from {__name__} import _answer; _answer()"],
            input=json.dumps(given),
            capture_output=True,
            text=True,
            cwd=folder,
            env={**kept, **numba, **other},
            check=False,
        )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise PolicyError(f"the policy fails in another process: {last}")
    answer = json.loads(done.stdout)
    names = zip(references or _GENERATED, given["references"] or _GENERATED, strict=True)
    return {name: answer[resolved] for name, resolved in names}


def _answer() -> None:
    """Replay what the standard input asks for, the last log first, and print the digests."""
    given = json.load(sys.stdin)
    with _checked_bounds():
        load_plugins(given["plugins"])
        logs = _read_logs(given["references"], given["seed"])
        digests = {name: _replay(log, given["policy"]).digest for name, log in reversed(logs.items())}
    print(json.dumps(digests))


def _changed_decisions(log: Workload, policy: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many of other futures change a decision made before them, and how many were tried.

    A future begins at an instant of the replay. Jobs that have not ended by then run for other times, and
    those that are submitted later come at other times and ask for other things.
    """
    columns = ("submit_time", "run_time", "requested_time", "requested_processors")
    jobs = log.take(slice(0, _JOBS))
    size = log.machine_processors or int(log.processors.max())
    longest = int(jobs.requested_time.max())
    requested = np.where(jobs.requested_time > 0, jobs.requested_time, max(1, longest))
    past = {name: np.array(jobs.column(name)) for name in columns}
    past |= {"requested_time": requested, "requested_processors": np.array(jobs.processors)}
    options = {"processors": size, "kill": True, **policy}

    def starts(columns: Mapping[str, Any]) -> Any:
        other = replace(jobs, columns={**jobs.columns, **columns})
        return simulate(other, rng=np.random.default_rng(0), **options).start_time

    start = starts(past)
    end = start + np.minimum(past["run_time"], requested)
    rng = np.random.default_rng(11)
    changed = 0
    for now in rng.choice(np.concatenate([past["submit_time"], end]), _FUTURES):
        future = _other_future(past, start, end, int(now), rng)
        decided = start <= now
        other = starts(future)
        changed += bool((other[decided] != start[decided]).any() or (other[~decided] <= now).any())
    return changed, _FUTURES


def _other_future(
    past: Mapping[str, Any], start: Any, end: Any, now: int, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the columns of a log that is the same up to an instant, and other jobs after it."""
    future = {name: column.copy() for name, column in past.items()}
    coming, going = past["submit_time"] > now, end > now
    count, longest = int(coming.sum()), int(past["requested_time"].max())
    ran = np.maximum(now - start, -1) + 1
    future["run_time"][going] = (ran + rng.integers(0, longest, len(start)))[going]
    future["requested_time"][coming] = rng.integers(1, longest + 1, count)
    future["requested_processors"][coming] = rng.permutation(past["requested_processors"][coming])
    gaps = np.diff(past["submit_time"][coming], prepend=now)
    future["submit_time"][coming] = now + np.cumsum(np.maximum(1, rng.permutation(gaps)))
    return future


@dataclass(frozen=True)
class Check:
    """A check of a policy.

    Attributes
    ----------
    name
        Its name: source, load, futures, date, repeat or process.
    passed
        The outcome; None if it was not made.
    detail
        What was seen.
    """

    name: str
    passed: bool | None
    detail: str = ""


@dataclass(frozen=True)
class Score:
    """The checks of a policy, and its metrics beside those of simple rules.

    Attributes
    ----------
    policy
        The file, name or expression.
    checks
        The checks.
    order
        The queue order that was replayed; None if the policy cannot be replayed.
    logs
        By log: the number of jobs, and the metrics by policy.
    microseconds_per_job
        Processor time for each job; None without a replay.
    seconds
        Seconds that all of it took.
    seed
        Seed of the generated logs; None for logs that were given.
    folder
        The folder of `score.json` and `score.html`.
    """

    policy: str
    checks: Sequence[Check]
    order: str | None
    logs: Mapping[str, Mapping[str, Any]]
    microseconds_per_job: float | None
    seconds: float
    seed: int | None
    folder: Path

    @property
    def page(self) -> Path:
        """Return the page of the score."""
        return self.folder / "score.html"

    @property
    def passed(self) -> bool:
        """Tell whether all checks pass."""
        return all(check.passed for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """Return the score in JSON's types."""
        content = {
            "policy": self.policy,
            "passed": self.passed,
            "checks": list(map(asdict, self.checks)),
            "seconds": self.seconds,
            "seed": self.seed,
        }
        if self.order is None:
            return content
        replayed = {"order": self.order, "logs": self.logs, "microseconds_per_job": self.microseconds_per_job}
        return content | replayed

    def tables(self) -> list[tuple[str, list[str], list[list[str]]]]:
        """Return title, heads and cells: of the checks, and of each log."""
        words = {True: "passed", False: "failed", None: "–"}
        rows = [[_CHECKS[one.name], words[one.passed], one.detail] for one in self.checks]
        tables = [("Checks", ["check", "", "what was seen"], rows)]
        for name, log in self.logs.items():
            own = log["metrics"]["this policy"]["delay_index"]
            rows = [
                [
                    label,
                    *(number_text(values[metric]) for metric in _METRICS),
                    percent_text(own / values["delay_index"] - 1) if values["delay_index"] > 0 else "–",
                ]
                for label, values in log["metrics"].items()
            ]
            heads = ["policy", *_METRICS, "this policy's delay_index to it"]
            tables.append((f"{name}: {log['jobs']:,} jobs", heads, rows))
        return tables

    def _repr_html_(self) -> str:
        return "".join(
            f"<section><h2>{html.escape(title)}</h2>{plain_table(heads, rows)}</section>"
            for title, heads, rows in self.tables()
        )

    def write(self) -> None:
        """Write `score.json` and `score.html` into the folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.as_dict(), indent=2, ensure_ascii=False)
        (self.folder / "score.json").write_text(text + "\n", encoding="utf-8")
        title = f"{self.policy}: {'passed' if self.passed else 'failed'}"
        body = [f"<header><h1>{html.escape(title)}</h1></header><main>", self._repr_html_(), "</main>"]
        self.page.write_text(html_document(title, body, styles=("page",)), encoding="utf-8")


def score(
    policy: str,
    *,
    logs: Sequence[str] = (),
    order: str | None = None,
    backfill: str = "easy",
    guard: int | None = None,
    predictor: str | None = None,
    seed: int | None = None,
    out: Path | None = None,
) -> Score:
    """Check that a policy sees no future, and compare it with simple rules and a rollout.

    Parameters
    ----------
    policy
        A Python file that registers a queue order, the name of an order, or an expression.
    logs
        Logs to replay; by default generated ones.
    order
        The order, if the file registers several; may also be rollout(portfolio=…).
    backfill
        The backfilling.
    guard
        Longest wait in seconds; jobs that wait longer go first.
    predictor
        Source of prediction and early_end; by default last-two.
    seed
        Seed of the generated logs; by default new each time, so that no policy can know them.
    out
        Folder of score.json and score.html; by default results/score-NAME.

    Returns
    -------
    Score
        The checks, and the metrics if they could be made.

    Raises
    ------
    PolicyError
        If the file cannot be read.
    """
    began = time.monotonic()
    file = Path(policy) if policy.endswith(".py") else None
    if file is not None and not file.is_file():
        raise PolicyError("no such file", path=file)
    folder = out or Path("results") / f"score-{space_name(policy.removesuffix('.py'))}"
    check_writable(folder)
    seed = secrets.randbits(31) if seed is None else seed
    jobs = _read_logs(logs, seed)
    rules: dict[str, Any] = {"backfill": backfill, "guard": guard}
    rules |= {"predictor": predictor} if predictor else {}
    first: dict[str, _Replayed] = {}
    with _checked_bounds():
        checks = [*_checks(file, policy, order, rules, jobs, logs, seed, first)]
    checks += [Check(name, None, "not run") for name in list(_CHECKS)[len(checks) :]]
    compared, took = ({}, None) if "order" not in rules else _compared(first, jobs)
    seconds = time.monotonic() - began
    drawn = None if logs else seed
    result = Score(policy, checks, rules.get("order"), compared, took, seconds, drawn, folder)
    result.write()
    return result


def _checks(
    file: Path | None,
    policy: str,
    order: str | None,
    rules: dict[str, Any],
    jobs: Mapping[str, Workload],
    references: Sequence[str],
    seed: int,
    replays: dict[str, _Replayed],
) -> Iterator[Check]:
    """Yield the checks up to the first that makes others impossible; `rules` gets the order."""
    faults = source_faults(file) if file is not None else []
    yield Check("source", not faults, "; ".join(faults))
    if faults:
        return
    try:
        loaded = _loaded(file, policy, order)
        replays |= {name: _replay(log, {**rules, "order": loaded}) for name, log in jobs.items()}
        first = {name: replay.digest for name, replay in replays.items()}
    except (GridtuneError, NumbaError) as fault:
        yield Check("load", False, str(fault).strip())
        return
    rules["order"] = loaded
    yield Check("load", True, loaded)
    counts = [_changed_decisions(log, rules) for log in jobs.values()]
    changed, tried = sum(one for one, _ in counts), sum(one for _, one in counts)
    yield Check("futures", not changed, f"{changed} of {tried} futures change one")
    dated = [name for name, log in jobs.items() if _depends_on_date(log, rules)]
    yield Check("date", not dated, f"differs on {', '.join(dated)}" if dated else "the same")
    repeated = {name: _replay(log, rules) for name, log in jobs.items()}
    again = {name: replay.digest for name, replay in repeated.items()}
    for name, replay in repeated.items():  # now all is compiled
        replays[name] = replace(replays[name], microseconds=replay.microseconds)
    yield Check("repeat", again == first, _differing(first, again))
    try:
        other = _replay_elsewhere([] if file is None else [file], rules, references, seed)
        yield Check("process", other == first, _differing(first, other))
    except GridtuneError as fault:
        yield Check("process", False, str(fault))


def _differing(first: Mapping[str, str], other: Mapping[str, str]) -> str:
    names = [name for name, digest in first.items() if other[name] != digest]
    return f"differs on {', '.join(names)}" if names else "the same"


def _loaded(file: Path | None, policy: str, order: str | None) -> str:
    """Return the queue order to replay: that of the file, or the policy itself."""
    if file is None:
        return policy
    load_plugins([file])
    plugins = {name: plugin_of(one.score.__module__) for name, one in ORDERS.imported.items()}
    names = [name for name, plugin in plugins.items() if plugin and plugin.path == file.resolve()]
    if order is None and len(names) != 1:
        hint = f"name one with --order: {', '.join(names)}" if names else "decorate it: @gt.queue_order(NAME)"
        raise PolicyError(f"it registers {len(names)} queue orders", path=file, hint=hint)
    return order or names[0]


def _compared(
    first: Mapping[str, _Replayed], jobs: Mapping[str, Workload]
) -> tuple[dict[str, Mapping[str, Any]], float]:
    """Return metrics of the policy's replays and of the floor by log, and the microseconds for each job."""
    logs: dict[str, Mapping[str, Any]] = {}
    times = []
    for name, log in jobs.items():
        replays = {"this policy": first[name], **{label: _replay(log, one) for label, one in _FLOOR.items()}}
        values = {label: evaluate(one.schedule, only=_METRICS) for label, one in replays.items()}
        logs[name] = {"jobs": len(log), "metrics": values}
        times.append(replays["this policy"].microseconds)
    return logs, max(times)
