"""`reproduce`: runs the experiments of a publication again and says of each claim whether it holds."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from gridtune.core.cells import content_id
from gridtune.core.reproduction import Experiment, PaperTable, Reading, Reproduction
from gridtune.core.sources import software_versions
from gridtune.core.system import SYSTEMS, System, get_system
from gridtune.errors import SweepError, TraceError
from gridtune.registry import name_hint
from gridtune.report.reproduction.page import REPRODUCTION_PAGE, write_reproduction_page
from gridtune.report.reproduction.verdicts import (
    VERDICTS_FILE,
    Estimate,
    Reproduced,
    Results,
    TableNumbers,
    TraceUse,
    estimate,
    judge,
)
from gridtune.study.run import Output, run_sweep
from gridtune.study.study import Study
from gridtune.sweep.space.overriding import trimmed_space
from gridtune.sweep.space.schema import SearchSpace
from gridtune.tracking.content import code_tags
from gridtune.tracking.tracked import TrackedRun, track_once
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.files import write_workload
from gridtune.workload.generators import generate_workload

#: Characters of a claim in the name of a tag.
_LONGEST_TAG = 200
#: Folders of a reproduction beside those of its experiments.
_SPACES, _TRACES = "spaces", "traces"


@dataclass(frozen=True)
class _Reproducing:
    """A reproduction that was run.

    Attributes
    ----------
    reproduced
        Its numbers and verdicts.
    page, verdicts
        The page and the file of verdicts.
    tracking
        Their run in MLflow; None if nothing is tracked.
    """

    reproduced: Reproduced
    page: Path
    verdicts: Path
    tracking: TrackedRun | None = None

    @property
    def complete(self) -> bool:
        """True if every cell has a result."""
        return not any(self.reproduced.missing.values())

    def tracked(self, system: System, uri: str | None) -> TrackedRun:
        """Track verdicts and page: the same verdicts are the same run."""
        reproduced = self.reproduced
        verdicts = sorted(reproduced.verdicts().items())
        return track_once(
            f"reproduce {reproduced.name}",
            "full" if reproduced.full else "quick",
            content_id(self.verdicts.read_text(encoding="utf-8")),
            metrics={f"claims {verdict}": number for verdict, number in verdicts},
            parameters={"reproduction": reproduced.name, "full": reproduced.full},
            tags={
                **code_tags(system.name, system.version),
                **{claim.text[:_LONGEST_TAG]: str(claim.verdict) for claim in reproduced.claims},
            },
            traces={trace.name: trace.checksum for trace in reproduced.traces},
            files=[self.page, self.verdicts],
            uri=uri,
        )


def _reproduction_names() -> dict[str, str]:
    """Return the reproductions of all systems: name to system."""
    return {name: system for system in SYSTEMS.names() for name in get_system(system).reproductions}


def _find_reproduction(name: str) -> tuple[System, Reproduction]:
    """Return a reproduction and its system.

    Raises
    ------
    SweepError
        If no system has it; the hint guesses which was meant.
    """
    own = get_system(name).reproductions if name in SYSTEMS else {}
    system = name if name in own else _reproduction_names().get(name)
    if system is None:
        names = _reproduction_names()
        hint = f"{name_hint(name, names)}; there are {', '.join(sorted(names))}"
        raise SweepError(f"there is no reproduction of {name!r}", hint=hint)
    return get_system(system), get_system(system).reproductions[name]


def reproduce(
    name: str,
    *,
    full: bool = False,
    folder: str | Path | None = None,
    workers: int | None = None,
    tracking: bool = False,
    tracking_uri: str | None = None,
    output: Output = "progress",
    say: Callable[[str], None] = print,
) -> _Reproducing:
    """Run the experiments of a publication again, and write the page that compares them with it.

    The same call again runs only the cells that are missing.

    Parameters
    ----------
    name
        One of `_reproduction_names()`.
    full
        True to run the whole experiments on the real logs; False to run parts on the logs that are here.
    folder
        Where everything goes; by default `results/reproduce-NAME-quick` or `-full`.
    workers
        As in `run_sweep`.
    tracking, tracking_uri
        True to track the sweeps, the verdicts and the page in MLflow, and the store; a store alone is
        enough.
    output
        As in `run_sweep`.
    say
        Called with a line before each experiment, and whenever a log is generated.

    Raises
    ------
    GridtuneError
        If there is no such reproduction, a log is missing, or the folder is another reproduction's.
    """
    system, reproduction = _find_reproduction(name)
    mode = "full" if full else "quick"
    home = Path(folder) if folder is not None else Path("results") / f"reproduce-{name}-{mode}"
    verdicts = home / VERDICTS_FILE
    if home.exists() and not home.is_dir():
        raise SweepError("is no folder", path=home, hint="give another --output")
    if verdicts.exists() and (other := Reproduced.read(verdicts).name) != name:
        raise SweepError(f"holds the reproduction of {other!r}", path=home, hint="give another --output")
    tracking = tracking or tracking_uri is not None
    logs = _Logs(home / _TRACES, full, say)
    spaces = {
        key: _write_space(
            key, trimmed_space(experiment, quick=not full).space, logs.replaced(experiment), home / _SPACES
        )
        for key, experiment in reproduction.experiments.items()
        if full or experiment.quick is not None
    }
    studies: dict[str, Study] = {}
    for number, (key, path) in enumerate(spaces.items(), start=1):
        say(f"experiment {number} of {len(spaces)}: {key}")
        studies[key] = run_sweep(
            path,
            directory=home / key,
            workers=workers,
            tracking=tracking,
            tracking_uri=tracking_uri,
            output=output,
        )
    done = _written(name, system, reproduction, studies, spaces, logs, home)
    return replace(done, tracking=done.tracked(system, tracking_uri)) if tracking else done


class _Logs:
    """The logs of a reproduction: real ones where they are, else what stands in for them."""

    def __init__(self, folder: Path, full: bool, say: Callable[[str], None]) -> None:
        self._folder, self.full, self._say = folder, full, say
        #: Reference to what it stands in for.
        self._remarks: dict[str, str] = {}

    def remark(self, trace: str) -> str:
        """Return what a trace of a cell stands in for; "" for a real one."""
        return next((text for name, text in self._remarks.items() if name in trace), "")

    def replaced(self, experiment: Experiment) -> dict[str, str]:
        """Return each trace of the space that is another now; generate those that are to be generated."""
        replaced = {}
        for trace, log in experiment.logs.items():
            try:
                resolve_trace(log.real)
                replaced[trace] = log.real
            except TraceError:
                if self.full or log.stand_in is None:
                    raise
                replaced[trace] = self._stand_in(trace, log.stand_in)
                self._remarks[replaced[trace]] = f"stands in for {log.real}, which is not on this machine"
        return replaced

    def _stand_in(self, trace: str, log: str | Mapping[str, Any]) -> str:
        if isinstance(log, str):
            return log
        path = self._folder / f"{trace}-stand-in.swf.gz"
        if not path.is_file():
            self._say(f"generating {path} with {log['generator']}")
            path.parent.mkdir(parents=True, exist_ok=True)
            options = dict(log)
            write_workload(generate_workload(options.pop("generator"), **options), path)
        # The space lies in a folder beside that of the traces.
        return f"../{_TRACES}/{path.name}"


def _write_space(key: str, space: SearchSpace, traces: Mapping[str, str], folder: Path) -> Path:
    """Write an experiment's space as a file of its own, so that it can be looked at and run by itself."""
    content: dict[str, Any] = copy.deepcopy(dict(space.source.content))
    for part in (content.get("fixed"), *(content.get("workloads") or ())):
        if isinstance(part, dict) and part.get("trace") in traces:
            part["trace"] = traces[part["trace"]]
    path = folder / f"{key}.yaml"
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path


