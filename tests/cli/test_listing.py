"""`gridtune list`, the groups of the help, and what the shell completes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from gridtune.batch.policies import queue_order_names
from gridtune.cli.main import RENAMED, cli
from gridtune.core.system import SYSTEMS, get_system


def output_of(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["list", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_metrics_of_a_system_come_with_unit_and_direction() -> None:
    rows = {row["name"]: row for row in json.loads(output_of("metrics", "batch", "--json"))}
    metrics = get_system("batch").metrics
    assert rows.keys() == metrics.keys()
    assert rows["utilisation"]["direction"] == metrics["utilisation"].direction == "max"
    assert rows["wait_mean"]["unit"] == "s"
    assert "wait_mean" in output_of("metrics", "batch")


def test_metrics_of_all_systems_are_listed() -> None:
    assert {row["system"] for row in json.loads(output_of("metrics", "--json"))} == set(SYSTEMS.names())


def test_orders_are_listed_with_their_parameters() -> None:
    rows = {row["name"]: row for row in json.loads(output_of("orders", "--json"))}
    assert list(rows) == [*queue_order_names(), "rollout"]
    assert rows["rollout"]["parameters"]["window"] == 64
    assert rows["wfp3"]["parameters"] == {"exponent": 3}
    assert "Shortest job first" in output_of("orders")


def test_spaces_here_are_listed_with_their_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "search_spaces").mkdir()
    space = "name: a\ndescription: What is best?\ndimensions: {order: [fcfs]}\nobjective: wait_mean\n"
    (tmp_path / "search_spaces" / "a.yaml").write_text(space)
    (tmp_path / "search_spaces" / "broken.yaml").write_text("name: [")
    rows = {row["name"]: row for row in json.loads(output_of("spaces", "batch", "--json"))}
    assert rows["search_spaces/a.yaml"]["description"] == "What is best?"
    assert rows["search_spaces/a.yaml"]["strategy"] == "grid"
    assert "not YAML" in rows["search_spaces/broken.yaml"]["description"]
    others = json.loads(output_of("spaces", "dispatch", "--json"))
    assert [row["name"] for row in others] == ["search_spaces/broken.yaml"]


def test_a_list_of_nothing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "search_spaces").mkdir()
    assert output_of("spaces", "batch").startswith("no search spaces")


def test_where_there_is_no_folder_of_spaces_our_own_are_listed_and_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = {row["name"]: row for row in json.loads(output_of("spaces", "batch", "--json"))}
    assert rows["search_spaces/quickstart.yaml"]["strategy"] == "grid"
    planned = CliRunner().invoke(cli, ["sweep", "search_spaces/quickstart.yaml", "--dry-run"])
    assert planned.exit_code == 0
    assert list(tmp_path.iterdir()) == []


def test_a_system_goes_with_metrics_and_spaces_only() -> None:
    result = CliRunner().invoke(cli, ["list", "orders", "batch"])
    assert result.exit_code == 2
    assert "SYSTEM goes with systems, metrics and spaces" in result.output


def test_every_command_is_in_a_group_of_the_help() -> None:
    text = CliRunner().invoke(cli, ["--help"]).output
    lines = text[text.index("Prepare:") :].splitlines()
    commands = [line.split()[0] for line in lines if line.startswith("  ") and line.split()]
    assert commands == cli.list_commands(None)  # type: ignore[arg-type]


def test_every_command_is_on_the_page_of_commands(repository: Path) -> None:
    page = (repository / "docs" / "commands.md").read_text()
    assert [name for name in cli.list_commands(None) if f"`{name}`" not in page] == []  # type: ignore[arg-type]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["gridtune", "trac"], ["traces"]),
        (["gridtune", "run", "bat"], ["batch"]),
        (["gridtune", "run", "batch", "back"], ["backfill="]),
        (["gridtune", "run", "batch", "order=fcfs", "or"], []),
        (["gridtune", "list", "metrics", "disp"], ["dispatch"]),
        (["gridtune", "results", "ex"], ["export"]),
        (["gridtune", "sweep", "batch/nothi"], []),
        (["gridtune", "report", "results/o"], ["results/one"]),
    ],
)
def test_bash_completes(words: list[str], expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "results" / "one").mkdir(parents=True)
    (tmp_path / "results" / "one" / "journal.jsonl").touch()
    program = tmp_path / "gridtune"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m gridtune "$@"\n')
    program.chmod(0o755)
    script = f"""
        source <({program} help completion bash)
        compopt() {{ :; }}   # needs a terminal
        COMP_WORDS=({" ".join(f"'{word}'" for word in words)}) COMP_CWORD={len(words) - 1}
        _gridtune_completion {program}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    paths = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": paths},
    )
    assert sorted(done.stdout.split()) == sorted(expected), done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str) -> None:
    result = CliRunner().invoke(cli, ["help", "completion", shell], catch_exceptions=False)
    assert "_GRIDTUNE_COMPLETE" in result.output


@pytest.mark.parametrize(("old", "new"), [(old, " ".join(new)) for old, new in RENAMED.items()])
def test_an_old_name_works_and_gives_the_new_one(old: str, new: str) -> None:
    """The options of both are the same, and the old name is in no list."""
    if old != "completion":
        result = CliRunner().invoke(cli, [old, "--help"])
        assert result.exit_code == 0
        assert result.stderr.splitlines() == [
            f"warning: `gridtune {old}` is `gridtune {new}` now; the old name works until version 0.3"
        ]
        shown = CliRunner().invoke(cli, [*new.split(), "--help"])
        assert result.stdout.partition("Options:")[2] == shown.stdout.partition("Options:")[2]
    assert old not in cli.list_commands(None)  # type: ignore[arg-type]
