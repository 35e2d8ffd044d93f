"""The experiments of the papers on a grid site that learns, their claims, tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from gridtune.core.reproduction import (
    Claim,
    Criterion,
    Experiment,
    PaperFigure,
    PaperTable,
    Reading,
    Recorded,
    Reproduction,
    TableCell,
    TableRow,
)
from gridtune.systems.responsive.metrics import PEREZ_2009, PEREZ_2010
from gridtune.systems.responsive.report.published import PUBLISHED_ON

__all__ = ["REPRODUCTIONS"]

_W, _WAIT, _REWARD = "interactive_responsiveness_mean", "interactive_wait_mean", "rigid_reward_mean"
_SEEDS = "python -m benchmarks.egee_calibration --first 200 --seeds 32"
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
_NAT = {"policy": "capped_fcfs"}
#: Ours without a limit on each user's running jobs, and the strongest simple rule.
_RULES: Mapping[str, Mapping[str, Any]] = {
    "FCFS without the site's limits": {"policy": "fcfs"},
    "interactive first": {"policy": "interactive_first"},
    "fair index": {"policy": "fair_index"},
}


def _sarsa(estimates: str, weight: float, site: str) -> dict[str, Any]:
    return {"policy": "esn-sarsa", "estimates": estimates, "weight": weight, "site": site}


_RULE_2X = {
    "policy": "interactive_first",
    "estimates": "estimated",
    "weight": 0.5,
    "site": "elastic-paper",
    "headroom": 2,
}


def _papers(metric: str, policy: str, against: str | None = None) -> Reading:
    if against is None:
        return Reading("papers", metric, {"policy": policy})
    return Reading("papers", metric, {"policy": policy}, {"policy": against}, "difference")


_CLAIMS = (
    Claim(
        "SARSA raises W of interactive jobs from 0.63, the site's own scheduler, to 0.86",
        "2009, table 2: NAT, RIG-EST-0.5",
        [
            Criterion(
                "W of interactive jobs, first come, first served with the site's limits",
                _papers(_W, "capped_fcfs"),
                published=f"NAT/{_W}",
                within=0.1,
            ),
            Criterion(
                "the same on 32 generated logs that played no part in the calibration",
                Recorded(0.646, _SEEDS),
                published=f"NAT/{_W}",
                within=0.1,
            ),
            Criterion(
                "W of interactive jobs, SARSA", _papers(_W, "esn-sarsa"), f"RIG-EST-0.5/{_W}", within=0.05
            ),
            Criterion(
                "SARSA less the site's scheduler", _papers(_W, "esn-sarsa", "capped_fcfs"), at_least=0.1
            ),
        ],
        "The site's scheduler is first come, first served with a limit on each user's running jobs.",
    ),
    Claim(
        "It is the learning that raises it",
        "2009, section 5",
        [
            Criterion(
                "W of interactive jobs, SARSA less first come, first served without the site's limits",
                _papers(_W, "esn-sarsa", "fcfs"),
                at_least=0,
            ),
            Criterion(
                "R_s, SARSA less the fair index, a rule of two lines",
                _papers(_REWARD, "esn-sarsa", "fair_index"),
                at_least=0,
            ),
            Criterion(
                "R_s, fitted Q iteration less the fair index",
                _papers(_REWARD, "esn-fq", "fair_index"),
                at_least=0,
            ),
        ],
        "Without the limit on each user's running jobs, first come, first served does as much as the "
        "learner. The learner drops the limit, too.",
    ),
    Claim(
        "Fitted Q iteration raises W of interactive jobs to 0.95",
        "2010, table 2: RL-ESN-EST",
        [
            Criterion(
                "W of interactive jobs, fitted Q with a reservoir",
                _papers(_W, "esn-fq"),
                f"RL-ESN-EST/{_W}",
                within=0.03,
            ),
            Criterion(
                "fitted Q less SARSA, W of interactive jobs",
                _papers(_W, "esn-fq", "esn-sarsa"),
                at_least=0.02,
            ),
            Criterion(
                "W of interactive jobs, the best rule for them (interactive first)",
                _papers(_W, "interactive_first"),
                f"RL-ESN-EST/{_W}",
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
            Criterion("mean wait, SARSA", _papers(_WAIT, "esn-sarsa"), f"RIG-EST-0.5/{_WAIT}", within=0.25),
            Criterion("mean wait, fitted Q", _papers(_WAIT, "esn-fq"), f"RL-ESN-EST/{_WAIT}", within=0.25),
            Criterion(
                "mean wait, SARSA less interactive first",
                _papers(_WAIT, "esn-sarsa", "interactive_first"),
                at_most=0,
                unit="s",
            ),
        ],
        "Any rule that puts interactive jobs first lets them wait for a minute or two; neither learner, here "
        "or in the papers, puts them first.",
    ),
    Claim(
        "A network with memory learns better than one without",
        "2010, section 4",
        [
            Criterion(
                "R_s, fitted Q with a reservoir less fitted Q with a feed-forward network",
                _papers(_REWARD, "esn-fq", "ffnn-fq"),
                at_least=0,
            ),
            Criterion(
                "W of interactive jobs, the same",
                _papers(_W, "esn-fq", "ffnn-fq"),
                published=0.01,
                at_least=0,
            ),
        ],
    ),
    Claim(
        "Knowing run times makes little difference to the learner",
        "2009, table 2: RIG-ORA, RIG-EST",
        [
            Criterion(
                "W of interactive jobs under SARSA, run times known less estimated",
                Reading(
                    "sarsa",
                    _W,
                    _sarsa("oracle", 0.5, "rigid"),
                    {"estimates": "estimated"},
                    "difference",
                ),
                published=0.002,
                at_least=-0.03,
                at_most=0.03,
            )
        ],
    ),
    Claim(
        "A pool that the learner sizes gives interactive jobs W 0.96",
        "2009, table 4: ELA-EST-0.5",
        [
            Criterion(
                "W of interactive jobs, SARSA that sizes the pool",
                Reading("sarsa", _W, _sarsa("estimated", 0.5, "elastic-paper")),
                f"ELA-EST-0.5/{_W}",
                within=0.03,
            ),
            Criterion(
                "W of interactive jobs, interactive first on a pool of twice the demand, a rule of one line",
                Reading("sarsa", _W, _RULE_2X),
                f"ELA-EST-0.5/{_W}",
                within=0.03,
            ),
        ],
        "The published learner lets the pool shrink here: its reward does not say that the queue behind "
        "grows. A rule that asks for twice the demand reaches the published W.",
    ),
)


def _row(
    label: str, experiment: str, where: Mapping[str, Any], columns: Sequence[str], name: str
) -> TableRow:
    """Return a row; `name` is that of the published one, or "" for a rule of ours."""
    return TableRow(
        label,
        [
            TableCell(f"{name}/{metric}" if name else None, Reading(experiment, metric, where))
            for metric in columns
        ],
    )


def _tables() -> list[PaperTable]:
    first, second = list(_COLUMNS_2009.values()), list(_COLUMNS_2010.values())
    learners = {
        f"{estimates}-{weight:g}": (name, weight)
        for estimates, name in (("ORA", "oracle"), ("EST", "estimated"))
        for weight in (0.5, 1)
    }
    rigid = [
        _row(f"RIG-{label}", "sarsa", _sarsa(*of, "rigid"), first, f"RIG-{label}")
        for label, of in learners.items()
    ]
    elastic = [
        _row(f"ELA-{label}", "sarsa", _sarsa(*of, "elastic-paper"), first, f"ELA-{label}")
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
                *(_row(f"{label} (ours)", "papers", where, first, "") for label, where in _RULES.items()),
            ],
        ),
        PaperTable(
            "W and waits on the elastic site, SARSA",
            "2009, tables 4 and 5",
            list(_COLUMNS_2009),
            [*elastic, _row("interactive first, twice the demand (ours)", "sarsa", _RULE_2X, first, "")],
        ),
        PaperTable(
            "W and waits on the rigid site, fitted Q iteration",
            "2010, tables 2 and 3",
            list(_COLUMNS_2010),
            [
                _row("EGEE", "papers", _NAT, second, "EGEE"),
                *networks,
                *(_row(f"{label} (ours)", "papers", where, second, "") for label, where in _RULES.items()),
            ],
        ),
    ]


_FIGURES: Sequence[PaperFigure] = ()

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
                        "replicates.shakes": [2],
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
                    settings={"workload": ["EGEE-like"]},
                    quick={
                        "policy": ["interactive_first", "esn-sarsa"],
                        "headroom": [2],
                        "weight": [0.5],
                        "replicates.shakes": [2],
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
