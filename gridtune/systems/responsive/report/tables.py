"""Cells as rows, one for each configuration; our results next to the papers' as Markdown and CSV."""

from __future__ import annotations

import csv
import io
import math
import re
import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gridtune.report.labels import markdown_table, value_text
from gridtune.report.rankings.cells import ConfigurationRow
from gridtune.statistics.inference import bootstrap_interval
from gridtune.systems.responsive.parameters import LEARNING, POOL_SETTINGS
from gridtune.systems.responsive.reproduction import PUBLISHED, PUBLISHED_ON, Published
from gridtune.types import FloatArray

if TYPE_CHECKING:
    from gridtune.core.system import FinishedSweep

__all__ = [
    "REWARDS",
    "SITES",
    "Row",
    "blocks_markdown",
    "comparison_csv",
    "comparison_markdown",
    "groups_alike",
    "in_words",
    "joined",
    "native_of",
    "shared_part",
    "site_of",
    "wrapped",
    "write_tables",
]

#: The kinds of sites, and the mean reward of each.
REWARDS = {
    "rigid": "rigid_reward_mean",
    "elastic": "elastic_reward_mean",
    "elastic-paper": "elastic_reward_mean",
}
#: The rules that may stand for the site's own scheduler, the first one that there is.
NATIVES = ("capped_fcfs", "fair_share")
#: Names of policies in tables and figures, where they are others.
_NAMES = {
    "fcfs": "FCFS",
    "sjf": "SJF",
    "edf": "EDF",
    "longest_ratio": "longest waiting ratio",
    "lifo": "LIFO",
    "youngest_interactive": "interactive first, youngest first",
    "capped_fcfs": "FCFS with caps (NAT)",
    "esn-sarsa": "ESN-SARSA",
    "esn-fq": "ESN-FQ",
    "ffnn-sarsa": "FFNN-SARSA",
    "ffnn-fq": "FFNN-FQ",
    "esn-counterfactual": "ESN counterfactual",
}
#: Parameters that appear in a configuration's label, where the configuration sets them.
_LABELLED = (
    *LEARNING,
    *("user_cap", "start_latency"),
    *POOL_SETTINGS,
)


class Row(ConfigurationRow):
    """One configuration on one workload."""

    @property
    def policy(self) -> str:
        """The policy."""
        return str(self.get("policy", "fcfs"))

    @property
    def site(self) -> str:
        """`rigid`, `elastic` or `elastic-paper`."""
        return str(self.get("site", "rigid"))

    @property
    def estimates(self) -> str:
        """`ORA` or `EST`."""
        return "ORA" if self.get("estimates", "estimated") == "oracle" else "EST"

    @property
    def weight(self) -> float:
        """λ."""
        return float(self.get("weight", 0.5))

    @property
    def _name(self) -> str:
        return _NAMES.get(self.policy, self.policy.replace("_", " "))

    @property
    def label(self) -> str:
        """Policy, variant and pool rule, in words."""
        name = self._name
        if self.get("variant") == "improved":
            name += ", improved"
        if self.site == "elastic":
            name += f", pool: {self.get('pool', 'demand')}"
        if self.get("headroom"):
            name += f", pool = {self.get('headroom'):g} × demand"
        elif self.site == "elastic-paper" and "-" not in self.policy:
            name += ", fixed pool"
        return name + self._settings

    @property
    def series(self) -> str:
        """Policy, variant, rule of an event-driven pool, and ORA or EST; without λ and a pool's settings."""
        improved = ", improved" if self.get("variant") == "improved" else ""
        name = f"{self._name}{improved}"
        if self.site == "elastic":
            return f"{name}, pool: {self.get('pool', 'demand')}, {self.estimates}"
        return f"{name}{self._settings}, {self.estimates}"

    @property
    def _settings(self) -> str:
        settings = {key: self.parameters.get(key) for key in _LABELLED}
        return "".join(
            f", {key.replace('_', ' ')} {value_text(value)}"
            for key, value in settings.items()
            if value is not None
        )


def site_of(rows: Sequence[Row], workload: str, site: str) -> list[Row]:
    """Return the rows of one workload on one kind of site."""
    return [row for row in rows if row.workload == workload and row.site == site]


