"""Figures and claims of the papers on a grid site that learns, and the experiments that test them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from gridtune.core.reproduction import (
    Claim,
    Criterion,
    Experiment,
    PaperFigure,
    PaperTable,
    PublishedFigure,
    Reading,
    Recorded,
    Reproduction,
    TableRow,
)
from gridtune.systems.responsive.metrics import PEREZ_2009, PEREZ_2010, PROMPT, RESPONSIVE_METRICS

__all__ = ["PUBLISHED", "PUBLISHED_FIGURES", "PUBLISHED_ON", "REPRODUCTIONS", "Published"]


#: The log behind all of them; it is not public.
PUBLISHED_ON = "EGEE, site LAL, 2006"


class Published(NamedTuple):
    """One row of the published tables.

    Attributes
    ----------
    site
        `rigid` or `elastic`.
    label
        The row's name in the paper.
    paper, tables
        The publication, and its tables of W and of waits.
    figures
        Metric name to value.
    """

    site: str
    label: str
    paper: str
    tables: tuple[int, int]
    figures: Mapping[str, float]

    @property
    def source(self) -> str:
        """The publication and both tables."""
        return f"{self.paper}, tables {self.tables[0]}, {self.tables[1]}"


def _columns(*quantities: str) -> list[str]:
    return [f"{quantity}_{statistic}" for quantity in quantities for statistic in ("mean", "std")]


#: The columns of both tables of the paper of 2009, and of the one of 2010.
_NAMES_2009 = _columns("interactive_responsiveness", "batch_responsiveness", "interactive_wait")
_NAMES_2010 = _columns(
    "batch_responsiveness", "interactive_responsiveness", "responsiveness", "batch_wait", "interactive_wait"
)


def _of_2009(site: str, label: str, *values: float) -> Published:
    tables = (2, 3) if site == "rigid" else (4, 5)
    figures = dict(zip(_NAMES_2009, values, strict=True))
    return Published(site, label, PEREZ_2009, tables, figures)


def _of_2010(label: str, *values: float) -> Published:
    figures = dict(zip(_NAMES_2010, values, strict=True))
    # No metric of ours is the deviation of W over all jobs.
    del figures["responsiveness_std"]
    return Published("rigid", label, PEREZ_2010, (2, 3), figures)


#: Every row of tables 2–5 of the first paper and 2–3 of the second.
PUBLISHED: tuple[Published, ...] = (
    _of_2009("rigid", "NAT", 0.628, 0.418, 0.830, 0.265, 2756, 8844),
    _of_2009("rigid", "RIG-ORA-0.5", 0.866, 0.314, 0.892, 0.228, 1096, 5137),
    _of_2009("rigid", "RIG-ORA-1", 0.869, 0.308, 0.893, 0.226, 862, 3505),
    _of_2009("rigid", "RIG-EST-0.5", 0.864, 0.319, 0.894, 0.223, 1087, 4838),
    _of_2009("rigid", "RIG-EST-1", 0.867, 0.311, 0.899, 0.216, 1152, 5417),
    _of_2010("EGEE", 0.82, 0.26, 0.62, 0.41, 0.73, 0.36, 13041, 26726, 2756, 8844),
    _of_2010("RL-NN-ORA", 0.93, 0.18, 0.94, 0.22, 0.93, 0.20, 3777, 12168, 1366, 7989),
    _of_2010("RL-NN-EST", 0.92, 0.18, 0.94, 0.22, 0.93, 0.20, 3803, 12232, 1382, 8076),
    _of_2010("RL-ESN-ORA", 0.93, 0.19, 0.94, 0.20, 0.93, 0.19, 3962, 13014, 1085, 8491),
    _of_2010("RL-ESN-EST", 0.93, 0.17, 0.95, 0.19, 0.94, 0.18, 3492, 12175, 495, 3589),
    _of_2009("elastic", "ELA-ORA-0.5", 0.965, 0.177, 0.966, 0.116, 606, 4245),
    _of_2009("elastic", "ELA-ORA-1", 0.971, 0.160, 0.966, 0.121, 236, 2200),
    _of_2009("elastic", "ELA-EST-0.5", 0.958, 0.184, 0.960, 0.123, 458, 3771),
    _of_2009("elastic", "ELA-EST-1", 0.968, 0.167, 0.968, 0.113, 414, 3584),
)


def _figure(row: Published, metric: str, value: float) -> PublishedFigure:
    measure = RESPONSIVE_METRICS[metric]
    table = row.tables["wait" in metric]
    quantity = f"{measure.formula}: {row.label}, {row.site} site"
    return PublishedFigure(f"{row.paper}, table {table}", quantity, value, measure.unit)


#: The same figures one by one, as `label/metric`.
PUBLISHED_FIGURES: Mapping[str, PublishedFigure] = MappingProxyType(
    {
        f"{row.label}/{metric}": _figure(row, metric, value)
        for row in PUBLISHED
        for metric, value in row.figures.items()
    }
)


_W, _WAIT = "interactive_responsiveness_mean", "interactive_wait_mean"
_REWARD, _W_OF_ALL, _FAIRNESS = "rigid_reward_mean", "responsiveness_mean", "fairness_mean"
_PROMPT = f"interactive_wait_below_{PROMPT}"
_SEEDS = "python -m benchmarks.egee_calibration --first 200 --seeds 32"


def _sarsa(estimates: str, weight: float, site: str) -> dict[str, Any]:
    """Return the configuration of SARSA in the experiment of that name."""
    return {"policy": "esn-sarsa", "estimates": estimates, "weight": weight, "site": site, "headroom": None}


_SIZING = _sarsa("estimated", 0.5, "elastic-paper")
#: The strongest simple rule on a pool that can change.
_RULE_2X = {**_SIZING, "policy": "interactive_first", "headroom": 2}


def _papers(
    text: str, metric: str, policy: str, less: str = "", *, row: str = "", **limits: Any
) -> Criterion:
    """Return a criterion on a policy, or on its difference to another; `row`: of the published tables."""
    against = {"policy": less} if less else {}
    ours = Reading("papers", metric, {"policy": policy}, against, "difference" if less else "value")
    if row:
        limits["published"] = f"{row}/{metric}"
    return Criterion(text, ours, **limits)


def _rigid(text: str, metric: str, weight: float, against: Mapping[str, Any], **limits: Any) -> Criterion:
    """Return a criterion on SARSA's difference to another configuration on the rigid site."""
    ours = Reading("sarsa", metric, _sarsa("estimated", weight, "rigid"), against, "difference")
    return Criterion(text, ours, **limits)


