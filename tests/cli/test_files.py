"""Files and folders that cannot be written are told in a line, before any work is done for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gridtune.cli.main import main
from gridtune.errors import SweepError
from gridtune.sweep.journal.disk import check_writable
from gridtune.sweep.space.plan import Workloads

SPACE = "name: files\nfixed: {trace: quickstart, first: 50}\nobjective: wait_mean\n"


def refused(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(list(args))
    err = capsys.readouterr().err
    assert ended.value.code == 2, err
    assert "Traceback" not in err
    return str(err)


@pytest.mark.parametrize("out", ["/proc/x", "file/results"])
def test_a_sweep_asks_for_its_folder_before_it_reads_traces(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "space.yaml").write_text(SPACE)
    monkeypatch.setattr(Workloads, "load", lambda *_: pytest.fail("a trace was read"))
    message = refused(capsys, "sweep", "space.yaml", "--no-tracking", "--quiet", "--out", out)
    assert message.startswith(f"error: {out}: nothing can be written into this folder: ")
    assert "hint: give another with --out" in message


def test_asking_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not even for a moment: an array job's tasks ask for folders side by side, all at once.
    monkeypatch.setattr(os, "mkdir", lambda *_: pytest.fail("a folder was made"))
    check_writable(tmp_path / "deep" / "er")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    with pytest.raises(SweepError, match="no such file"):
        check_writable(tmp_path / "nowhere")
    (tmp_path / "nowhere").unlink()
    (tmp_path / "file").write_text("kept")
    with pytest.raises(SweepError, match="not a directory"):
        check_writable(tmp_path / "file" / "results")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("option", ["--plot", "--gantt"])
@pytest.mark.parametrize(("name", "words"), [("x.xyz", "suffix '.xyz'"), ("x", "without suffix")])
def test_a_figures_suffix_is_checked_before_the_log_is_read(
    option: str, name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(capsys, "simulate", "no-such-log", option, name)
    assert words in message
    assert "no-such-log" not in message


def test_what_the_system_refuses_is_told_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    out = str(tmp_path / "file" / "schedule.parquet")
    message = refused(capsys, "simulate", "quickstart", "--first", "20", "--out", out)
    assert message.startswith("error: ")
    assert str(tmp_path / "file") in message