def native_of(rows: Sequence[Row]) -> str | None:
    """Return the policy that stands for the site's own scheduler among these rows, None without any."""
    policies = {row.policy for row in rows}
    return next((policy for policy in NATIVES if policy in policies), None)


#: The width of a line, as a share of an axis's range.
TOLERANCE = 0.01
_WIDEST = 36
_ESTIMATES = (", ORA", ", EST")
#: What titles say for the kinds of site.
SITES = {"rigid": "rigid", "elastic": "elastic", "elastic-paper": "elastic as in the papers"}
#: What legends say for the short names of tables.
_WORDS = {
    "EST": "run times estimated",
    "ORA": "run times known",
    "fair share (NAT)": "fair share, as the site has it",
    "FCFS with caps (NAT)": "FCFS with caps, as the site has it",
    "ESN-SARSA": "echo state network by SARSA",
    "ESN-FQ": "echo state network by fitted Q",
    "FFNN-SARSA": "feed-forward network by SARSA",
    "FFNN-FQ": "feed-forward network by fitted Q",
    "ESN counterfactual": "echo state network by counterfactuals",
}


def groups_alike(
    shapes: Mapping[str, FloatArray], spans: FloatArray | float | None = None
) -> dict[str, list[str]]:
    """Return the names of series that coincide, by the first of each group.

    Parameters
    ----------
    shapes
        The values of each series at the same places: shape (n,) or (n, axes). Series of different shapes
        never coincide.
    spans
        The ranges of the figure's axes: one number, or shape (axes,); by default that of all series together.
    """
    if spans is None:
        spans = np.asarray(np.ptp(np.concatenate(list(shapes.values())), axis=0) if shapes else 1.0)
    widths = np.where(np.asarray(spans) > 0, spans, 1.0)
    groups: dict[str, list[str]] = {}
    for name, shape in shapes.items():
        for first, members in groups.items():
            other = shapes[first]
            if other.shape == shape.shape and np.all(np.abs(other - shape) / widths <= TOLERANCE):
                members.append(name)
                break
        else:
            groups[name] = [name]
    return groups


def joined(names: Sequence[str]) -> str:
    """Return one name for series that coincide: `SJF = interactive first, EST`.

    Names are lists of parts separated by commas. An ending that all share appears once. A policy that is
    there with and without an oracle appears once, without ORA or EST.
    """
    stems = [name.removesuffix(_ESTIMATES[0]).removesuffix(_ESTIMATES[1]) for name in names]
    both = {stem for stem in stems if all(stem + ending in names for ending in _ESTIMATES)}
    unique = dict.fromkeys(stem if stem in both else name for stem, name in zip(stems, names, strict=True))
    parts = [name.split(", ") for name in unique]
    shared = 0
    while all(len(part) > shared + 1 and part[-1 - shared] == parts[0][-1 - shared] for part in parts):
        shared += 1
    tail = parts[0][len(parts[0]) - shared :]
    heads = [", ".join(part[: len(part) - shared]) for part in parts]
    return ", ".join([" = ".join(heads), *tail])


def wrapped(names: Sequence[str]) -> str:
    """Return the joined name in words, wrapped to the width of a legend."""
    unbroken = [
        re.sub(r"(?<=pool) = | × | (?=\d)", lambda found: found[0].replace(" ", "\u00a0"), name)
        for name in names
    ]
    return textwrap.fill(in_words(joined(unbroken)), _WIDEST, break_long_words=False, break_on_hyphens=False)


def in_words(text: str) -> str:
    """Return a name with words in place of the short names of tables."""
    for short, words in _WORDS.items():
        text = re.sub(rf"(?<![\w-]){re.escape(short)}(?![\w-])", words, text)
    return text


