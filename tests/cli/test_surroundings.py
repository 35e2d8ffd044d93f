"""What a stranger's machine may lack: torch, permission to write, a free port, a way past the proxy."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gridtune.cli.main import _interrupt

#: Nothing listens on the port "discard".
NOBODY = "http://127.0.0.1:9"
SPACE = """\
name: mine
fixed: {trace: quickstart, first: 50}
dimensions: {order: [fcfs, sjf]}
objective: wait_mean
"""
TRAINING = """\
name: training
system: batch/ppo
fixed: {trace: quickstart}
dimensions: {learning_rate: [0.001, 0.01]}
objective: return_mean
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(SPACE)
    return tmp_path


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


@pytest.mark.parametrize("words", ["train batch trace=quickstart", "sweep training.yaml --dry-run"])
def test_without_torch_nothing_is_trained(
    folder: Path, gridtune, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    (folder / "training.yaml").write_text(TRAINING)
    monkeypatch.setitem(sys.modules, "torch", None)
    before = files(folder)
    code, out, err = gridtune(*words.split())
    assert (code, out) == (2, "")
    assert err == (
        "error: training needs torch, which is not installed\n  hint: pip install 'gridtune[agents]'\n"
    )
    assert files(folder) == before


def test_without_torch_everything_else_runs(gridtune, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert gridtune("simulate", "quickstart", "--first", "50")[0] == 0
    code, _, err = gridtune("sweep", "mine.yaml", "--no-tracking", "--quiet", "--executor", "inline")
    assert (code, err) == (0, "")


def test_a_package_that_cannot_be_imported_is_named(gridtune, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backend_bases", None)
    code, _, err = gridtune("simulate", "quickstart", "--plot", "load.png")
    assert code == 2
    assert err == (
        "error: matplotlib.backend_bases is not installed\n"
        "  hint: pip install 'matplotlib' brings it; gridtune doctor checks the installation\n"
    )


#: Runs commands in one process and prints what became of each.
COMMANDS = """
import contextlib, io, json, sys
from gridtune.cli.main import main
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words.split())
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([words, code, out.getvalue(), err.getvalue()]))
"""


def test_without_permission_to_write(folder: Path, gridtune) -> None:
    """Results of somebody else can be read; whatever writes says in a line that it cannot."""
    assert gridtune("sweep", "mine.yaml", "--no-tracking", "--quiet", "--executor", "inline")[0] == 0
    refused = {
        "sweep mine.yaml": ("results/mine", "--out"),
        "sweep mine.yaml --out other": ("other", "--out"),
        "report results/mine": ("results/mine", "copy it"),
        "results export results/mine --out best.yaml": (str(folder), "--out"),
        "init quickstart": (str(folder), "--out"),
        "simulate quickstart --out schedule.csv": (str(folder), "--out"),
        "simulate quickstart --plot load.png": (str(folder), "--plot"),
    }
    allowed = ("status results/mine", "results export results/mine", "simulate quickstart --first 50")
    for path in files(folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
    folder.chmod(0o555)
    before = files(folder)
    try:
        ended = run_without_privileges([*refused, *allowed])
    finally:
        folder.chmod(0o755)
    for words, (place, hint) in refused.items():
        code, out, err = ended[words]
        assert (code, out) == (2, ""), (words, err)
        assert err.startswith(
            f"error: {place}: nothing can be written into this folder: permission denied\n  hint: "
        ), words
        assert hint in err, words
    assert [ended[words][0] for words in allowed] == [0, 0, 0]
    assert files(folder) == before


def run_without_privileges(commands: list[str]) -> dict[str, tuple[int, str, str]]:
    """Run commands as somebody whom file modes bind: the superuser must give up a capability for that."""
    drop = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("the superuser may write everywhere, and there is no setpriv")
        drop = ["setpriv", "--bounding-set", "-dac_override", "--inh-caps", "-dac_override"]
    done = subprocess.run(
        [*drop, sys.executable, "-c", COMMANDS, json.dumps(commands)],
        capture_output=True,
        text=True,
        check=True,
    )
    return {words: (code, out, err) for words, code, out, err in map(json.loads, done.stdout.splitlines())}


def test_a_port_that_is_taken(gridtune, store_uri: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, err = gridtune("ui", "--tracking-uri", store_uri, "--port", str(port))
    assert code == 2
    assert err.startswith(f"error: cannot listen on 127.0.0.1:{port}: ")
    assert f"hint: try --port {port + 1}" in err


def behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, NOBODY)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "")


def test_a_download_past_a_proxy_that_is_away(
    gridtune, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    behind_a_proxy(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code, _, err = gridtune("traces", "fetch", "kth-sp2")
    assert code == 2
    first, hint = err.removesuffix("\n").split("\n")
    assert first.endswith(
        "the download failed: the proxy (HTTPS_PROXY or HTTP_PROXY) cannot be reached: connection refused"
    )
    assert "--mirror FOLDER" in hint


@pytest.mark.slow
@pytest.mark.integration
def test_a_sweep_on_ray_behind_a_proxy_and_beside_taken_ports(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    """Ray's own traffic stays on this machine, and no port of it is a fixed one."""
    behind_a_proxy(monkeypatch)
    with contextlib.ExitStack() as stack:
        for port in (8265, 6379):
            # Where somebody else has taken the port already, that serves as well.
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "gridtune",
                "sweep",
                "mine.yaml",
                "--workers",
                "1",
                "--no-tracking",
                "--json",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["done"] == 2


@pytest.mark.parametrize("words", ["traces list", "traces list --json", "sweep mine.yaml --no-tracking"])
def test_a_reader_that_closes_its_end_ends_the_command_quietly(words: str) -> None:
    command = [sys.executable, "-m", "gridtune", *words.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    # The library that prints tables ends a process with 1.
    assert process.returncode in (0, 1)


def test_an_interrupt_takes_back_the_alarm_that_would_abort_the_command() -> None:
    signal.alarm(600)
    with pytest.raises(KeyboardInterrupt):
        _interrupt(signal.SIGTERM, None)
    assert signal.alarm(0) == 0
