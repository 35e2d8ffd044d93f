"""Advice on the settings of a Slurm cluster: the best change that a search finds, verified later."""

from __future__ import annotations

import html
import json
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from gridtune.batch.metrics.classes import default_classes
from gridtune.core.cells import content_id
from gridtune.errors import SweepError
from gridtune.report.answer import Answer, difference_text, values_text
from gridtune.report.findings import range_text
from gridtune.report.labels import row_parameters
from gridtune.report.rankings.ranking import Verdict
from gridtune.report.summarising import summarise
from gridtune.report.tables import html_document, plain_table
from gridtune.slurm.comparison import not_modelled
from gridtune.slurm.configuration import read_cluster
from gridtune.slurm.study import SETTINGS, SYSTEM, suggest_study
from gridtune.study.advice import Site, WhatIf, whatif
from gridtune.study.run import FactsWriter
from gridtune.sweep.execution.executors import Executor
from gridtune.sweep.execution.observing import Progress
from gridtune.sweep.run import run_space
from gridtune.sweep.space.plan import plan_space
from gridtune.sweep.space.starter import space_name
from gridtune.workload.files import write_workload
from gridtune.workload.workload import Workload

#: Files beside a slurm.conf, the command that writes each, and the files that do instead.
_FILES = {
    "slurm.conf": ("cat /etc/slurm/slurm.conf",),
    "scontrol_show_config.txt": ("scontrol show config",),
    "sacctmgr_qos.txt": ("sacctmgr show qos -P", "sacctmgr.script"),
    "sacctmgr_assoc.txt": ("sacctmgr show assoc tree -P", "sshare.txt", "sacctmgr.script"),
    "scontrol_show_res.txt": ("scontrol show res",),
    "sacctmgr_show_event.txt": ("sacctmgr show event -P All_Time",),
}
#: The share of the jobs that the search sees, and its replays of each configuration.
_SEARCHED, _REPLICATES = 0.6, 3
#: Changes are left out as long as the others lose at most this share of the gain.
_NEGLIGIBLE = 0.05
#: The longest wait and that of wide jobs, over those of the running configuration, are at most these.
_LONGEST, _WIDE = 1.2, 1.05
_METRIC = "wait_mean"


@dataclass(frozen=True)
class Advice:
    """Advice on the settings of a cluster.

    Attributes
    ----------
    answer
        The change to make, if any, and the trust in it.
    judged
        The effect of the change; None to keep the configuration as it is, and without trust.
    missing
        Commands that write the files that are missing, by their names.
    page
        The page.
    """

    answer: Answer
    judged: WhatIf | None
    missing: Mapping[str, str]
    page: Path

    def as_dict(self) -> dict[str, Any]:
        """Return the advice in JSON's types."""
        change = self.judged.as_dict() if self.judged else {"slurm_conf": [], "classes": {}}
        return {**change, **self.answer.as_dict(), "missing": dict(self.missing), "page": str(self.page)}

    def __repr__(self) -> str:
        return str(self.answer)

    def _repr_html_(self) -> str:
        missing = [("missing", command) for command in self.missing.values()]
        body = [self.answer.paragraphs(*self.answer.all_details, *missing)]
        if self.judged is not None:
            body += [f"<pre>{html.escape(line)}</pre>" for line in self.judged.difference]
            body.append(plain_table(*self.judged.table()))
        return "\n".join(body)

    def write(self) -> Advice:
        """Write the page."""
        title = f"{self.answer.stratum}: advice on slurm.conf"
        body = [f"<header><h1>{html.escape(title)}</h1></header><main><section>", self._repr_html_()]
        text = html_document(title, [*body, "</section></main>"], styles=("page", "reproduction"))
        self.page.write_text(text, encoding="utf-8")
        return self


