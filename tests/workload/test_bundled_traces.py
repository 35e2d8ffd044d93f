"""The bundled traces are what their README says, and its commands make them again."""

from __future__ import annotations

import gzip
import hashlib
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from gridtune.cli.traces import traces
from gridtune.systems.shutdown.simulator.platform import TRACES
from gridtune.workload import read_workload
from gridtune.workload.catalogue import bundled_traces
from gridtune.workload.describe import offered_load

COMMAND = re.compile(r"^gridtune traces (generate \w+ traces/(\w+)\.swf\.gz .*)$", re.MULTILINE)
SUMS = re.compile(r"^\| `(\w+)\.swf\.gz` \| `([0-9a-f]{64})` \| `([0-9a-f]{64})` \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def readme(repository: Path) -> str:
    return (repository / "traces" / "README.md").read_text(encoding="utf-8")


def test_readme_names_every_trace(readme: str) -> None:
    there = set(bundled_traces())
    days = {f"{cluster}_days" for cluster in TRACES}
    assert there == {"quickstart", "sessions", "mm4", "egee"} | days
    assert {name for _, name in COMMAND.findall(readme)} == there
    assert {name for name, _, _ in SUMS.findall(readme)} == there


def test_checksums_and_sizes(readme: str) -> None:
    for name, of_file, of_content in SUMS.findall(readme):
        path = bundled_traces()[name]
        assert path.stat().st_size < 200_000
        assert hashlib.sha256(path.read_bytes()).hexdigest() == of_file
        assert read_workload(path).checksum == of_content


@pytest.mark.parametrize("name", ["quickstart", "sessions", "mm4", "egee", "taurus_days", "econome_days"])
def test_commands_make_the_same_bytes(name: str, readme: str, tmp_path: Path) -> None:
    command = next(command for command, made in COMMAND.findall(readme) if made == name)
    target = tmp_path / f"{name}.swf.gz"
    words = [str(target) if word.startswith("traces/") else word for word in shlex.split(command)]
    result = CliRunner().invoke(traces, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    # The compressed bytes depend on the zlib that Python was built with.
    assert gzip.decompress(target.read_bytes()) == gzip.decompress(bundled_traces()[name].read_bytes())


def test_loads_are_as_advertised() -> None:
    loads = {name: offered_load(read_workload(path)) for name, path in bundled_traces().items()}
    assert loads["quickstart"] == pytest.approx(0.85, rel=0.01)
    assert loads["sessions"] == pytest.approx(0.8, rel=0.01)
    assert loads["egee"] == pytest.approx(0.56, rel=0.01)
    # Poisson: the load of the distributions; standard error of the sample about 1.4 %.
    assert loads["mm4"] == pytest.approx(0.7, rel=0.05)