_OF_INTERACTIVE = "W of interactive jobs"
_PROMPT_SHARE = "share of interactive jobs that wait less than two minutes"
_RESERVOIR_LESS = "fitted Q with a reservoir less with a feed-forward network"
_CLAIMS = (
    Claim(
        "SARSA raises W of interactive jobs from 0.63, the site's own scheduler, to 0.86",
        "2009, table 2: NAT, RIG-EST-0.5",
        [
            _papers(
                f"{_OF_INTERACTIVE}, first come, first served with the site's limits",
                *(_W, "capped_fcfs"),
                row="NAT",
                within=0.1,
            ),
            Criterion(
                "W under that scheduler on 32 generated logs that played no part in the calibration",
                Recorded(0.646, _SEEDS),
                published=f"NAT/{_W}",
                within=0.1,
            ),
            _papers(f"{_OF_INTERACTIVE}, SARSA", _W, "esn-sarsa", row="RIG-EST-0.5", within=0.05),
            _papers("SARSA less the site's scheduler", _W, "esn-sarsa", "capped_fcfs", at_least=0.1),
        ],
        "The site's scheduler is first come, first served with a limit on each user's running jobs.",
    ),
    Claim(
        "With it 86 % of interactive jobs wait less than two minutes, in place of 63 %",
        "2009, section 5.2",
        [
            _papers(f"{_PROMPT_SHARE}, {name}", _PROMPT, policy, published=published, within=0.1)
            for name, policy, published in (
                ("the site's scheduler", "capped_fcfs", 0.63),
                ("SARSA", "esn-sarsa", 0.86),
            )
        ],
    ),
    Claim(
        "It is the learning that raises W",
        "2009, sections 5.2 and 7",
        [
            _papers(
                f"{_OF_INTERACTIVE}, SARSA less first come, first served without the site's limits",
                *(_W, "esn-sarsa", "fcfs"),
                at_least=0,
            ),
            _papers(
                "R_s, SARSA less the fair index, a rule of two lines",
                *(_REWARD, "esn-sarsa", "fair_index"),
                at_least=0,
            ),
            _papers(
                "R_s, fitted Q iteration less the fair index", _REWARD, "esn-fq", "fair_index", at_least=0
            ),
        ],
        "Without the limit on each user's running jobs, first come, first served does as much as the "
        "learner. The learner drops the limit, too.",
    ),
    Claim(
        "Fitted Q iteration raises W of interactive jobs to 0.95",
        "2010, table 2: RL-ESN-EST",
        [
            _papers(
                f"{_OF_INTERACTIVE}, fitted Q with a reservoir", _W, "esn-fq", row="RL-ESN-EST", within=0.03
            ),
            _papers(f"fitted Q less SARSA, {_OF_INTERACTIVE}", _W, "esn-fq", "esn-sarsa", at_least=0.02),
            _papers(
                f"{_OF_INTERACTIVE}, the best rule for them (interactive first)",
                *(_W, "interactive_first"),
                row="RL-ESN-EST",
                within=0.03,
            ),
        ],
        "No order of the jobs reaches it on this site: what is left is the wait for a core that no order can "
        "free. The paper speaks of four VOs and of a pool that changes: another set-up.",
    ),
    Claim(
        "Learning gives interactive jobs short waits",
        "2009, table 3; 2010, table 3",
        [
            _papers("mean wait, SARSA", _WAIT, "esn-sarsa", row="RIG-EST-0.5", within=0.25),
            _papers("mean wait, fitted Q", _WAIT, "esn-fq", row="RL-ESN-EST", within=0.25),
            _papers(
                "mean wait, SARSA less interactive first",
                *(_WAIT, "esn-sarsa", "interactive_first"),
                at_most=0,
                unit="s",
            ),
        ],
        "Any rule that puts interactive jobs first lets them wait for a minute or two; neither learner, here "
        "or in the papers, puts them first.",
    ),
    Claim(
        "A network with memory learns better than one without",
        "2010, abstract, tables 2 and 3: RL-ESN-EST, RL-NN-EST",
        [
            _papers(f"{quantity}, {_RESERVOIR_LESS}", metric, "esn-fq", "ffnn-fq", **limits)
            for quantity, metric, limits in (
                ("R_s", _REWARD, {"at_least": 0}),
                (_OF_INTERACTIVE, _W, {"published": 0.01, "at_least": 0}),
                ("their mean wait", _WAIT, {"published": 495 - 1382, "at_most": 0, "unit": "s"}),
            )
        ],
    ),
    Claim(
        "W of the started job is a good thing to reward",
        "2009, section 5.2",
        [
            _rigid(f"W of all jobs, {text}", _W_OF_ALL, 1, against, at_least=0)
            for text, against in (
                (
                    "SARSA rewarded by nothing else (λ = 1) less interactive first",
                    {"policy": "interactive_first"},
                ),
                ("SARSA with λ = 1 less SARSA with λ = 0.5", {"weight": 0.5}),
            )
        ],
        "Under congestion it favours long jobs, whose W suffers least: the better the fit, the worse the "
        "schedule.",
    ),
    Claim(
        "The weight λ has little influence",
        "2009, table 2: RIG-EST-1, RIG-EST-0.5",
        [
            _rigid(
                f"{_OF_INTERACTIVE}, SARSA with λ = 1 less SARSA with λ = 0.5",
                *(_W, 1, {"weight": 0.5}),
                published=0.003,
                at_least=-0.03,
                at_most=0.03,
            )
        ],
    ),
    Claim(
        "Knowing run times makes little difference to the learner",
        "2009, table 2: RIG-ORA-0.5, RIG-EST-0.5",
        [
            _rigid(
                f"{_OF_INTERACTIVE} under SARSA, run times estimated less known",
                *(_W, 0.5, {"estimates": "oracle"}),
                published=-0.002,
                at_least=-0.03,
                at_most=0.03,
            )
        ],
    ),
    Claim(
        "The learner is as fair as the site's own scheduler",
        "2009, section 5.2 and figure 6; 2010, figure 4",
        [
            _papers(
                "F, SARSA less the site's scheduler",
                *(_FAIRNESS, "esn-sarsa", "capped_fcfs"),
                published=0,
                at_least=-0.02,
                at_most=0.02,
            ),
            _papers("F of the site's scheduler", _FAIRNESS, "capped_fcfs", published=0.7, within=0.1),
        ],
        "No order of the jobs moves F much: shares are of all service since the beginning.",
    ),
    Claim(
        "A pool that the learner sizes gives interactive jobs W 0.96",
        "2009, table 4: ELA-EST-0.5",
        [
            Criterion(
                f"{_OF_INTERACTIVE}, SARSA that sizes the pool",
                Reading("sarsa", _W, _SIZING),
                f"ELA-EST-0.5/{_W}",
                within=0.03,
            ),
            Criterion(
                "SARSA that sizes the pool less interactive first on a pool of twice the demand",
                Reading("sarsa", _W, _SIZING, _RULE_2X, "difference"),
                at_least=0,
            ),
        ],
        "A learner frozen after the first half goes to the smallest pool or to the largest, by the draw "
        "of its network: its reward does not say that the queue behind grows. The paper's learner goes on "
        "learning; the study of the site has it beside this one (protocol=online). The tables have the rule "
        "that asks for twice the demand.",
    ),
)


