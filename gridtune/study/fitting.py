"""Fitting a simulated cluster to a log: calibrated on its first part, judged on the rest."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from gridtune.core.remarks import TrustLevel
from gridtune.core.style import BASELINE, BETTER, WORSE, figure, save
from gridtune.errors import SweepError
from gridtune.report.answer import Answer
from gridtune.report.labels import percent_text
from gridtune.report.rankings.ranking import Verdict
from gridtune.report.tables import html_document, plain_table
from gridtune.slurm.comparison import Agreement, JobClass, LoggedJobs, not_modelled, replayed_waits
from gridtune.slurm.forecast import known_at
from gridtune.slurm.study import FOLDER, SYSTEM, Effective
from gridtune.study.advice import Site
from gridtune.sweep.execution.executors import Executor
from gridtune.sweep.run import run_space
from gridtune.sweep.space.plan import plan_space
from gridtune.sweep.space.starter import space_name
from gridtune.types import FloatArray, IntArray
from gridtune.workload.files import write_workload
from gridtune.workload.workload import Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OBJECTIVE = "recorded_misfit"
#: The settings that are searched, and those of a cluster that works as it is described.
_DIMENSIONS = {"nodes_in_service": {"uniform": [0.5, 1.0]}, "release_delay": {"integer": [0, 120]}}
_DESCRIBED = Effective().settings
#: Replays of each configuration tried: draws of the clocks' phases.
_REPLICATES = 3
#: A setting is kept if it lowers the misfit by so much at least, and by twice the standard error.
_LEAST_GAIN = 0.02
_FEWEST = 50
#: The share of the calibrated jobs that the search sees; the others check what it found.
_SEARCHED = 0.7
_HEADS = (
    *("class", "jobs", "recorded mean", "simulated", "error"),
    *("recorded median", "simulated", "median error", "rank"),
)
_TRUST: dict[TrustLevel, str] = {
    "yes": "Advice on this log is trusted: jobs that were not used for calibration wait as recorded.",
    "signs only": "Signs only: simulated waits are near the recorded ones, but not equal to them.",
    "no": "No trust: the simulated waits differ from the recorded ones.",
}
_TICKS = {0: "0", 60: "1 min", 600: "10 min", 3600: "1 h", 36_000: "10 h", 259_200: "3 d", 2_592_000: "30 d"}
_MOST_POINTS = 5000
_BINS = 40
_WEEK = 7 * 86_400


@dataclass(frozen=True)
class Fit:
    """A fit.

    Attributes
    ----------
    name
        The log's.
    settings
        What was fitted; as the machine is described where nothing else fits better.
    tried
        Configurations tried, and the misfit of the description and of the settings on the first part.
    misfit
        On the first part, of the machine as described and as fitted.
    jobs
        The jobs that were replayed.
    cut
        Seconds of the log's clock at which the first part ends.
    described, fitted
        Replayed waits of all jobs, shape (draws, jobs).
    judged
        Which jobs were judged: submitted from the cut on, shape (judged,).
    used
        The share of the processors that the log's jobs had.
    reasons
        Why the log and the machine may not belong together.
    not_modelled
        Settings of the slurm.conf, and facts of the log, that are not modelled.
    folder
        The folder of the search, the settings and the page.
    """

    name: str
    settings: Mapping[str, Any]
    tried: int
    misfit: tuple[float, float]
    jobs: LoggedJobs
    cut: int
    described: FloatArray
    fitted: FloatArray
    judged: IntArray
    used: float
    reasons: Sequence[str]
    not_modelled: Sequence[str]
    folder: Path

    @property
    def page(self) -> Path:
        """The page with tables and a picture."""
        return self.folder / "fit.html"

    @property
    def file(self) -> Path:
        """The file of fitted settings, which `whatif` and `waits` read."""
        return self.folder / "fit.yaml"

    def agreement(self, waits: FloatArray, members: IntArray | None = None) -> Agreement:
        """Compare waits of the judged jobs, or of some of them, with the recorded ones."""
        rows = self.judged if members is None else np.intersect1d(self.judged, members)
        return Agreement.of(self.jobs.recorded[rows], waits[:, rows])

    def classes(self) -> list[tuple[JobClass, Agreement]]:
        """Return each class of jobs with ten or more that are judged."""
        rows = [(one, self.agreement(self.fitted, one.members)) for one in self.jobs.classes()]
        return [(one, agreement) for one, agreement in rows if agreement.jobs >= min(10, len(self.judged))]

    @property
    def trust(self) -> TrustLevel:
        """The trust in advice on this log."""
        return self.agreement(self.fitted).level

    def as_dict(self) -> dict[str, Any]:
        """Return it in JSON's types."""
        return {
            "log": self.name,
            "settings": dict(self.settings),
            "trust": self.trust,
            "tried": self.tried,
            "misfit": {"described": self.misfit[0], "fitted": self.misfit[1]},
            "jobs": {"calibrated": len(self.jobs.requests) - len(self.judged), "judged": len(self.judged)},
            "left_out": self.jobs.left_out,
            "taken_otherwise": self.jobs.changed,
            "utilisation": None if math.isnan(self.used) else self.used,
            "reasons": list(self.reasons),
            "answer": self.answer.as_dict(),
            "described": self.agreement(self.described).as_dict(),
            "fitted": self.agreement(self.fitted).as_dict(),
            "classes": {one.name: agreement.as_dict() for one, agreement in self.classes()},
            "not_modelled": list(self.not_modelled),
            "page": str(self.page),
            "file": str(self.file),
        }

    def write(self) -> None:
        """Write the settings, to be used by other commands."""
        text = yaml.safe_dump({"settings": dict(self.settings), "trust": self.trust}, sort_keys=False)
        head = f"# What `gridtune slurm fit` found for {self.name}\n"
        self.file.write_text(head + text, encoding="utf-8")

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return heads and cells of the table of judged jobs: as described, as fitted, and by class."""
        rows = [("as described", self.agreement(self.described))]
        rows += [(one.name, agreement) for one, agreement in self.classes()]
        cells = []
        for name, one in rows:
            error = percent_text(None if np.isnan(one.mean_error) else one.mean_error)
            means = one.recorded_mean, one.simulated_mean
            medians = one.recorded_median, one.simulated_median, one.median_error
            texts = [[f"{seconds:,.0f}" for seconds in some] for some in (means, medians)]
            cells.append([name, f"{one.jobs:,}", *texts[0], error, *texts[1], f"{one.rank:.2f}"])
        return list(_HEADS), cells

    @property
    def answer(self) -> Answer:
        """The trust in advice on this log with its reasons, and what to do next."""
        trust = self.jobs.trust(self.fitted, self.judged)
        remedies = [reason for reason in self.reasons if "`" in reason]
        doubts = [reason for reason in self.reasons if reason not in remedies]
        trusted = f"is trusted{', but not for all jobs' if '; farthest off: ' in trust.reason else ''}:"
        use = f"`gridtune slurm whatif LOG --slurm FOLDER --fit {self.file} --change SETTING`"
        return Answer(
            _OBJECTIVE,
            self.name,
            "",
            Verdict.NONE,
            _TRUST[self.trust].replace("is trusted:", trusted),
            trust=replace(trust, reason="; ".join([trust.reason, *doubts])),
            not_modelled=self.not_modelled,
            next_steps=[*remedies, *([] if self.trust == "no" else [use])],
        )

    def __repr__(self) -> str:
        return f"{self.answer}\n  {self.found}"

    @property
    def found(self) -> str:
        """The fitted settings and the use of the machine in a line."""
        values = (
            f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in self.settings.items()
        )
        return f"fitted: {', '.join(values)}; the jobs used {self.used:.0%} of the processors"

    def _repr_html_(self) -> str:
        text = self.answer.paragraphs() + f'<p class="note">{html.escape(self.found)}</p>'
        return text + plain_table(*self.table())

    def write_page(self) -> None:
        """Write the page, and draw its picture."""
        with figure(11, 4.4, 1, ncols=2, width_ratios=(1, 1.35)) as (drawing, (left, right)):
            self._scatter(left)
            self._over_time(right)
            picture = base64.b64encode(save(drawing, self.folder / "self.png").read_bytes()).decode()
        kind = {"yes": "better", "signs only": "not-sure", "no": "worse"}[self.trust]
        calibrated = len(self.jobs.requests) - len(self.judged)
        note = (
            f"The {calibrated:,} jobs before them were used for calibration: {self.tried} configurations "
            f"were tried, misfit {self.misfit[0]:.3f} as described, {self.misfit[1]:.3f} as fitted. The "
            "median error is "
            "the median distance of a job's wait from its recorded one; rank is Spearman's correlation."
        )
        title = f"{self.name}: recorded and simulated waits"
        body = [
            f"<header><h1>{html.escape(title)}</h1></header><main>",
            f'<section><h2>Verdict</h2><p class="answer {kind}">{html.escape(self.answer.advice)}</p>',
            *(f'<p class="note">{name}: {html.escape(text)}</p>' for name, text in self.answer.lines),
            f'<p class="note">{html.escape(self.found)}</p>',
            '<figure class="picture"><img alt="Simulated against recorded waits, and both over time" '
            f'src="data:image/png;base64,{picture}"></figure></section>',
            "<section><h2>The jobs that were judged, seconds</h2>",
            plain_table(*self.table()),
            f"<p>{html.escape(note)}</p>",
        ]
        text = html_document(title, [*body, "</section></main>"], styles=("page", "reproduction"))
        self.page.write_text(text, encoding="utf-8")

    def _scatter(self, axes: Axes) -> None:
        """Draw the judged jobs' waits against the recorded ones."""
        rows = self.judged[self.jobs.recorded[self.judged] >= 0]
        rows = rows[:: max(1, len(rows) // _MOST_POINTS)]
        recorded, simulated = self.jobs.recorded[rows], np.median(self.fitted[:, rows], axis=0)
        top = max(float(recorded.max(initial=60)), float(simulated.max(initial=60))) * 1.3
        axes.plot([0, top], [0, top], color=BASELINE, linewidth=1)
        axes.scatter(recorded, simulated, s=9, alpha=0.45, linewidths=0, color=BETTER)
        for name in ("x", "y"):
            getattr(axes, f"set_{name}scale")("symlog", linthresh=60)
            ticks = [tick for tick in _TICKS if tick <= top]
            getattr(axes, f"set_{name}ticks")(ticks, [_TICKS[tick] for tick in ticks])
            getattr(axes, f"set_{name}lim")(-6, top)
        axes.minorticks_off()
        axes.set(xlabel="recorded wait", ylabel="simulated wait", title="Jobs that were judged")

    def _over_time(self, axes: Axes) -> None:
        """Draw mean waits over time."""
        submit = np.array([request.submit for request in self.jobs.requests])
        stated = self.jobs.recorded >= 0
        span = float(np.ptp(submit)) + 1
        unit, name = (86_400, "day") if span > 3 * 86_400 else (3600, "hour")
        since = (submit - submit.min()) / unit
        bins = np.minimum((since / (span / unit) * _BINS).astype(int), _BINS - 1)
        count = np.bincount(bins[stated], minlength=_BINS)
        middle = (np.arange(_BINS) + 0.5) * span / unit / _BINS
        rows: list[tuple[str, np.ndarray, str]] = [
            ("recorded", self.jobs.recorded.astype(float), BASELINE),
            ("simulated, fitted", self.fitted.mean(axis=0), BETTER),
        ]
        if self.fitted is not self.described:
            rows.insert(1, ("simulated, as described", self.described.mean(axis=0), WORSE))
        for label, waits, colour in rows:
            sums = np.bincount(bins[stated], weights=waits[stated], minlength=_BINS)
            mean = np.divide(sums, count, out=np.full(_BINS, np.nan), where=count > 0)
            axes.plot(
                middle[count > 0], mean[count > 0] / 3600, color=colour, label=label, marker="o", markersize=3
            )
        cut = (self.cut - submit.min()) / unit
        axes.axvline(cut, color="#999999", linestyle="--", linewidth=1)
        axes.annotate(" judged →", (cut, 0.97), xycoords=("data", "axes fraction"), va="top", color="#666666")
        axes.set(xlabel=f"{name} of submission", ylabel="mean wait, h", title="Over time")
        axes.set_ylim(bottom=0)
        axes.legend(loc="best")


def fit(
    log: Workload | str | Path,
    *,
    slurm: str | Path,
    slurm_version: str | None = None,
    share: float = 0.6,
    trials: int = 40,
    draws: int = 20,
    seed: int = 0,
    workers: int | None = None,
    executor: Executor | None = None,
    out: str | Path | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> Fit:
    """Calibrate a simulated cluster on the first part of a log, and compare waits on the rest.

    A log does not contain the share of nodes in service and the seconds until nodes are free. They are
    searched on the first part, and kept if they also fit the next part, which the search does not see.

    Parameters
    ----------
    log
        The jobs, with recorded waits: a log, a file or a name that `gridtune traces list` shows.
    slurm
        Folder of slurm.conf and the files beside it.
    slurm_version
        Release of Slurm, such as 24.11.5; by default that of scontrol_show_config.txt in FOLDER, else of LOG.
    share
        Share of the jobs, the first ones, to calibrate on; the others are not used before the comparison.
    trials
        Configurations that the search tries.
    draws
        Replays with random phases of the scheduler.
    seed
        Seed of the draws and of the search.
    workers
        Cells at once; by default as many as there are processors.
    executor
        Place of the cells: "inline" for this process, "ray" for workers, "auto" for the faster one.
    out
        Folder of the search, the settings and the page; by default results/fit-NAME.
    say
        Called with a line on each step.

    Returns
    -------
    Fit
        The settings, and the agreement of simulated and recorded waits.

    Raises
    ------
    GridtuneError
        If the log cannot be read or has too few jobs with recorded waits.

    Examples
    --------
    >>> gt.fit("sacct.txt", slurm="/etc/slurm").trust  # doctest: +SKIP
    'yes'
    """
    name = str(log.source or log.name) if isinstance(log, Workload) else str(log)
    folder = Path("results") / f"fit-{space_name(name)}" if out is None else Path(out)
    options = {"workers": workers, "executor": executor}
    site = Site(log, slurm, slurm_version, None)
    log, jobs = site.log, site.jobs
    submit = np.array([request.submit for request in jobs.requests])
    if np.count_nonzero(jobs.recorded >= 0) < _FEWEST:
        raise SweepError(
            f"{np.count_nonzero(jobs.recorded >= 0)} jobs with a recorded wait are too few to fit",
            path=log.source,
            hint=f"it takes {_FEWEST}; `sacct -a -P -o ALL` gives submissions and starts",
        )
    cut = _cut(submit, share)
    judged = np.flatnonzero(submit >= cut)
    if not 0 < len(judged) < len(submit):
        raise SweepError("no jobs are left to be judged", path=log.source, hint="give another --share")
    folder.mkdir(parents=True, exist_ok=True)
    first, searched = (folder / "first_part.parquet").resolve(), _cut(submit[submit < cut], _SEARCHED)
    write_workload(known_at(log, searched), first)
    say(f"calibrating on the first {len(submit) - len(judged):,} jobs, judging on the other {len(judged):,}")
    settings, tried, misfit = _search(site, first, folder, trials, seed, options)
    say("replaying the whole log as described and as fitted")
    described = fitted = site.waits(site.cluster, jobs.requests, draws, seed)
    if settings != _DESCRIBED:
        works = Effective.of(settings).applied(site.cluster, jobs.requests)
        fitted = replayed_waits(*works, draws, seed)
    checked = np.flatnonzero((submit >= searched) & (submit < cut))
    before, after = (_misfit(jobs.recorded[checked], waits[:, checked]) for waits in (described, fitted))
    reasons = jobs.remarks
    if not after < before and settings != _DESCRIBED:
        reasons.append(
            f"fitted settings were dropped: on {len(checked):,} jobs that the search did not see, their "
            f"misfit is {after:.2f} and that of the description {before:.2f}"
        )
        settings, fitted = _DESCRIBED, described
    result = Fit(
        log.name,
        settings,
        tried,
        misfit,
        jobs,
        cut,
        described,
        fitted,
        judged,
        jobs.utilisation(site.cluster.cpus),
        [*reasons, *jobs.diagnoses(log, site.cluster.cpus, described)],
        not_modelled(log, site.cluster),
        folder,
    )
    result.write()
    result.write_page()
    return result


def _cut(submit: IntArray, share: float) -> int:
    """Return the instant that ends the first part: at a week's end in a log of six weeks and more."""
    cut = int(np.quantile(submit, share))
    begin, weeks = int(submit.min()), (int(submit.max()) - int(submit.min())) // _WEEK
    if weeks >= 6:
        cut = begin + _WEEK * max(1, round((cut - begin) / _WEEK))
    return cut


def _misfit(recorded: IntArray, waits: FloatArray) -> float:
    """Return the metric `recorded_misfit` of some jobs, waits of shape (draws, jobs); NaN without a wait."""
    errors = (waits - recorded)[:, recorded >= 0]
    total = recorded[recorded >= 0].sum()
    return float(np.mean(abs(errors.sum(axis=1)) + abs(errors).sum(axis=1)) / total) if total else math.nan


def _search(
    site: Site, first: Path, folder: Path, trials: int, seed: int, options: Mapping[str, Any]
) -> tuple[Mapping[str, Any], int, tuple[float, float]]:
    """Search the settings on the first part; return the best, the number tried, and both misfits."""
    space = {
        "name": "fit",
        "description": "What the log does not say of its cluster",
        "system": SYSTEM,
        "fixed": {FOLDER: str(site.folder.resolve()), "slurm_version": site.version, "trace": str(first)},
        "dimensions": _DIMENSIONS,
        "replicates": {"seeds": _REPLICATES},
        "objective": {"metric": _OBJECTIVE, "direction": "min"},
        "baseline": {name: _DESCRIBED[name] for name in _DIMENSIONS},
        "strategy": {"optuna": {"trials": trials, "seed": seed, "sampler": "tpe"}},
    }

    results = run_space(plan_space(space), directory=folder / "sweep", **options).results
    by_configuration: dict[str, list[float]] = {}
    values: dict[str, Mapping[str, Any]] = {}
    for result in results:
        if result.state == "done":
            key, tried = result.configuration_id, result.configuration
            by_configuration.setdefault(key, []).append(result.metrics[_OBJECTIVE])
            values[key] = {name: tried.get(name, value) for name, value in _DESCRIBED.items()}
    full = {key: np.array(errors) for key, errors in by_configuration.items() if len(errors) == _REPLICATES}
    described = [key for key in full if values[key] == _DESCRIBED]
    if not described:
        error = next((result.error for result in results if result.error), "no result")
        raise SweepError(f"the log could not be replayed: {error}", path=folder)
    base = full[described[0]]
    best = min(full, key=lambda key: float(full[key].mean()))
    gain = base - full[best]
    spread = float(gain.std(ddof=1) / math.sqrt(len(gain)))
    chosen = best if gain.mean() > max(_LEAST_GAIN * base.mean(), 2 * spread) else described[0]
    return values[chosen], len(full), (float(base.mean()), float(full[chosen].mean()))
