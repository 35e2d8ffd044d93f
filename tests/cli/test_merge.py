"""`gridtune sweep --shard` and `gridtune results merge`: the same tables as the undivided sweep."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from gridtune.cli.main import main
from tests.sweep.spaces import content, toy_space


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    return int(ended.value.code or 0)


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "toys.yaml"
    changes = {"baseline": {"word": "a"}, "resources": {"executor": "inline"}}
    path.write_text(yaml.safe_dump(toy_space(dimensions={"x": [0, 1, 2], "word": ["a", "b"]}, **changes)))
    return path


def test_shards_together_are_the_undivided_sweep(space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("sweep", space, "--no-tracking", "--out", "whole", "--quiet") == 0
    for number in (1, 2, 3):
        assert run("sweep", space, "--shard", f"{number}/3") == 0
    assert "shard 3/3: 4 cells (4 done) in results/toys/shards/3-of-3" in capsys.readouterr().out
    shards = sorted(Path("results/toys/shards").iterdir())
    merge = ["results", "merge", *shards, "--out", "results/toys", "--no-tracking", "--json"]
    assert run(*merge) == 0
    assert json.loads(capsys.readouterr().out)["done"] == 12
    tables = [pq.read_table(f"{folder}/results.parquet") for folder in ("whole", "results/toys")]
    assert content(tables[0]) == content(tables[1])
    rankings = [sorted(Path(folder).glob("ranking*.csv")) for folder in ("whole", "results/toys")]
    assert [path.name for path in rankings[0]] == [path.name for path in rankings[1]] != []
    assert [path.read_text() for path in rankings[0]] == [path.read_text() for path in rankings[1]]
    # Once more changes nothing.
    assert run(*merge) == 0
    capsys.readouterr()
    assert run("sweep", space, "--shard", "1/3", "--out", "first") == 0
    assert "gridtune results merge . --out FOLDER" in capsys.readouterr().out


def test_missing_shards_are_named(space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("sweep", space, "--shard", "2/3", "--quiet") == 0
    assert (
        run("results", "merge", "results/toys/shards/2-of-3", "--out", "results/toys", "--no-tracking") == 1
    )
    said = capsys.readouterr().err
    assert "8 of 12 cells are missing, those of shards 1/3, 3/3 among them" in said
    assert f"gridtune sweep {space} --out results/toys" in said
    assert not Path("results/toys/results.parquet").exists()
    # The command that was named does it.
    assert run("sweep", space, "--out", "results/toys", "--no-tracking", "--json") == 0
    assert json.loads(capsys.readouterr().out)["ran"] == 8


def test_folders_of_other_spaces_are_refused(space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("sweep", space, "--shard", "1/2", "--quiet") == 0
    assert run("sweep", space, "--set", "word=a", "--shard", "2/2", "--quiet") == 0
    both = [f"results/toys/shards/{number}-of-2" for number in (1, 2)]
    assert run("results", "merge", *both, "--out", "merged", "--no-tracking") == 2
    assert "is a sweep of another search space than" in capsys.readouterr().err
    assert run("sweep", space, "--shard", "1/2", "--tracking-uri", "sqlite:///x.db") == 2
    assert run("sweep", space, "--shard", "1/2", "--dry-run") == 2