#: Columns of the published tables to our metrics.
_COLUMNS_2009 = {
    "W interactive": _W,
    "its deviation": "interactive_responsiveness_std",
    "W batch": "batch_responsiveness_mean",
    "wait interactive, s": _WAIT,
}
_COLUMNS_2010 = {
    "W interactive": _W,
    "W batch": "batch_responsiveness_mean",
    "W of all": "responsiveness_mean",
    "wait interactive, s": _WAIT,
    "wait batch, s": "batch_wait_mean",
}
#: Ours: without a limit on each user's running jobs, and the strongest simple rule.
_RULES = {"FCFS without limits": "fcfs", "interactive first": "interactive_first", "fair index": "fair_index"}


def _table(
    title: str, source: str, columns: Mapping[str, str], rows: Mapping[str, tuple[str, Mapping[str, Any]]]
) -> PaperTable:
    """Return a table; `rows`: the experiment and the configuration of each, by the papers' name or ours."""
    papers, metrics = {row.label for row in PUBLISHED}, columns.values()
    lines = [
        TableRow.of(
            label,
            [Reading(experiment, metric, where) for metric in metrics],
            [f"{label}/{metric}" for metric in metrics if label in papers],
        )
        for label, (experiment, where) in rows.items()
    ]
    return PaperTable(title, source, list(columns), lines)


