"""`gridtune policy score` finds all cheats of `score_cases`, and passes all honest policies there."""

from __future__ import annotations

from pathlib import Path

import pytest

import gridtune as gt
from gridtune.batch.policies.queue_order import ORDERS
from gridtune.batch.policies.reading import source_faults
from gridtune.study import leaks
from tests.study.score_cases import CHEATS, HONEST, source_of


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two small logs; few futures are drawn, and the policy is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(leaks, "_FUTURES", 8)
    paths = []
    for seed in (1, 2):
        paths.append(f"{seed}.swf")
        log = gt.generate_workload("lublin", jobs=120, processors=32, load=1.2, seed=seed)
        gt.write_workload(log, paths[-1])
    others = {name: order for name, order in ORDERS._items.items() if name != "mine"}
    monkeypatch.setattr(ORDERS, "_items", others)
    return paths


def known(logs: list[str]) -> dict[int, int]:
    runs: dict[int, int] = {}
    for path in logs:
        log = gt.read_workload(path)
        runs |= dict(zip((log.submit_time - log.submit_time[0]).tolist(), log.run_time.tolist(), strict=True))
    return runs


def scored(case: str, logs: list[str]) -> dict[str, bool | None]:
    Path("policy.py").write_text(source_of(case, known(logs)))
    score = leaks.score("policy.py", logs=logs)
    return {check.name: check.passed for check in score.checks}


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_found(logs: list[str], name: str) -> None:
    check, case = CHEATS[name]
    assert scored(case, logs)[check] is False


@pytest.mark.parametrize("name", HONEST)
def test_the_source_of_an_honest_policy_is_accepted(tmp_path: Path, name: str) -> None:
    path = tmp_path / "policy.py"
    path.write_text(source_of(HONEST[name], {}))
    assert source_faults(path) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_policy_passes(logs: list[str], name: str) -> None:
    assert set(scored(HONEST[name], logs).values()) == {True}
