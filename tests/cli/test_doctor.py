"""`gridtune doctor`: a sound installation is well; what is broken is found and said."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import gridtune
from gridtune.cli.main import main


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "RAY_ADDRESS", "GRIDTUNE_TRACE_DIR"):
        monkeypatch.delenv(name, raising=False)


def examined(
    capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--json", *options])
    content = json.loads(capsys.readouterr().out)
    assert content["sound"] == (not ended.value.code)
    by_check: dict[str, list[dict[str, Any]]] = {}
    for finding in content["findings"]:
        by_check.setdefault(finding["check"], []).append(finding)
    return int(ended.value.code or 0), by_check


def levels(findings: list[dict[str, Any]]) -> set[str]:
    return {finding["level"] for finding in findings}


def text(findings: list[dict[str, Any]]) -> str:
    return "; ".join(
        f"{finding['message']} {finding['hint']}" for finding in findings if finding["level"] != "ok"
    )


def test_a_sound_installation_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    code, findings = examined(capsys)
    assert code == 0, findings
    checks = [
        "Python",
        "plug-ins",
        "kernels",
        "Ray",
    ]
    assert list(findings) == checks
    assert not Path("results").exists()
    with pytest.raises(SystemExit) as ended:
        main(["doctor"])
    assert not ended.value.code
    assert "batch kernels" in capsys.readouterr().out


def test_what_needs_an_extra_that_is_not_wanted_is_no_fault(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Once the package `importlib_metadata` has been imported, entry points are of its class.
    (kind,) = {type(point) for point in metadata.entry_points(group="gridtune.networks")}
    load = kind.load

    def loaded(point: metadata.EntryPoint) -> object:
        if point.group == "gridtune.networks":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        return load(point)

    monkeypatch.setattr(kind, "load", loaded)
    _, findings = examined(capsys)
    assert levels(findings["plug-ins"]) == {"ok"}
    assert findings["plug-ins"][-1]["message"].endswith("1 are of the extra `agents`")


def test_a_plug_in_that_cannot_be_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_orders.py").write_text("raise RuntimeError('no luck')\n")
    information = tmp_path / "broken_orders-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-orders\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[gridtune.orders]\nmine = broken_orders\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    code, findings = examined(capsys)
    assert code == 1
    assert "gridtune.orders mine cannot be imported: RuntimeError: no luck" in text(findings["plug-ins"])
    assert "broken-orders" in text(findings["plug-ins"])


def test_the_address_of_a_cluster(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    code, findings = examined(capsys)
    assert code == 0
    assert "sweeps join the cluster at ray://head:10001" in findings["Ray"][0]["message"]


@pytest.mark.integration
@pytest.mark.slow
def test_ray_is_tried(capsys: pytest.CaptureFixture[str]) -> None:
    code, findings = examined(capsys, "--full")
    assert code == 0, findings
    assert "ran a task in process" in findings["Ray"][0]["message"]


@pytest.mark.slow
def test_kernels_are_made_for_an_installation(tmp_path: Path) -> None:
    """It runs one cell here; a copy of the package then compiles nothing for a user with an empty cache."""
    package = tmp_path / "elsewhere" / "gridtune"
    shutil.copytree(Path(gridtune.__file__).parent, package, ignore=shutil.ignore_patterns("kernels"))
    (package / "cli" / "kernels.yaml").write_text(
        "files: {}\ncells: {gangs: [[1, {drawn_jobs: 40}], [1, {}]]}\n"
    )
    (package / "kernels").mkdir()
    (package / "kernels" / "old.nbi").write_text("")
    os.utime(package / "kernels" / "old.nbi", (0, 0))

    def run(*command: str, cache: str = os.environ.get("NUMBA_CACHE_DIR", "")) -> str:
        environment = {**os.environ, "PYTHONPATH": str(package.parent), "NUMBA_CACHE_DIR": cache}
        command = (sys.executable, *command)
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    use = (
        "from gridtune.core.compiled import telling_of_compilation\n"
        "from gridtune.sweep.execution.runner import run_cell\n"
        "with telling_of_compilation(lambda: print('compiling')):\n"
        "    run_cell('gangs', {'drawn_jobs': 50}, seed=1)"
    )
    assert run("-c", use, cache=str(tmp_path / "before")) == "compiling\n"
    for _ in range(2):  # the second finds all
        assert str(package) in run("-m", "gridtune", "doctor", "--kernels")
    assert not (package / "kernels" / "old.nbi").exists()
    assert run("-c", use, cache=str(tmp_path / "empty")) == ""