def shared_part(names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return in words the parts that all of several names have, and what is left of each name."""
    parts = [name.split(", ") for name in names]
    common = [part for part in parts[0] if all(part in other for other in parts)] if len(names) > 1 else []
    rests = [", ".join(part for part in own if part not in common) for own in parts]
    return in_words(", ".join(common)), dict(zip(names, rests, strict=True))


_PAIRS = (
    ("W interactive", "interactive_responsiveness_mean", "interactive_responsiveness_std", 3),
    ("W batch", "batch_responsiveness_mean", "batch_responsiveness_std", 3),
    ("delay interactive, s", "interactive_wait_mean", "interactive_wait_std", 0),
    ("delay batch, s", "batch_wait_mean", "batch_wait_std", 0),
)
#: Metrics that the papers give in figures or in words, if at all.
_SINGLES = (
    ("W all", "responsiveness_mean", 3),
    ("interactive W > 0.9", "interactive_responsiveness_above_09", 3),
    ("interactive < 2 min", "interactive_wait_below_120", 3),
    ("interactive p99, s", "interactive_wait_p99", 0),
    ("interactive max, s", "interactive_wait_max", 0),
    ("batch p99, s", "batch_wait_p99", 0),
    ("batch max, s", "batch_wait_max", 0),
    ("F", "fairness_mean", 3),
    ("U", "utilisation_last", 3),
    ("core-hours", "core_hours", 0),
)


def write_tables(sweep: FinishedSweep) -> list[Path]:
    """Write `published.md` and `published.csv`, and `blocks.md` if results note blocks, into the folder."""
    rows, texts = Row.of(sweep.results), {}
    if rows:
        texts = {"published.md": comparison_markdown(rows), "published.csv": comparison_csv(rows)}
    noting = [row for row in rows if row.site == "rigid" and row.results[0].notes.get("blocks")]
    if noting:
        texts["blocks.md"] = blocks_markdown(noting)
    for name, text in texts.items():
        (sweep.directory / name).write_text(text, encoding="utf-8")
    return [sweep.directory / name for name in texts]


def comparison_markdown(rows: Sequence[Row]) -> str:
    """Return a table for each workload and kind of site, our rows above the papers'."""
    parts = ["# Our results next to the published ones\n\n" + _LEGEND + "\n"]
    for workload in dict.fromkeys(row.workload for row in rows):
        for site in REWARDS:
            mine = sorted(site_of(rows, workload, site), key=lambda row: -row.mean(REWARDS[row.site]))
            if mine:
                parts.append(_table(workload, site, mine))
    return "\n".join(parts)


#: The papers' kinds of sites, by their names in `PUBLISHED`.
_OF_PAPERS = {"rigid": "rigid", "elastic": "elastic-paper"}
_LEGEND = (
    "Mean ± standard deviation over jobs, averaged over replicates; the best reward first. "
    "W = run/(run + wait); ORA knows run times, EST takes the median of the class; λ weighs W in the reward. "
    "U is that of the last decision. The published rows are of another log (" + PUBLISHED_ON + ", not "
    "public): compare the distances between policies, not the rows."
)


def _table(workload: str, site: str, rows: Sequence[Row]) -> str:
    reward, metric = "R_s" if site == "rigid" else "R_e", REWARDS[site]
    heads = ["policy", "trace", "run times", "λ", *(head for head, *_ in _PAIRS)]
    heads += [head for head, *_ in _SINGLES] + [reward]
    lines = []
    for row in rows:
        cells = [row.label, workload, row.estimates, f"{row.weight:g}"]
        cells += [_pair(row.mean(mean), row.mean(std), digits) for _, mean, std, digits in _PAIRS]
        cells += [_number(row.mean(name), digits) for _, name, digits in _SINGLES]
        lines.append([*cells, _with_spread(row, metric)])
    lines += [_published_cells(row, len(heads)) for row in PUBLISHED if _OF_PAPERS[row.site] == site]
    return f"## {workload}, {site}\n\n{markdown_table(heads, lines, left=4)}"


def _published_cells(row: Published, length: int) -> list[str]:
    cells = [f"*{row.label}* ({row.source})", PUBLISHED_ON, "", ""]
    figures = defaultdict(lambda: math.nan, row.figures)
    cells += [_pair(figures[mean], figures[std], digits) for _, mean, std, digits in _PAIRS]
    cells.append(_number(figures["responsiveness_mean"], 2))
    return cells + [""] * (length - len(cells))


def _number(value: float, digits: int) -> str:
    return "" if math.isnan(value) else f"{value:,.{digits}f}"


def _pair(mean: float, deviation: float, digits: int) -> str:
    return "" if math.isnan(mean) else f"{mean:,.{digits}f} ± {deviation:,.{digits}f}"


def _with_spread(row: Row, metric: str) -> str:
    spread = row.spread(metric)
    of = "" if math.isnan(spread) else f" (sd {spread:.4f}, n = {len(row.results)})"
    return f"{row.mean(metric):.4f}{of}"


def comparison_csv(rows: Sequence[Row]) -> str:
    """Return every row with its metrics' means, and the published ones, as one table."""
    names = [name for _, mean, std, _ in _PAIRS for name in (mean, std)]
    names += [name for _, name, _ in _SINGLES] + ["rigid_reward_mean", "elastic_reward_mean"]
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(["trace", "site", "policy", "run_times", "lambda", "replicates", "source", *names])
    for row in rows:
        head = [row.workload, row.site, row.label, row.estimates, row.weight, len(row.results), "ours"]
        writer.writerow([*head, *(row.mean(name) for name in names)])
    for published in PUBLISHED:
        head = [PUBLISHED_ON, published.site, published.label, "", "", "", published.source]
        writer.writerow([*head, *(published.figures.get(name, "") for name in names)])
    return target.getvalue()


#: The rule that all are compared with; without it, the site's own scheduler.
_REFERENCE = "fair_index"


def blocks_markdown(rows: Sequence[Row]) -> str:
    """Return a table for each workload, and one over all of them where there are several."""
    parts = [
        "# Intervals over blocks of time\n\nMean R_s, and the difference to a rule, with 95 % bootstrap "
        "intervals over blocks of equal time; over all sites, over sites, each with the same weight.\n"
    ]
    workloads = list(dict.fromkeys(row.workload for row in rows))
    for workload in workloads:
        mine = [row for row in rows if row.workload == workload]
        parts.append(_block_table(workload, {_name(row): _sums(row) for row in mine}, _reference(mine)))
    if len(workloads) > 1:
        means: dict[str, list[float]] = {}
        for row in rows:
            reward, jobs = _sums(row)
            means.setdefault(_name(row), []).append(float(reward.sum() / jobs.sum()))
        everywhere = {
            name: (np.array(values), np.ones(len(values)))
            for name, values in means.items()
            if len(values) == len(workloads)
        }
        parts.append(_block_table(f"All {len(workloads)} sites", everywhere, _reference(rows)))
    return "\n".join(parts)


def _name(row: Row) -> str:
    return f"{row.label}, {row.estimates}"


def _reference(rows: Sequence[Row]) -> str | None:
    policy = _REFERENCE if any(row.policy == _REFERENCE for row in rows) else native_of(rows)
    return next((_name(row) for row in rows if row.policy == policy), None)


def _sums(row: Row) -> tuple[FloatArray, FloatArray]:
    """Return Σ R_s and the number of jobs of each block, over the replicates: shapes (blocks,)."""
    noted = [result.notes["blocks"] for result in row.results]
    reward = np.sum([blocks["reward"] for blocks in noted], axis=0)
    return np.asarray(reward), np.asarray(np.sum([blocks["jobs"] for blocks in noted], axis=0))


def _block_table(title: str, sums: dict[str, tuple[FloatArray, FloatArray]], reference: str | None) -> str:
    lines = []
    for name, (reward, jobs) in sorted(sums.items(), key=lambda item: -item[1][0].sum() / item[1][1].sum()):
        cells = [name, *_mean_and_interval(reward, jobs, ".4f")]
        if reference is not None and name != reference:
            cells += _mean_and_interval(reward - sums[reference][0], jobs, "+.4f")
        else:
            cells += ["", ""]
        lines.append(cells)
    heads = ["", "R_s", "95 %", f"less {reference}", "95 %"]
    return f"## {title}\n\n{markdown_table(heads, lines)}"


def _mean_and_interval(total: FloatArray, jobs: FloatArray, form: str) -> tuple[str, str]:
    """Return Σ total / Σ jobs and its interval over blocks, that of the ratio's linear approximation."""
    mean = total.sum() / jobs.sum()
    ends = bootstrap_interval(
        mean + len(jobs) * (total - mean * jobs) / jobs.sum(), rng=np.random.default_rng(0)
    )
    return f"{mean:{form}}", f"[{ends.low:{form}}, {ends.high:{form}}]"
