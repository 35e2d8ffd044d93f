"""The list of public files is well formed, its script compares readings, and the page shows the outcome."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path, PurePosixPath

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "site"))

import conformance_table  # noqa: E402

COUNTS = {"jobs", "work", "first", "last", "limits"}
WORKFLOW_COUNTS = {"tasks", "edges", "run", "critical_path"}
PLATFORM_COUNTS = {"nodes", "idle", "computing", "asleep", "on", "off"}
OTHERS = {"azure", "batsim-output", "bitbrains", "elastisim", "google", "gwf", "htcondor", "nextflow", "oar"}
JOBS = """; MaxProcs: 8
1 0 5 60 4 -1 -1 4 120 -1 1 1 -1 -1 -1 -1 -1 -1
2 10 0 30 2 -1 -1 2 -1 -1 1 1 -1 -1 -1 -1 -1 -1
"""
TASKS = """{"name": "x", "schemaVersion": "1.3", "workflow": {"tasks": [
 {"name": "a", "runtimeInSeconds": 2, "parents": [], "children": ["b"]},
 {"name": "b", "runtimeInSeconds": 3, "parents": ["a"], "children": []}]}}"""


@pytest.fixture(scope="module")
def groups() -> list[dict]:
    return yaml.safe_load((ROOT / "tests" / "workload" / "peers.yaml").read_text(encoding="utf-8"))


def test_the_list_names_files_of_many_repositories(groups):
    assert len(groups) >= 12
    assert [group["repository"] for group in groups] == sorted(
        {group["repository"] for group in groups}, key=str.lower
    )
    for group in groups:
        assert set(group) == {"repository", "commit", "files"}
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", group["repository"])
        assert re.fullmatch(r"[0-9a-f]{40}", group["commit"])
        paths = Counter(entry["path"] for entry in group["files"])
        assert max(paths.values()) == 1
        assert not any(PurePosixPath(path).is_absolute() or ".." in path for path in paths)


def test_each_file_has_counts_or_the_words_of_a_refusal(groups):
    entries = [entry for group in groups for entry in group["files"]]
    assert len(entries) >= 60
    for entry in entries:
        keys = set(entry) - {"path", "format", "options"}
        counts = {"jobs", "first", "last"} <= keys <= COUNTS
        assert counts or keys in ({"refused"}, WORKFLOW_COUNTS, PLATFORM_COUNTS), entry
        assert isinstance(entry.get("refused", []), list), entry
        assert entry["format"] in {*conformance_table.FORMATS, *OTHERS, "sge", "workflow"}, entry


def test_the_script_compares_the_files_of_a_folder(tmp_path):
    (tmp_path / "ours" / "logs").mkdir(parents=True)
    (tmp_path / "flows").mkdir()
    (tmp_path / "ours" / "logs" / "a.swf").write_text(JOBS)
    (tmp_path / "ours" / "logs" / "b.swf").write_text(JOBS)
    (tmp_path / "ours" / "logs" / "c.swf").write_text(JOBS.replace(" 60 ", " sixty "))
    (tmp_path / "flows" / "w.json").write_text(TASKS)
    right = {"format": "swf", "jobs": 2, "work": 300, "first": 0, "last": 10, "limits": 1}
    flow = {"format": "wfformat", "tasks": 2, "edges": 1, "run": 5.0, "critical_path": 5.0}
    files = [
        {"path": "a.swf", **right},
        {"path": "b.swf", **right, "jobs": 3},
        {"path": "c.swf", "format": "swf", "refused": ["'SIXTY'", "run_time"]},
        {"path": "d.swf", **right},
    ]
    listed = [
        {"repository": "ours/logs", "files": files},
        {"repository": "theirs/flows", "files": [{"path": "w.json", **flow}]},
    ]
    (tmp_path / "list.yaml").write_text(yaml.safe_dump(listed))
    command = [sys.executable, ROOT / "scripts" / "conformance", tmp_path, "--list", tmp_path / "list.yaml"]
    store = tmp_path / "out.csv"
    run = subprocess.run([*command, "--store", store], capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stderr
    assert "differs  ours/logs/b.swf  jobs got 2, expected 3\n" in run.stdout
    assert run.stdout.endswith("5 files: 1 differs, 1 missing, 2 read, 1 refused\n")
    with store.open(newline="") as file:
        outcomes = {row["path"]: row["outcome"] for row in csv.DictReader(file)}
    assert list(outcomes.values()) == ["read", "differs", "refused", "missing", "read"]
    run = subprocess.run([*command, "--only", "flows"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout.splitlines()[-1]) == (0, "1 files: 1 read")


def test_the_stored_outcomes_are_of_the_list(groups):
    stored = conformance_table.read_outcomes(ROOT / "docs" / "studies" / "conformance.csv")
    hint = "write them again: scripts/conformance FOLDER --store docs/studies/conformance.csv"
    assert set(stored) == {
        (group["repository"], entry["path"]) for group in groups for entry in group["files"]
    }, hint
    assert set(stored.values()) <= {"read", "refused", "differs"}, hint


def test_the_page_shows_the_stored_outcomes():
    page = ROOT / "docs" / "workloads.md"
    hint = "write it again: python scripts/site/conformance_table.py docs/workloads.md"
    assert page.read_text(encoding="utf-8") == conformance_table.fill_workloads(page), hint
