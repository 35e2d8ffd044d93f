"""Intervals over blocks of time and over sites, of results made up here."""

from __future__ import annotations

import numpy as np
import pytest

from gridtune.core.cells import CellResult
from gridtune.systems.responsive.report.tables import Row, blocks_markdown


def result(site: str, policy: str, reward: list[float], jobs: list[int]) -> CellResult:
    blocks = {"jobs": jobs, "reward": (np.array(reward) * jobs).tolist(), "responsiveness": jobs}
    configuration = {"policy": policy}
    return CellResult(
        cell_id=f"{site} {policy}",
        configuration_id=policy,
        workload=site,
        configuration=configuration,
        replicate="seed 0",
        seed=0,
        traces={},
        parameters=configuration,
        state="done",
        metrics={"rigid_reward_mean": float(np.average(reward, weights=jobs))},
        notes={"blocks": blocks},
    )


@pytest.fixture
def page() -> str:
    index, other = [0.9, 0.8, 0.7, 0.6], [0.85, 0.75, 0.65, 0.55]
    results = [
        result(site, policy, reward, jobs)
        for site, jobs in (("A", [10, 20, 30, 40]), ("B", [5, 5, 5, 5]))
        for policy, reward in (("fair_index", index), ("fcfs", other))
    ]
    return blocks_markdown(Row.of(results))


def test_means_are_over_jobs_and_differences_over_paired_blocks(page: str) -> None:
    """Of site A: 0.7 = (0.9·10 + 0.8·20 + 0.7·30 + 0.6·40) / 100; every block of FCFS is 0.05 less."""
    site = page.partition("## A")[2].partition("## B")[0]
    assert "| fair index, EST | 0.7000 |" in site
    row = next(line for line in site.splitlines() if line.startswith("| FCFS"))
    assert "| 0.6500 |" in row
    assert "| -0.0500 |" in row


def test_sites_have_the_same_weight(page: str) -> None:
    everywhere = page.partition("## All 2 sites")[2]
    assert "| fair index, EST | 0.7250 |" in everywhere
    assert "| -0.0500 | [-0.0500, -0.0500] |" in everywhere