def _written(
    name: str,
    system: System,
    reproduction: Reproduction,
    studies: Mapping[str, Study],
    spaces: Mapping[str, Path],
    logs: _Logs,
    home: Path,
) -> _Reproducing:
    results = {key: study.results for key, study in studies.items()}
    traces = {
        trace: checksum for study in studies.values() for trace, checksum in study.facts.workloads.items()
    }
    reproduced = Reproduced(
        name=name,
        title=reproduction.title,
        publications=list(reproduction.publications),
        data=reproduction.data,
        system=system.name,
        system_version=system.version,
        full=logs.full,
        command=f"gridtune reproduce {name} --{'full' if logs.full else 'quick'}",
        commands={key: f"gridtune sweep {_SPACES}/{key}.yaml --out {key} --no-tracking" for key in studies},
        cells={key: len(study.results) for key, study in studies.items()},
        missing={key: len(study.results) - study.counts.get("done", 0) for key, study in studies.items()},
        traces=[
            TraceUse(trace.partition("?")[0], checksum, logs.remark(trace))
            for trace, checksum in sorted(traces.items())
        ],
        versions=software_versions(),
        claims=[judge(claim, results) for claim in reproduction.claims],
        tables=[numbers for table in reproduction.tables if (numbers := _numbers(table, results)).rows],
    )
    files = {figure.file: home / figure.experiment / "plots" / figure.file for figure in reproduction.figures}
    images = {name: path for name, path in files.items() if path.is_file()}
    texts = {key: path.read_text(encoding="utf-8") for key, path in spaces.items()}
    page = write_reproduction_page(reproduced, reproduction, images, texts, home / REPRODUCTION_PAGE)
    return _Reproducing(reproduced, page, reproduced.write(home))


def _numbers(table: PaperTable, results: Results) -> TableNumbers:
    """Return the numbers of a table, without the rows of which neither side has any."""
    rows: list[tuple[str, list[tuple[float | None, Estimate | None]]]] = []
    experiments: dict[str, None] = {}
    for label, both in table.rows:
        experiments |= {ours.experiment: None for _, ours in both if isinstance(ours, Reading)}
        cells = [(published, None if ours is None else estimate(ours, results)) for published, ours in both]
        if any(pair != (None, None) for pair in cells):
            rows.append((label, cells))
    return TableNumbers(table.title, table.source, list(table.columns), rows, list(experiments))
