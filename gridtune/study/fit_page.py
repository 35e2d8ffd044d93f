"""The page of a fit: recorded against simulated waits, in a picture and in tables."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gridtune.core.style import BASELINE, BETTER, WORSE, figure, save
from gridtune.report.labels import percent_text
from gridtune.report.tables import html_document, plain_table
from gridtune.slurm.comparison import Agreement, Trust
from gridtune.study.fitting import Fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["HEADS", "TRUST", "agreement_cells", "write_fit_page"]

#: The page and its picture, in the folder of a fit.
_PAGE, PICTURE = "fit.html", "fit.png"
HEADS = (
    "jobs",
    "recorded mean",
    "simulated",
    "error",
    "recorded median",
    "simulated",
    "median error",
    "rank",
)
TRUST: dict[Trust, str] = {
    "yes": "Advice on this log can be trusted: jobs that were not used to calibrate wait as recorded.",
    "signs only": "Trust the signs of advice on this log, not its size: waits are near, but not as recorded.",
    "no": "Do not trust advice on this log: the simulated cluster does not wait as the recorded one did.",
}
_SHOWN_TICKS = {
    0: "0",
    60: "1 min",
    600: "10 min",
    3600: "1 h",
    36_000: "10 h",
    259_200: "3 d",
    2_592_000: "30 d",
}
_MOST_POINTS = 5000
_BINS = 40


def write_fit_page(fit: Fit, folder: Path) -> Path:
    """Write the page and its picture, and return the page."""
    picture = draw_fit(fit, folder / PICTURE)
    path = folder / _PAGE
    title = f"{fit.name}: recorded and simulated waits"
    path.write_text(
        html_document(title, _body(fit, picture), styles=("page", "reproduction")), encoding="utf-8"
    )
    return path


def agreement_cells(agreement: Agreement) -> list[str]:
    """Return a row's cells below `HEADS`; seconds."""
    return [
        f"{agreement.jobs:,}",
        f"{agreement.recorded_mean:,.0f}",
        f"{agreement.simulated_mean:,.0f}",
        percent_text(None if np.isnan(agreement.mean_error) else agreement.mean_error),
        f"{agreement.recorded_median:,.0f}",
        f"{agreement.simulated_median:,.0f}",
        f"{agreement.median_error:,.0f}",
        f"{agreement.rank:.2f}",
    ]


def draw_fit(fit: Fit, path: Path) -> Path:
    """Draw the judged jobs' waits against the recorded ones, and mean waits over time."""
    with figure(11, 4.4, 1, ncols=2, width_ratios=(1, 1.35)) as (drawing, (left, right)):
        _scatter(left, fit)
        _over_time(right, fit)
        return save(drawing, path)