def _tables() -> list[PaperTable]:
    of_sarsa = {
        kind: {
            f"{kind}-{name}-{weight:g}": ("sarsa", _sarsa(estimates, weight, site))
            for name, estimates in (("ORA", "oracle"), ("EST", "estimated"))
            for weight in (0.5, 1)
        }
        for kind, site in (("RIG", "rigid"), ("ELA", "elastic-paper"))
    }
    networks = {
        f"RL-{network}-{name}": (experiment, {"policy": policy})
        for network, policy in (("NN", "ffnn-fq"), ("ESN", "esn-fq"))
        for name, experiment in (("ORA", "papers_oracle"), ("EST", "papers"))
    }
    native = ("papers", {"policy": "capped_fcfs"})
    rules = {f"{label} (ours)": ("papers", {"policy": policy}) for label, policy in _RULES.items()}
    return [
        _table(
            "W and waits on the rigid site, SARSA",
            "2009, tables 2 and 3",
            _COLUMNS_2009,
            {"NAT": native, **of_sarsa["RIG"], **rules},
        ),
        _table(
            "W and waits on the elastic site, SARSA",
            "2009, tables 4 and 5",
            _COLUMNS_2009,
            {**of_sarsa["ELA"], "twice the demand (ours)": ("sarsa", _RULE_2X)},
        ),
        _table(
            "W and waits on the rigid site, fitted Q iteration",
            "2010, tables 2 and 3",
            _COLUMNS_2010,
            {"EGEE": native, **networks, **rules},
        ),
    ]


