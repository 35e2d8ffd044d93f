"""Passwords and tokens in URIs reach no error, file, report or tag."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gridtune.cli.main import main
from gridtune.errors import GridtuneError, TrackingError, without_secrets
from gridtune.sweep.execution.status import STATUS_FILE, StatusFile
from gridtune.tracking.store import tracking_uri
from gridtune.tracking.tracker import MlflowTracker
from tests.cli.folders import quickstart

SECRET = "hunter2"
URIS = [
    ("postgresql://ann:hunter2@db:5432/mlflow", "postgresql://ann:***@db:5432/mlflow"),
    ("http://:hunter2@mlflow:5000", "http://:***@mlflow:5000"),
    ("http://ann:hunter2@5@mlflow:5000/x?y=1", "http://ann:***@mlflow:5000/x?y=1"),
    ("https://hunter2@mlflow", "https://***@mlflow"),
    ("s3://key:hunter2@bucket/run?region=x", "s3://key:***@bucket/run?region=x"),
    ("https://m/?a=1&access_token=hunter2&b=2", "https://m/?a=1&access_token=***&b=2"),
    ("https://s/log?X-Amz-Signature=hunter2&X-Amz-Date=1", "https://s/log?X-Amz-Signature=***&X-Amz-Date=1"),
    ("postgresql://db/x?sslkey=hunter2", "postgresql://db/x?sslkey=***"),
    ("s3://b/p?secret_key=hunter2", "s3://b/p?secret_key=***"),
]


@pytest.mark.parametrize(("uri", "shown"), URIS)
def test_secrets_are_replaced_by_stars(uri: str, shown: str) -> None:
    assert without_secrets(uri) == shown
    assert without_secrets(f"no answer from {uri}: timed out") == f"no answer from {shown}: timed out"
    assert without_secrets(uri) != uri
    assert without_secrets(shown) == shown
    assert SECRET not in str(GridtuneError(f"{uri} is away", hint=f"is {uri} right?"))


@pytest.mark.parametrize(
    "text", ["postgresql://ann@db/x", "sqlite:///mlflow.db", "a key=word", "file:///a/b?c=d"]
)
def test_what_is_no_secret_is_shown(text: str) -> None:
    assert without_secrets(text) == text
    assert without_secrets(text) == text


def test_a_wrong_tracking_uri_is_shown_without_its_password() -> None:
    with pytest.raises(TrackingError) as refused:
        tracking_uri("file://ann:hunter2@host/mlruns")
    assert SECRET not in str(refused.value)


@pytest.mark.integration
@pytest.mark.parametrize("uri", ["http://ann:hunter2@127.0.0.1:1/", "http://127.0.0.1:1/?token=hunter2"])
def test_a_sweep_leaves_no_secret_in_its_folder_or_on_the_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], uri: str
) -> None:
    monkeypatch.chdir(tmp_path)
    space = tmp_path / "small.yaml"
    space.write_text(json.dumps(quickstart(replicates={"windows": 2})))
    monkeypatch.setattr("gridtune.tracking.tracker.MlflowTracker", _impatient(uri))
    monkeypatch.setattr(sys, "argv", ["/usr/bin/gridtune", "sweep", str(space), "--tracking-uri", uri])
    with pytest.raises(SystemExit):
        main([*sys.argv[1:], "--executor", "inline"])
    captured = capfd.readouterr()
    assert SECRET not in captured.out + captured.err
    folder = tmp_path / "results" / "small"
    assert "***" in json.loads((folder / "sweep.json").read_text())["command"]
    for file in folder.rglob("*"):
        assert file.is_dir() or SECRET.encode() not in file.read_bytes(), file


def _impatient(uri: str) -> object:
    """Return trackers that do not wait for a store that is away."""

    def make(*arguments: object, **options: object) -> MlflowTracker:
        return MlflowTracker(uri, patience=0.0)

    return make


def test_the_status_of_a_driver_has_no_secret(tmp_path: Path) -> None:
    status = StatusFile()
    status._folder = tmp_path
    status.close("postgresql://ann:hunter2@db is away")
    assert SECRET not in (tmp_path / STATUS_FILE).read_text()