def advise(
    log: Workload | str | Path,
    *,
    slurm: str | Path,
    slurm_version: str | None = None,
    fit: str | Path | None = None,
    trials: int = 40,
    draws: int = 20,
    seed: int = 0,
    workers: int | None = None,
    executor: Executor | None = None,
    out: str | Path | None = None,
    anyway: bool = False,
    console: Console | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> Advice:
    """Search the settings of a cluster for those under which a log's jobs wait less.

    An adaptive search tries settings of backfill, priorities, depths and limits on the first 60 % of the
    jobs, with bounds on the longest wait and on wide jobs. The best change, without settings that gain
    nothing, is judged as by `whatif` on the whole log, and on the jobs that the search did not see.

    Parameters
    ----------
    log
        The jobs: a log, a file or a name that `gridtune traces list` shows.
    slurm
        Folder of slurm.conf and the files beside it.
    slurm_version
        Release of Slurm, such as 24.11.5; by default that of scontrol_show_config.txt in FOLDER, else of LOG.
    fit
        File of fitted settings, as `gridtune slurm fit` writes it.
    trials
        Configurations that the search tries.
    draws
        Replays that grade the running configuration and judge the change.
    seed
        Seed of the draws and of the search.
    workers
        Cells at once; by default as many as there are processors.
    executor
        Place of the cells: "inline" for this process, "ray" for workers, "auto" for the faster one.
    out
        Folder of the search and the page; by default results/advise-NAME.
    anyway
        Search although the replay does not match the recorded waits.
    console
        Shows the progress of the search.
    say
        Called with a line on each step.

    Returns
    -------
    Advice
        The change, its effect by class of jobs, and the trust in it.

    Raises
    ------
    GridtuneError
        If a file cannot be read, or no configuration could be replayed.

    Examples
    --------
    >>> gt.advise("sacct.txt", slurm="/etc/slurm").answer.advice  # doctest: +SKIP
    """
    name = str(log.source or log.name) if isinstance(log, Workload) else str(log)
    folder = Path("results") / f"advise-{space_name(name)}" if out is None else Path(out)
    beside = Path(slurm) if Path(slurm).is_dir() else Path(slurm).parent
    there = {path.name for path in beside.glob("*")} | ({"slurm.conf"} if Path(slurm).is_file() else set())
    missing = {
        file: shlex.join(command.split()) + f" > {shlex.quote(str(beside / file))}"
        for file, (command, *others) in _FILES.items()
        if not there & {file, *others}
    }
    for command in missing.values():
        say(f"missing: `{command}` writes it")
    site = Site(log, slurm, slurm_version, fit)
    say(f"grading the running configuration: {draws} replays of {len(site.jobs.requests):,} jobs")
    began = time.monotonic()
    waits = site.running(draws, seed)
    seconds = (time.monotonic() - began) / draws
    trust = site.trust(waits)
    ignored = [*site.jobs.remarks, *not_modelled(site.log, site.cluster)]
    folder.mkdir(parents=True, exist_ok=True)
    keep = Answer(_METRIC, site.log.name, "", Verdict.NONE, "", not_modelled=ignored)
    page = folder / "advice.html"
    if trust.level == "no" and not anyway:
        reasons = [trust.reason, *site.jobs.diagnoses(site.log, site.cluster.cpus, waits)]
        command = f"gridtune slurm fit {shlex.quote(name)} --slurm {shlex.quote(str(slurm))}"
        fitting = f"`{command}` shows what differs; repeat this with its --fit FILE"
        help_ = [*(f"`{one}`" for one in missing.values()), *([] if fit else [fitting])]
        answer = keep.graded(replace(trust, reason="; ".join(reasons)))
        return Advice(replace(answer, next_steps=help_), None, missing, page).write()
    seen = int(_SEARCHED * len(site.jobs.requests))
    say(
        f"trust {trust.level}; searching: {trials} configurations, {_REPLICATES} replays each of the first "
        f"{seen:,} jobs ({_SEARCHED * seconds:.1f} s or more a replay)"
    )
    if isinstance(log, Workload):
        write_workload(log, folder / "log.parquet")
    trace = str((folder / "log.parquet") if isinstance(log, Workload) else log)
    options: dict[str, Any] = {"workers": workers, "executor": executor, "console": console}
    changes, tried = _search(site, trace, seen, folder / "search", trials, seed, **options)
    judged = None
    answer = replace(keep, advice=f"Keep the running configuration: no other of {tried} waits less.")
    answer = answer.graded(trust, anyway=anyway)
    if changes:
        say(f"judging {', '.join(changes)}: {draws} replays of all jobs under each configuration")
        judged = site.whatif(changes, draws=draws, seed=seed, anyway=anyway)
        options = {
            "slurm": slurm,
            "slurm_version": slurm_version,
            "fit": fit,
            "change": changes,
            "predict": "change.json",
        }
        command = f"gridtune slurm whatif {shlex.quote(name)}" + "".join(
            f" --{key.replace('_', '-')} {shlex.quote(str(value))}"
            for key, given in options.items()
            for value in (given if isinstance(given, list) else [given] if given else [])
        )
        answer = _judged(site, judged, seen, tried, command)
    return Advice(answer, judged if answer.best else None, missing, page).write()


def verify(prediction: str | Path, log: Workload | str | Path, *, draws: int = 20, seed: int = 0) -> Answer:
    """Check a prediction of `whatif` on a log from after the change.

    The later jobs are replayed under both configurations. If the replay of the changed one waits as
    recorded, the difference of the two is what the change made of these jobs.

    Parameters
    ----------
    prediction
        The file that `gridtune slurm whatif --predict FILE` wrote.
    log
        The jobs after the change: a log or a file.
    draws
        Replays of each configuration.
    seed
        Seed of the draws.

    Returns
    -------
    Answer
        Whether the prediction came true.

    Raises
    ------
    GridtuneError
        If the prediction was changed after it was written, or a file cannot be read.

    Examples
    --------
    >>> gt.verify("bf120.json", "sacct-after.txt").advice  # doctest: +SKIP
    """
    path = Path(prediction)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise SweepError(f"is no prediction: {fault}", path=path) from None
    if content.pop("checksum", None) != content_id(content):
        raise SweepError("was changed after it was written, or is no prediction", path=path)
    later = whatif(log, **content["asked"], draws=draws, seed=seed, anyway=True)
    whole, foreseen = later.effects["all jobs"], content["predicted"]["classes"]["all jobs"]
    trust = later.jobs.trust(later.comparison.after)
    low, high = foreseen["relative_interval"]
    inside = whole.relative is not None and low is not None and low <= whole.relative <= high
    same = (whole.relative or 0) * (foreseen["relative"] or 0) > 0
    size = difference_text(foreseen["relative"])
    predicted = f"{size} wait" if low is None else f"{size} wait ({range_text(low, high)})"
    verdict = "It came true" if inside else "Its direction came true" if same else "It did not come true"
    answer = Answer(
        _METRIC,
        later.log.name,
        "",
        Verdict.NONE,
        f"{verdict}: the prediction of {content['written']} was {predicted}.",
        gain=f"with the change, the later jobs wait {values_text(whole.mean or 0, whole.baseline or 0, 's')}",
        size=f", {difference_text(whole.relative)}",
        details=[("effect", effect.numbers) for effect in later.effects.values()],
        not_modelled=later.answer.not_modelled,
    )
    answer = answer.graded(trust)
    submitted = [later.log.instant(second) for second in later.log.submit_time.tolist()]
    early = sum(one is not None and f"{one:%Y-%m-%d}" < content["written"] for one in submitted)
    step = f"{early:,} of {len(submitted):,} jobs are from before the day of the prediction: give later ones"
    return replace(answer, next_steps=[step, *answer.next_steps] if early else answer.next_steps)


def _search(
    site: Site,
    trace: Any,
    seen: int,
    folder: Path,
    trials: int,
    seed: int,
    console: Console | None,
    **options: Any,
) -> tuple[list[str], int]:
    """Return the changes of the best configuration that a sweep finds, and how many it tried."""
    starter = suggest_study(site.folder, site.cluster, site.log, site.works, site.version, adaptive=True)
    space = {
        "name": "advise",
        "description": starter.question,
        "system": SYSTEM,
        "fixed": {**starter.fixed, "trace": trace, "first": seen},
        "dimensions": starter.dimensions,
        "replicates": {"seeds": _REPLICATES},
        "objective": _METRIC,
        "baseline": starter.baseline,
        "subject_to": starter.subject_to,
        "strategy": {"optuna": {"trials": trials, "seed": seed, "sampler": "tpe"}},
    }
    writer = FactsWriter()
    with Progress(console) as progress:
        options |= {"observers": [writer, progress], "stage": progress.stage}
        sweep = run_space(plan_space(space), directory=folder, **options)
    assert writer.facts is not None
    rankings = summarise(sweep.table, writer.facts, sweep.results).rankings
    if not rankings:
        error = next((result.error for result in sweep.results if result.error), "no result")
        raise SweepError(f"no configuration could be replayed: {error}", path=folder)
    rows = next(iter(next(iter(rankings.values())).strata.values()))
    found = row_parameters(rows[0])
    changes = [f"{SETTINGS[key]}={found[key]}" for key, now in starter.baseline.items() if found[key] != now]

    def mean(changes: Sequence[str]) -> float:
        cluster = read_cluster(site.folder, changes, site.version)
        cluster = replace(cluster, zero=site.cluster.zero, outages=site.cluster.outages)
        return float(site.waits(cluster, site.jobs.requests[:seen], _REPLICATES, seed).mean())

    best = mean(changes)
    enough = best + _NEGLIGIBLE * (mean(()) - best)
    for change in list(changes):
        others = [one for one in changes if one != change]
        changes = others if mean(others) <= enough else changes
    return changes, len(rows) - 1


def _bounds(site: Site, judged: WhatIf, seen: int) -> tuple[list[str], list[str]]:
    """Return a sentence on each bound, and the names of those that the change breaks."""
    requests = judged.jobs.requests
    after, before = judged.comparison.after, judged.comparison.before
    later = np.array([one.submit for one in requests]) >= site.jobs.requests[seen].submit
    unseen = f"the last {later.sum():,} jobs (the search did not see them)"
    parts = {
        f"longest wait (at most {_LONGEST} times)": (after.max(axis=1), before.max(axis=1), _LONGEST),
        unseen: (after[:, later], before[:, later], 1),
    }
    if wide := default_classes(site.log).get("wide", "").rpartition(" ")[2]:
        members = np.array([one.cpus for one in requests]) >= int(wide)
        text = f"jobs of {wide} processors or more (at most {_WIDE} times)"
        parts[text] = after[:, members], before[:, members], _WIDE
    means = {text: (float(one.mean()), float(two.mean()), most) for text, (one, two, most) in parts.items()}
    bounds = [f"{text}: {values_text(one, two, 's')}" for text, (one, two, _) in means.items()]
    broken = [text.partition(" (")[0] for text, (one, two, most) in means.items() if one > most * max(two, 1)]
    return bounds, broken


def _judged(site: Site, judged: WhatIf, seen: int, tried: int, command: str) -> Answer:
    """Return the answer: the change, if it keeps its gain and the bounds on the whole log."""
    answer = judged.answer
    bounds, broken = _bounds(site, judged, seen)
    change = ", ".join(judged.asked["change"])
    if answer.verdict != Verdict.BETTER or broken:
        why = f"is worse for {', '.join(broken)}" if broken else "shows no gain"
        advice = f"Keep the running configuration: the best of {tried} others {why}."
        kept = replace(answer, best="", verdict=Verdict.UNSURE, advice=advice, effects=(), bounds=bounds)
        kept = replace(kept, gain=f"the best tried ({change}): {answer.gain}")
        return kept.graded(judged.trust, anyway=judged.anyway)
    gains = sorted(
        (one for one in answer.effects if one.effect == "better"), key=lambda one: one.relative or 0
    )
    most = f"; most for jobs of {', '.join(one.jobs for one in gains[:3])}" if gains else ""
    costly = any(change.startswith(("bf_", "default_", "sched_")) for change in judged.asked["change"])
    watch = "watch `sdiag` after the change: passes of a real scheduler take time, which replays do not model"
    steps = [f"`{command}` stores the prediction; weeks later, `gridtune slurm verify change.json SACCT`"]
    tries = ("search", f"{tried} other configurations were tried")
    shown = replace(answer, best=change, size=answer.size + most, bounds=bounds)
    return replace(shown, details=[*answer.details, tries], next_steps=[*([watch] if costly else []), *steps])
