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
from gridtune.systems.responsive.deviations import DEVIATIONS
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

#: What the paper does not give: the settings with which the elastic site comes nearest.
_HOLDING: Mapping[str, float | None] = {"input_scale": 0.03, "ridge": 10}


def _sarsa(
    estimates: str = "estimated", weight: float = 0.5, site: str = "rigid", *, default: bool = False
) -> dict[str, Any]:
    """Return the configuration of on-line SARSA; `default`: on the elastic site with the default settings."""
    unset = default or site == "rigid"
    settings = dict.fromkeys(_HOLDING) if unset else _HOLDING
    return {"policy": "esn-sarsa", **settings, "estimates": estimates, "weight": weight, "site": site}


_SIZING = _sarsa(site="elastic-paper")
#: The strongest simple rule on a pool that can change.
_RULE_2X = {"policy": "interactive_first", "site": "elastic-paper", "headroom": 2}
_FIRST = {"policy": "interactive_first", "site": "rigid"}
#: The model of the site's own scheduler.
_NATIVE = {"policy": "capped_fcfs"}
#: What a rule does not have, to compare SARSA with it.
_NO_LEARNER = dict.fromkeys((*_HOLDING, "pool_charged", "resized_at", "estimates", "weight"))


def _less(metric: str, where: Mapping[str, Any], other: Mapping[str, Any]) -> Reading:
    """Return the difference to a rule in the experiments of 2009; `other`: its configuration."""
    against = {**_NO_LEARNER, "site": None, **other}
    return Reading("published", metric, where, against, "difference")


def _online(
    text: str, metric: str, where: Mapping[str, Any] | None = None, *, row: str = "", **limits: Any
) -> Criterion:
    """Return a criterion of 2009, on SARSA on the rigid site unless `where` says; `row`: published."""
    if row:
        limits["published"] = f"{row}/{metric}"
    return Criterion(text, Reading("published", metric, _sarsa() if where is None else where), **limits)


def _papers(
    text: str, metric: str, policy: str, less: str = "", *, row: str = "", **limits: Any
) -> Criterion:
    """Return a criterion on a policy frozen after the first half, or on its difference to another."""
    against = {"policy": less} if less else {}
    ours = Reading("papers", metric, {"policy": policy}, against, "difference" if less else "value")
    if row:
        limits["published"] = f"{row}/{metric}"
    return Criterion(text, ours, **limits)


def _rigid(text: str, metric: str, weight: float, against: Mapping[str, Any], **limits: Any) -> Criterion:
    """Return a criterion on SARSA's difference to another of its configurations on the rigid site."""
    ours = Reading("published", metric, _sarsa(weight=weight), against, "difference")
    return Criterion(text, ours, **limits)


