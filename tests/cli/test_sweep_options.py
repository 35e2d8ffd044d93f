"""`gridtune sweep`: --set, --objective, --retry, and what a dry run says of the rest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gridtune.cli.main import main
from gridtune.sweep.journal.journal import Journal, read_journal
from gridtune.sweep.run import run_space
from gridtune.sweep.space.plan import PlannedSpace
from tests.cli.folders import finished_sweep
from tests.sweep.spaces import toy_space


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "space.yaml"
    path.write_text(yaml.safe_dump(toy_space()))
    return path


def sweep(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["sweep", *map(str, arguments)])
    return int(ended.value.code or 0)


def plan(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert sweep(*arguments, "--dry-run", "--json") == 0
    return dict(json.loads(capsys.readouterr().out))


def test_a_dry_run_says_what_is_done_and_how_long_the_rest_takes(
    space: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = plan(capsys, space)
    assert (content["done"], content["missing"], content["seconds_left"]) == (0, 16, None)
    folder = finished_sweep(tmp_path / "results" / "toys", space)
    results = list(read_journal(folder / "journal.jsonl").values())
    (folder / "journal.jsonl").unlink()
    with Journal(folder / "journal.jsonl") as journal:
        done = [replace(result, seconds=30.0) for result in results[:6]]
        journal.append([*done, replace(results[6], state="failed"), replace(results[7], state="lost")])
    content = plan(capsys, space, "--workers", 2)
    assert (content["done"], content["failed"], content["lost"], content["missing"]) == (6, 1, 1, 8)
    assert content["seconds_left"] == pytest.approx(8 * 30 / 2)
    assert plan(capsys, space, "--retry", "failed")["missing"] == 9
    assert plan(capsys, space, "--retry", "all")["missing"] == 10
    assert plan(capsys, space, "--out", tmp_path / "elsewhere")["missing"] == 16
    assert sweep(space, "--dry-run", "--workers", 2) == 0
    text = capsys.readouterr().out
    assert "6 done, 1 failed, 1 lost, 8 to run: about 2:00 with 2 workers" in text


def test_what_is_overridden_is_what_runs(space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = plan(
        capsys, space, "--set", "x=2", "--set", "x=3", "--set", "word=b", "--set", "replicates.seeds=3"
    )
    assert (content["configurations"], content["cells"]) == (2, 6)
    assert sweep(space, "--set", "x=17", "--dry-run") == 2
    assert "--set x: 17 is not among its values in this space" in capsys.readouterr().err
    assert sweep(space, "--objective", "los", "--dry-run") == 2
    assert "did you mean 'loss'" in capsys.readouterr().err
    assert sweep(space, "--set", "x", "--dry-run") == 2
    assert "'x' is not NAME=VALUE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], frozenset()),
        (["--retry", "failed"], {"failed"}),
        (["--retry", "lost", "--retry", "timed_out"], {"lost", "timed_out"}),
        (["--retry", "all"], {"failed", "timed_out", "lost"}),
    ],
)
def test_the_states_to_retry_and_the_objective_reach_the_sweep(
    space: Path, options: list[str], expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    class Stopped(Exception):  # noqa: N818
        pass

    def run_sweep(plan: PlannedSpace, **given: Any) -> None:
        seen.update(given, space=plan.space)
        raise Stopped

    monkeypatch.setattr("gridtune.study.run_sweep", run_sweep)
    with pytest.raises(Stopped):
        main(["sweep", str(space), *options, "--objective", "gain", "--set", "nap=0.1"])
    assert set(seen["retry_failed"]) == expected
    assert seen["space"].objective[0].metric == "gain"
    assert seen["space"].fixed == {"nap": 0.1}


def test_only_the_states_that_are_named_run_again(space: Path, tmp_path: Path) -> None:
    folder = finished_sweep(tmp_path / "results" / "toys", space)
    results = list(read_journal(folder / "journal.jsonl").values())
    with Journal(folder / "journal.jsonl") as journal:
        journal.append([replace(results[0], state="failed"), replace(results[1], state="lost")])
    ran = run_space(space, directory=folder, retry_failed={"lost"}, executor="inline")
    states: Mapping[str, int] = ran.counts
    assert (ran.ran, states["failed"], states["lost"]) == (1, 1, 0)
