"""Shards: a division of cells that needs no talk, and journals that become one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gridtune.errors import SweepError
from gridtune.sweep import shards
from gridtune.sweep.journal.journal import Journal, read_journal
from gridtune.sweep.remote.results import SweepView
from gridtune.sweep.run import run_space, space_cells
from gridtune.sweep.shards import Shard, ShardFacts, merge_journals, missing_shards
from gridtune.sweep.space.plan import plan_space
from tests.sweep.spaces import toy_space


@pytest.mark.parametrize("count", [1, 3, 5, 20])
def test_shards_are_disjoint_even_and_everything(count: int) -> None:
    cells = space_cells(toy_space())
    parts = [Shard(number, count).cells(cells) for number in range(1, count + 1)]
    ids = [cell.cell_id for part in parts for cell in part]
    assert sorted(ids) == sorted(cell.cell_id for cell in cells)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    # The order of a space says nothing about who runs what.
    assert [cell.cell_id for cell in Shard(1, count).cells(cells[::-1])] == [
        cell.cell_id for cell in parts[0][::-1]
    ]


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "1/0", "-1/4", "1/4/2", "one/2"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(SweepError, match="is no shard"):
        Shard.parse(text)


def test_cells_that_depend_on_results_cannot_be_divided() -> None:
    strategy = {"optuna": {"trials": 4}}
    plan = plan_space(toy_space(strategy=strategy, dimensions={"x": [0, 1, 2, 3]}, replicates={"seeds": 8}))
    with pytest.raises(SweepError, match="cannot be divided"):
        Shard(1, 2).check(plan.space)


def shard_of(space: dict[str, object], text: str, out: Path) -> Path:
    run_space(space, directory=out, shard=Shard.parse(text), executor="inline")
    return out


def views(*folders: Path) -> list[SweepView]:
    return [SweepView(folder, folder, None) for folder in folders]


def test_a_contradiction_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    space = toy_space(dimensions={"x": [1, 2]}, replicates={"seeds": 1})
    one, two = (shard_of(space, "1/1", tmp_path / name) for name in ("one", "two"))
    assert merge_journals(views(one, two), tmp_path / "same") == 2
    result = next(iter(read_journal(two / "journal.jsonl").values()))
    with Journal(two / "journal.jsonl") as journal:
        journal.append([replace(result, metrics={**result.metrics, "loss": 7.0})])
    with pytest.raises(SweepError, match=rf"{two} contradict.*{result.cell_id} \(.*has loss .* and 7.0"):
        merge_journals(views(one, two), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_failure_gives_way_to_a_result(tmp_path: Path) -> None:
    space = toy_space(dimensions={"x": [1]}, replicates={"seeds": 1})
    one, two = (shard_of(space, "1/1", tmp_path / name) for name in ("one", "two"))
    (result,) = read_journal(one / "journal.jsonl").values()
    for folder in (one, two):
        failed = replace(result, state="failed", metrics={}, error="no memory")
        with Journal(folder / "journal.jsonl") as journal:
            journal.append([failed] if folder == one else [failed, result])
    for folders in ([one, two], [two, one]):
        out = tmp_path / folders[0].name / "merged"
        merge_journals(views(*folders), out)
        assert read_journal(out / "journal.jsonl") == {result.cell_id: result}


def test_shards_that_are_missing_or_do_not_fit_are_named(tmp_path: Path) -> None:
    space = toy_space(dimensions={"x": [1, 2]}, replicates={"seeds": 2})
    folders = [shard_of(space, f"{number}/4", tmp_path / str(number)) for number in (1, 3)]
    assert missing_shards(views(*folders)) == ["2/4", "4/4"]
    assert missing_shards(views(tmp_path)) == []
    with pytest.raises(SweepError, match="divide a sweep differently"):
        missing_shards(views(*folders, shard_of(space, "2/2", tmp_path / "half")))
    wider = shard_of(
        toy_space(dimensions={"x": [1, 2, 3]}, replicates={"seeds": 2}), "2/4", tmp_path / "wide"
    )
    with pytest.raises(SweepError, match=r"another sweep.*6 and 4 in all"):
        missing_shards(views(*folders, wider))
    with pytest.raises(SweepError, match="is that of shard 1/4, not of 2/4"):
        shard_of(space, "2/4", folders[0])
    (folders[0] / "shard.json").write_text("[]")
    with pytest.raises(SweepError, match="is not what a shard writes"):
        ShardFacts.read(folders[0])


def test_a_sweep_that_ends_while_others_are_merged_into_it_keeps_its_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = toy_space(dimensions={"x": [1]}, replicates={"seeds": 1})
    one, out = shard_of(space, "1/1", tmp_path / "one"), tmp_path / "out"
    (result,) = read_journal(one / "journal.jsonl").values()
    with Journal(one / "journal.jsonl") as journal:
        journal.append([replace(result, state="failed", metrics={}, error="no memory")])

    def open_late(path: Path, **options: object) -> Journal:
        with Journal(path) as journal:
            journal.append([result])
        return Journal(path)

    monkeypatch.setattr(shards, "Journal", open_late)
    assert merge_journals(views(one), out) == 0
    assert read_journal(out / "journal.jsonl") == {result.cell_id: result}


def test_a_folder_is_a_shards_only_for_who_has_its_journal(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.jsonl"), pytest.raises(SweepError, match="is writing"):
        shard_of(toy_space(), "1/2", tmp_path)
    assert ShardFacts.read(tmp_path) is None