_OF_INTERACTIVE = "W of interactive jobs"
_PROMPT_SHARE = "share of interactive jobs that wait less than two minutes"
_RESERVOIR_LESS = "fitted Q with a reservoir less with a feed-forward network"
_CLAIMS = (
    Claim(
        "SARSA raises W of interactive jobs from 0.63, the site's own scheduler, to 0.86",
        "2009, table 2: NAT, RIG-EST-0.5",
        [
            _online(
                f"{_OF_INTERACTIVE}, first come, first served with the site's limits",
                *(_W, _NATIVE),
                row="NAT",
                within=0.1,
            ),
            Criterion(
                "W under that scheduler on 32 generated logs that played no part in the calibration",
                Recorded(0.646, _SEEDS),
                published=f"NAT/{_W}",
                within=0.1,
            ),
            _online(f"{_OF_INTERACTIVE}, SARSA", _W, row="RIG-EST-0.5", within=0.05),
            Criterion(
                "SARSA less the site's scheduler",
                _less(_W, _sarsa(), _NATIVE),
                at_least=0.1,
            ),
        ],
        "The site's scheduler is first come, first served with a limit on each user's running jobs.",
    ),
    Claim(
        "With it 86 % of interactive jobs wait less than two minutes, in place of 63 %",
        "2009, section 5.2",
        [
            _online(f"{_PROMPT_SHARE}, the site's scheduler", _PROMPT, _NATIVE, published=0.63, within=0.1),
            _online(f"{_PROMPT_SHARE}, SARSA", _PROMPT, published=0.86, within=0.1),
        ],
    ),
    Claim(
        "It is the learning that raises W",
        "2009, sections 5.2 and 7",
        [
            Criterion(
                f"{_OF_INTERACTIVE}, SARSA less first come, first served without the site's limits",
                _less(_W, _sarsa(), {"policy": "fcfs"}),
                at_least=0,
            ),
            Criterion(
                "R_s, SARSA less the fair index, a rule of two lines",
                _less(_REWARD, _sarsa(), {"policy": "fair_index"}),
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
            _papers(
                f"fitted Q less SARSA, both frozen, {_OF_INTERACTIVE}",
                *(_W, "esn-fq", "esn-sarsa"),
                at_least=0.02,
            ),
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
            _online("mean wait, SARSA", _WAIT, row="RIG-EST-0.5", within=0.25),
            _papers("mean wait, fitted Q", _WAIT, "esn-fq", row="RL-ESN-EST", within=0.25),
            Criterion(
                "mean wait, SARSA less interactive first",
                _less(_WAIT, _sarsa(), _FIRST),
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
            Criterion(
                "W of all jobs, SARSA rewarded by nothing else (λ = 1) less interactive first",
                _less(_W_OF_ALL, _sarsa(weight=1), _FIRST),
                at_least=0,
            ),
            _rigid(
                "W of all jobs, SARSA with λ = 1 less SARSA with λ = 0.5",
                *(_W_OF_ALL, 1, {"weight": 0.5}),
                at_least=0,
            ),
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
            Criterion(
                "F, SARSA less the site's scheduler",
                _less(_FAIRNESS, _sarsa(), _NATIVE),
                published=0,
                at_least=-0.02,
                at_most=0.02,
            ),
            _online("F of the site's scheduler", _FAIRNESS, _NATIVE, published=0.7, within=0.1),
        ],
        "No order of the jobs moves F much: shares are of all service since the beginning.",
    ),
    Claim(
        "A pool that the learner sizes gives interactive jobs W 0.96",
        "2009, table 4: ELA-EST-0.5",
        [
            _online(_OF_INTERACTIVE, _W, _SIZING, row="ELA-EST-0.5", within=0.03),
            _online(
                "W of batch jobs",
                *("batch_responsiveness_mean", _SIZING),
                row="ELA-EST-0.5",
                at_least=0.93,
            ),
        ],
        "With an input scale of 0.03 and a ridge of 10 the largest size nearly always has the best value, so "
        "the pool is near its ceiling, whatever λ. With the default settings it goes to either end, by the "
        "draw of the network, and W with it.",
    ),
    Claim(
        "It does so with 90 cores, of which half are in use",
        "2009, section 5.3 and figure 9",
        [
            _online("mean pool", "pool_mean", _SIZING, published=90, within=0.25, unit="cores"),
            _online("U at the last decision", "utilisation_last", _SIZING, published=0.5, within=0.25),
            Criterion(
                "R_e, SARSA that sizes the pool less interactive first on a pool of twice the demand",
                _less("elastic_reward_mean", _SIZING, _RULE_2X),
                at_least=0,
            ),
        ],
        "Hardly anybody waits on a pool that is always near its ceiling: W alone says little. The tables "
        "have the rule that asks for twice the demand.",
    ),
)


#: Columns of the published tables to our metrics.
_OF_CLASSES = {
    "W interactive": _W,
    "std of W interactive": "interactive_responsiveness_std",
    "W batch": "batch_responsiveness_mean",
    "std of W batch": "batch_responsiveness_std",
    "wait interactive, s": _WAIT,
    "std of wait interactive, s": "interactive_wait_std",
}
_COLUMNS_2010 = {
    **_OF_CLASSES,
    "W of all": "responsiveness_mean",
    "std of W of all": "responsiveness_std",
    "wait batch, s": "batch_wait_mean",
    "std of wait batch, s": "batch_wait_std",
}
#: Ours: without a limit on each user's running jobs, and the strongest simple rules.
_RULES = {
    "FCFS without limits": {"policy": "fcfs"},
    "interactive first": {"policy": "interactive_first"},
    "fair index": {"policy": "fair_index"},
}
#: By how much waits are shorter than on the rigid site (2009, table 5), %.
_SPEED_UP = {"ELA-ORA-0.5": 45, "ELA-ORA-1": 73, "ELA-EST-0.5": 58, "ELA-EST-1": 64}
_Rows = Mapping[str, tuple[str, Mapping[str, Any]]]


def _table(title: str, source: str, columns: Mapping[str, str], rows: _Rows) -> PaperTable:
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


def _of_sarsa(kind: str, site: str) -> _Rows:
    """Return the rows of SARSA, on the elastic site with the default settings, too."""
    return {
        f"{kind}-{name}-{weight:g}{ours}": ("published", _sarsa(run, weight, site, default=bool(ours)))
        for ours in ("", *([", default settings (ours)"] if site == "elastic-paper" else []))
        for name, run in _MODELS.items()
        for weight in (0.5, 1)
    }


#: What the learner knows of run times.
_MODELS = {"ORA": "oracle", "EST": "estimated"}


def _pools(rows: _Rows) -> PaperTable:
    """Return how much shorter waits are than on the rigid site, and what the pool costs."""
    lines = []
    for label, (experiment, where) in rows.items():
        on_rigid = {**dict.fromkeys((*_HOLDING, "headroom", "pool_charged", "resized_at")), "site": "rigid"}
        metrics = [Reading(experiment, name, where) for name in ("pool_mean", "utilisation_last")]
        gain = Reading(experiment, _WAIT, where, on_rigid, "change", factor=-1)
        shares = [
            Reading(experiment, name, where) for name in ("interactive_responsiveness_above_09", _PROMPT)
        ]
        published: list[str | float | None] = [_SPEED_UP.get(label)]
        if label == "ELA-EST-0.5":
            published += [90, 0.5, 0.94, 0.95]
        lines.append(TableRow.of(label, [gain, *metrics, *shares], published))
    columns = [
        "speed-up of interactive waits to the rigid site, %",
        "pool, cores",
        "U, last",
        "W > 0.9",
        "wait < 2 min",
    ]
    return PaperTable(
        "What the elastic site gains and costs", "2009, table 5 and section 5.3", columns, lines
    )


def _tables() -> list[PaperTable]:
    networks = {
        f"RL-{network}-{name}": (experiment, {"policy": policy})
        for network, policy in (("NN", "ffnn-fq"), ("ESN", "esn-fq"))
        for name, experiment in (("ORA", "papers_oracle"), ("EST", "papers"))
    }
    frozen = {f"{label} (ours)": ("papers", where) for label, where in _RULES.items()}
    rules = {
        f"{label} (ours)": ("published", _FIRST if where == _RULES["interactive first"] else where)
        for label, where in _RULES.items()
    }
    elastic = {**_of_sarsa("ELA", "elastic-paper"), "twice the demand (ours)": ("published", _RULE_2X)}
    return [
        _table(
            "W and waits on the rigid site, SARSA",
            "2009, tables 2 and 3",
            _OF_CLASSES,
            {"NAT": ("published", _NATIVE), **_of_sarsa("RIG", "rigid"), **rules},
        ),
        _table("W and waits on the elastic site, SARSA", "2009, tables 4 and 5", _OF_CLASSES, elastic),
        _pools(elastic),
        _table(
            "W and waits on the rigid site, fitted Q iteration",
            "2010, tables 2 and 3",
            _COLUMNS_2010,
            {"EGEE": ("papers", _NATIVE), **networks, **frozen},
        ),
    ]


def _curve(title: str, source: str, experiment: str, curve: str, published: str) -> PaperFigure:
    site = "elastic-paper" if "lastic" in title else "rigid"
    return PaperFigure(title, source, experiment, f"responsive_1_{site}_{curve}.png", published)


_FIGURES = (
    _curve(
        "The jobs: run times, overhead, and work that arrives",
        "2009, figures 1, 2 and 3; 2010, figure 1",
        "published",
        "workload",
        "On the whole grid in 14 months, 70 % of the jobs run for less than 900 s, more than half in each "
        "large VO, and 40 % of the short jobs wait for more than ten times their run time. Work "
        "arrives in bursts.",
    ),
    _curve(
        "Distribution of W, rigid site",
        "2009, figures 4 and 5; 2010, figure 2",
        "published",
        "responsiveness",
        "W is above 0.9 for 53 % of the interactive jobs under the site's scheduler, for 82 % and more under "
        "SARSA, and for more than 90 % under fitted Q; for batch jobs 64 and 77 % (2009). Hardly a job is "
        "above 0.98.",
    ),
    _curve(
        "Fairness over time, rigid site",
        "2009, figure 6; 2010, figure 4",
        "published",
        "fairness",
        "The difference to the site's scheduler is small and mostly positive, with excursions in bursts. "
        "The scheduler's own F is about 0.7.",
    ),
    _curve(
        "Waits, rigid site",
        "2009, figure 7; 2010, figure 3",
        "published",
        "delay",
        "63 % of the interactive jobs wait less than two minutes under the site's scheduler, 86 % under "
        "SARSA, more than 90 % under fitted Q.",
    ),
    _curve(
        "Distribution of W, elastic site beside the rigid one",
        "2009, figure 8",
        "published",
        "responsiveness",
        "W is above 0.9 for more than 94 % of the interactive jobs.",
    ),
    _curve(
        "Pool and utilisation, elastic site",
        "2009, figure 9",
        "published",
        "pool",
        "The pool is small at first, near 90 cores most of the time, and grows with the largest burst. "
        "Utilisation falls to 50 %; that of the rigid site stays at 70 %.",
    ),
    _curve(
        "Waits, elastic site",
        "2009, figure 10",
        "published",
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
                "both have about their published W. SARSA (2009) learns on-line, in the run over the whole "
                "log that is measured; fitted Q (2010) on the first half, to be measured on the other. "
                "Replicates move submissions by up to ten seconds and draw other networks: intervals do not "
                "cover other weeks."
            ),
            experiments={
                "published": Experiment(
                    "search_spaces/responsive_published.yaml",
                    settings={"replicates.shakes": [6]},
                    quick={"replicates.shakes": [3]},
                ),
                "papers": Experiment(
                    "search_spaces/responsive_papers.yaml",
                    settings={
                        "policy": [
                            *("capped_fcfs", "fcfs", "interactive_first", "fair_index"),
                            *("esn-sarsa", "esn-fq", "ffnn-fq"),
                        ],
                        "replicates.shakes": [6],
                    },
                    quick={"replicates.shakes": [3]},
                ),
                "papers_oracle": Experiment(
                    "search_spaces/responsive_papers.yaml",
                    settings={
                        "policy": ["fcfs", "esn-fq", "ffnn-fq"],
                        "estimates": ["oracle"],
                        "replicates.shakes": [6],
                    },
                    quick=None,
                ),
            },
            claims=_CLAIMS,
            tables=_tables(),
            figures=_FIGURES,
            documents=[("published", "published.md"), ("papers", "published.md"), ("papers", "blocks.md")],
            deviations=DEVIATIONS,
        )
    }
)
