"""The experiments of the papers on a grid site that learns, their claims, tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from gridtune.core.reproduction import Experiment, PaperFigure, PaperTable, Reading, Reproduction, TableRow
from gridtune.systems.responsive.claims import CLAIMS, RULE_2X, WAIT, W, sarsa
from gridtune.systems.responsive.metrics import PEREZ_2009, PEREZ_2010
from gridtune.systems.responsive.report.published import PUBLISHED_ON

__all__ = ["REPRODUCTIONS"]

#: Columns of the published tables to our metrics.
_COLUMNS_2009 = {
    "W interactive": W,
    "its deviation": "interactive_responsiveness_std",
    "W batch": "batch_responsiveness_mean",
    "wait interactive, s": WAIT,
}
_COLUMNS_2010 = {
    "W interactive": W,
    "W batch": "batch_responsiveness_mean",
    "W of all": "responsiveness_mean",
    "wait interactive, s": WAIT,
    "wait batch, s": "batch_wait_mean",
}
_NAT = {"policy": "capped_fcfs"}
#: Ours: without a limit on each user's running jobs, and the strongest simple rule.
_RULES: Mapping[str, Mapping[str, Any]] = {
    "FCFS without limits": {"policy": "fcfs"},
    "interactive first": {"policy": "interactive_first"},
    "fair index": {"policy": "fair_index"},
}


def _row(
    label: str, experiment: str, where: Mapping[str, Any], columns: Sequence[str], name: str = ""
) -> TableRow:
    """Return a row; `name` is that of the published one, or "" for a rule of ours."""
    published = [f"{name}/{metric}" for metric in columns] if name else []
    return TableRow.of(label, [Reading(experiment, metric, where) for metric in columns], published)


def _tables() -> list[PaperTable]:
    first, second = list(_COLUMNS_2009.values()), list(_COLUMNS_2010.values())
    learners = {
        f"{estimates}-{weight:g}": (name, weight)
        for estimates, name in (("ORA", "oracle"), ("EST", "estimated"))
        for weight in (0.5, 1)
    }
    rigid = [
        _row(f"RIG-{label}", "sarsa", sarsa(*of, "rigid"), first, f"RIG-{label}")
        for label, of in learners.items()
    ]
    elastic = [
        _row(f"ELA-{label}", "sarsa", sarsa(*of, "elastic-paper"), first, f"ELA-{label}")
        for label, of in learners.items()
    ]
    networks = [
        _row(label, experiment, {"policy": policy}, second, label)
        for label, experiment, policy in (
            ("RL-NN-ORA", "papers_oracle", "ffnn-fq"),
            ("RL-NN-EST", "papers", "ffnn-fq"),
            ("RL-ESN-ORA", "papers_oracle", "esn-fq"),
            ("RL-ESN-EST", "papers", "esn-fq"),
        )
    ]
    return [
        PaperTable(
            "W and waits on the rigid site, SARSA",
            "2009, tables 2 and 3",
            list(_COLUMNS_2009),
            [
                _row("NAT", "papers", _NAT, first, "NAT"),
                *rigid,
                *(_row(f"{label} (ours)", "papers", where, first) for label, where in _RULES.items()),
            ],
        ),
        PaperTable(
            "W and waits on the elastic site, SARSA",
            "2009, tables 4 and 5",
            list(_COLUMNS_2009),
            [*elastic, _row("twice the demand (ours)", "sarsa", RULE_2X, first)],
        ),
        PaperTable(
            "W and waits on the rigid site, fitted Q iteration",
            "2010, tables 2 and 3",
            list(_COLUMNS_2010),
            [
                _row("EGEE", "papers", _NAT, second, "EGEE"),
                *networks,
                *(_row(f"{label} (ours)", "papers", where, second) for label, where in _RULES.items()),
            ],
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
            claims=CLAIMS,
            tables=_tables(),
            figures=_FIGURES,
            documents=[("papers", "published.md"), ("papers", "blocks.md"), ("sarsa", "published.md")],
        )
    }
)