def _scatter(axes: Axes, fit: Fit) -> None:
    rows = fit.judged[fit.jobs.recorded[fit.judged] >= 0]
    rows = rows[:: max(1, len(rows) // _MOST_POINTS)]
    recorded, simulated = fit.jobs.recorded[rows], np.median(fit.fitted[:, rows], axis=0)
    top = max(float(recorded.max(initial=60)), float(simulated.max(initial=60))) * 1.3
    axes.plot([0, top], [0, top], color=BASELINE, linewidth=1)
    axes.scatter(recorded, simulated, s=9, alpha=0.45, linewidths=0, color=BETTER)
    for name in ("x", "y"):
        getattr(axes, f"set_{name}scale")("symlog", linthresh=60)
        ticks = [tick for tick in _SHOWN_TICKS if tick <= top]
        getattr(axes, f"set_{name}ticks")(ticks, [_SHOWN_TICKS[tick] for tick in ticks])
        getattr(axes, f"set_{name}lim")(-6, top)
    axes.minorticks_off()
    axes.set(xlabel="recorded wait", ylabel="simulated wait", title="Jobs that were judged")


def _over_time(axes: Axes, fit: Fit) -> None:
    submit = np.array([request.submit for request in fit.jobs.requests])
    stated = fit.jobs.recorded >= 0
    span = float(np.ptp(submit)) + 1
    unit, name = (86_400, "day") if span > 3 * 86_400 else (3600, "hour")
    since = (submit - submit.min()) / unit
    bins = np.minimum((since / (span / unit) * _BINS).astype(int), _BINS - 1)
    count = np.bincount(bins[stated], minlength=_BINS)
    middle = (np.arange(_BINS) + 0.5) * span / unit / _BINS
    rows: list[tuple[str, np.ndarray, str]] = [
        ("recorded", fit.jobs.recorded.astype(float), BASELINE),
        ("simulated, fitted", fit.fitted.mean(axis=0), BETTER),
    ]
    if fit.fitted is not fit.described:
        rows.insert(1, ("simulated, as described", fit.described.mean(axis=0), WORSE))
    for label, waits, colour in rows:
        sums = np.bincount(bins[stated], weights=waits[stated], minlength=_BINS)
        mean = np.divide(sums, count, out=np.full(_BINS, np.nan), where=count > 0)
        axes.plot(
            middle[count > 0], mean[count > 0] / 3600, color=colour, label=label, marker="o", markersize=3
        )
    cut = (fit.cut - submit.min()) / unit
    axes.axvline(cut, color="#999999", linestyle="--", linewidth=1)
    axes.annotate(" judged →", (cut, 0.97), xycoords=("data", "axes fraction"), va="top", color="#666666")
    axes.set(xlabel=f"{name} of submission", ylabel="mean wait, h", title="Over time")
    axes.set_ylim(bottom=0)
    axes.legend(loc="best")


def _body(fit: Fit, picture: Path) -> Iterator[str]:
    yield f"<header><h1>{html.escape(fit.name)}: recorded and simulated waits</h1></header><main>"
    kind = {"yes": "better", "signs only": "not-sure", "no": "worse"}[fit.trust]
    yield f'<section><h2>Verdict</h2><p class="answer {kind}">{html.escape(TRUST[fit.trust])}</p>'
    yield from (f'<p class="note">{html.escape(reason)}</p>' for reason in fit.reasons)
    content = base64.b64encode(picture.read_bytes()).decode()
    alt = "Simulated waits against recorded ones, and both over time"
    image = f'<img alt="{alt}" src="data:image/png;base64,{content}">'
    yield f'<figure class="picture">{image}</figure></section>'
    yield "<section><h2>The jobs that were judged</h2>"
    calibrated = len(fit.jobs.requests) - len(fit.judged)
    yield (
        f"<p>The {calibrated:,} jobs before them were used to calibrate, and nothing after. Seconds. "
        "The median error is the median distance of a job's wait from its recorded one; rank is "
        "Spearman's correlation.</p>"
    )
    rows = [("as described", fit.agreement(fit.described)), ("as fitted", fit.agreement(fit.fitted))]
    yield plain_table(("cluster", *HEADS), [(name, *agreement_cells(one)) for name, one in rows])
    yield "<h3>As fitted, by class</h3>"
    classes = [(one.name, *agreement_cells(agreement)) for one, agreement in fit.classes()]
    yield plain_table(("class", *HEADS), classes)
    yield "</section><section><h2>What was fitted</h2>"
    yield (
        f"<p>{fit.tried} configurations were tried. Misfit on the first part: {fit.misfit[0]:.3f} as "
        f"described, {fit.misfit[1]:.3f} as fitted. The jobs used {fit.used:.0%} of the processors.</p>"
    )
    yield plain_table(("setting", "value"), _settings(fit))
    others = [f"{count:,} jobs {reason}" for reason, count in fit.jobs.left_out.items()]
    if others:
        yield f"<h3>Left out</h3><p>{html.escape('; '.join(others))}</p>"
    if fit.not_modelled:
        yield f"<h3>Not modelled</h3><p>{html.escape('; '.join(fit.not_modelled))}</p>"
    yield "</section></main>"


def _settings(fit: Fit) -> Sequence[tuple[str, str]]:
    return [
        (name, f"{value:.3g}" if isinstance(value, float) else str(value))
        for name, value in fit.settings.items()
    ]
