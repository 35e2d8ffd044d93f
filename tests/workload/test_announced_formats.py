"""A format that an installed package announces works like one of gridtune's own."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from gridtune import registry
from gridtune.cli.traces import traces
from gridtune.errors import WorkloadError
from gridtune.workload import format_names, read_workload, read_workloads, write_workload
from gridtune.workload.formats import find_format
from gridtune.workload.formats.log import FORMATS

from .sample_logs import GOOD

STRANGER = """
from gridtune.workload.formats import Format
from gridtune.workload.formats.log import RawLog
import numpy as np

def read(stream, scale: int = 1):
    pairs = [line.split("-") for line in stream.read().decode().split()]
    submit, run = np.array(pairs, dtype=np.int64).T * scale
    return RawLog({"submit_time": submit, "run_time": run}, line_of=lambda row, field: row + 1)

def write(workload, file):
    for submit, run in zip(workload.submit_time, workload.run_time):
        file.write(f"{submit}-{run}\\n".encode())

FORMAT = Format("pairs", SUFFIX, read, write, "submit and run times")
"""


@pytest.fixture
def install(tmp_path, monkeypatch, registrations):
    """Return a function that puts a package with a format on the path, as installing it would."""

    def forget():
        registry._installed.cache_clear()
        registry._announced.cache_clear()
        FORMATS.__dict__.pop("entry_points", None)

    def add(package, target="FORMAT", suffix=".pairs", code=STRANGER):
        site = tmp_path / "site"
        information = site / f"{package}-1.0.dist-info"
        information.mkdir(parents=True)
        (site / f"{package}.py").write_text(code.replace("SUFFIX", repr(suffix)))
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (information / "entry_points.txt").write_text(f"[gridtune.formats]\npairs = {package}:{target}\n")
        monkeypatch.syspath_prepend(site)
        forget()

    yield add
    monkeypatch.undo()
    forget()


def test_a_format_of_an_installed_package(install, write_file, tmp_path):
    install("stranger_one")
    assert "pairs" in format_names()
    assert find_format("log.swf") is not None
    assert "stranger_one" not in sys.modules
    log = read_workload(write_file("log.pairs.gz", "1-20 5-9"))
    assert (log.name, log.submit_time.tolist(), log.run_time.tolist()) == ("log", [1, 5], [20, 9])
    assert read_workload(tmp_path / "log.pairs.gz", scale=3).run_time.tolist() == [60, 27]
    write_workload(log, tmp_path / "copy.pairs")
    assert (tmp_path / "copy.pairs").read_text() == "1-20\n5-9\n"
    assert {read.name for read in read_workloads(tmp_path)} == {"log", "copy"}
    with pytest.raises(WorkloadError, match="negative submit") as caught:
        read_workload(write_file("bad.pairs", "1-2 3-4"), clean=[], scale=-1)
    assert caught.value.line == 1


def test_formats_of_packages_are_listed_and_converted(install, write_file, tmp_path):
    install("stranger_two")
    write_file("log.pairs", "1-20")
    listing = CliRunner().invoke(traces, ["list", "--json"], catch_exceptions=False).output
    assert json.loads(listing)["formats"]["pairs"] == {"suffix": ".pairs", "summary": "submit and run times"}
    words = ["convert", str(tmp_path / "log.pairs"), str(tmp_path / "log.swf")]
    assert CliRunner().invoke(traces, words, catch_exceptions=False).exit_code == 0
    assert read_workload(tmp_path / "log.swf").run_time.tolist() == [20]


@pytest.mark.parametrize(
    ("package", "changes", "message"),
    [
        ("stranger_three", {"suffix": ".swf"}, "a format for '.swf' is registered already"),
        ("stranger_four", {"suffix": "pairs"}, "starts with a dot"),
        ("stranger_five", {"target": "read"}, "a format is a gridtune.workload.formats.Format"),
        ("stranger_six", {"code": "import not_there"}, "No module named 'not_there'"),
    ],
)
def test_a_faulty_package_is_named_and_spares_the_others(install, write_file, package, changes, message):
    install(package, **changes)
    assert len(read_workload(write_file("log.swf", GOOD))) == 1
    with pytest.raises(WorkloadError, match=message):
        read_workload(write_file("log.pairs", "1-20"))