def _curve(title: str, source: str, experiment: str, curve: str, published: str) -> PaperFigure:
    site = "rigid" if experiment == "papers" else "elastic-paper"
    return PaperFigure(title, source, experiment, f"responsive_1_{site}_{curve}.png", published)


_FIGURES = (
    _curve(
        "Distribution of W, rigid site",
        "2009, figures 4 and 5; 2010, figure 2",
        "papers",
        "responsiveness",
        "W is above 0.9 for 53 % of the interactive jobs under the site's scheduler, for 82 % and more under "
        "SARSA, and for more than 90 % under fitted Q; for batch jobs 64 and 77 % (2009). Hardly a job is "
        "above 0.98.",
    ),
    _curve(
        "Waits, rigid site",
        "2009, figure 7; 2010, figure 3",
        "papers",
        "delay",
        "63 % of the interactive jobs wait less than two minutes under the site's scheduler, 86 % under "
        "SARSA, more than 90 % under fitted Q.",
    ),
    _curve(
        "Fairness over time, rigid site",
        "2009, figure 6; 2010, figure 4",
        "papers",
        "fairness",
        "The difference to the site's scheduler is small and mostly positive, with excursions in bursts. "
        "The scheduler's own F is about 0.7.",
    ),
    _curve(
        "Distribution of W, elastic site",
        "2009, figure 8",
        "sarsa",
        "responsiveness",
        "W is above 0.9 for more than 94 % of the interactive jobs.",
    ),
    _curve(
        "Pool and utilisation, elastic site",
        "2009, figure 9",
        "sarsa",
        "pool",
        "The pool is small at first, near 90 cores most of the time, and grows with the largest burst. "
        "Utilisation falls to 50 %; that of the rigid site stays at 70 %.",
    ),
    _curve(
        "Waits, elastic site",
        "2009, figure 10",
        "sarsa",
        "delay",
        "At most 5 % of the interactive jobs wait more than two minutes.",
    ),
)

REPRODUCTIONS: Mapping[str, Reproduction] = MappingProxyType(
    {
        "responsive": Reproduction(
            title="A grid site that learns: SARSA and fitted Q iteration with an echo state network",
            publications=[PEREZ_2009, PEREZ_2010],
            data=(
                f"The papers' log ({PUBLISHED_ON}) is not public. Ours is the log egee that comes with "
                "gridtune: generated, with the published distribution of run times, shares and load, and "
                "with bursts that were fitted so that the site's own scheduler and the learner of 2009 "
                "both have about their published W. Learners learn on its first half, all are measured on "
                "the second. Replicates move submissions by up to ten seconds and draw other networks: "
                "intervals do not cover other weeks."
            ),
            experiments={
                "papers": Experiment(
                    "search_spaces/responsive_papers.yaml",
                    settings={"replicates.shakes": [6]},
                    quick={
                        "policy": [
                            *("capped_fcfs", "fcfs", "interactive_first", "fair_index"),
                            *("esn-sarsa", "esn-fq", "ffnn-fq"),
                        ],
                        "replicates.shakes": [3],
                    },
                ),
                "papers_oracle": Experiment(
                    "search_spaces/responsive_papers.yaml",
                    settings={
                        "policy": ["fcfs", "sjf", "esn-sarsa", "esn-fq", "ffnn-fq"],
                        "estimates": ["oracle"],
                        "replicates.shakes": [6],
                    },
                    quick=None,
                ),
                "sarsa": Experiment(
                    "search_spaces/responsive_lambda.yaml",
                    settings={
                        "workload": ["EGEE-like"],
                        "policy": ["fair_share", "fcfs", "sjf", "interactive_first", "esn-sarsa"],
                        "weight": [0.5, 1],
                    },
                    quick={
                        "policy": ["interactive_first", "esn-sarsa"],
                        "headroom": [2],
                        "replicates.shakes": [3],
                    },
                ),
            },
            claims=_CLAIMS,
            tables=_tables(),
            figures=_FIGURES,
            documents=[("papers", "published.md"), ("papers", "blocks.md"), ("sarsa", "published.md")],
        )
    }
)
