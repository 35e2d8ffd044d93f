"""Nothing but a `GridtuneError` comes out of a reader: a little of what `scripts/fuzz` does for hours."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridtune.errors import GridtuneError
from tests.conftest import ROOT

from . import samples
from .mutations import mutated
from .readers import Reader, forget_environment, readers
from .run import Finding, fuzz, try_input

#: Inputs of each reader.
INPUTS = 30


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Reader]]:
    """All readers; the working directory is a folder of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "environ", os.environ.copy())
        forget_environment()
        folder = tmp_path_factory.mktemp("fuzzing")
        patch.chdir(folder)
        yield readers(folder)


def test_samples_are_read(every: dict[str, Reader]) -> None:
    # Mutations of what is refused anyway get no further than its fault.
    for reader in every.values():
        for sample in reader.samples:
            if isinstance(sample, bytes) and reader.vary is mutated:
                assert not reader.refuses(sample), f"{reader.name}: {sample!r}"
    for space in samples.SPACES:
        assert not every["space"].refuses(yaml.safe_dump(space).encode())
    for command in samples.COMMANDS:
        assert not every["command line"].refuses("\n".join(shlex.split(command)).encode()), command


def test_mutated_inputs_are_read_or_refused(every: dict[str, Reader]) -> None:
    findings = [
        outcome
        for reader in every.values()
        for outcome in (try_input(reader, seed) for seed in range(INPUTS))
        if isinstance(outcome, Finding)
    ]
    assert not findings, "\n".join(f"{one.reader} {one.seed}: {one.what}" for one in findings)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_inputs_that_hypothesis_makes_are_read_or_refused(
    every: dict[str, Reader], data: st.DataObject
) -> None:
    reader = every[data.draw(st.sampled_from(sorted(every)))]
    content = data.draw(
        st.one_of(
            st.binary(max_size=200),
            st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace")),
            st.randoms(use_true_random=False).map(lambda rng: reader.vary(rng, rng.choice(reader.samples))),
        )
    )
    reader.refuses(content)


def _raises(content: bytes) -> None:
    raise ZeroDivisionError


def _refuses(content: bytes) -> None:
    raise GridtuneError("no")


def _ends(content: bytes) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_faults_are_findings() -> None:
    made = {"raises": _raises, "refuses": _refuses, "reads": len}
    counts, findings = fuzz(
        {name: Reader(name, [b"x"], read) for name, read in made.items()}, inputs=30, seconds=600
    )
    assert sum(count.inputs for count in counts.values()) == 30
    assert counts["raises"].findings == len(findings) > 0
    assert counts["refuses"].refused == counts["refuses"].inputs
    assert findings[0].place.startswith("ZeroDivisionError at ")


def test_a_process_that_dies_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader("ends", [b"x"], _ends)
    monkeypatch.setattr("tests.fuzzing.run.try_input", _not_the_first)
    counts, findings = fuzz({"ends": reader}, inputs=1, seconds=600)
    assert counts["ends"].inputs == 1
    assert [finding.what for finding in findings] == ["the process ended by signal 9"]


def _not_the_first(reader: Reader, seed: int) -> bool | Finding:
    return False if seed < 0 else try_input(reader, seed)


@pytest.mark.integration
@pytest.mark.slow
def test_the_script_counts_and_ends_with_success(tmp_path: Path) -> None:
    command = [ROOT / "scripts" / "fuzz", "--inputs", "40", "--reader", "json", "--findings", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "json" in done.stdout
    assert (tmp_path / "counts.txt").read_text() in done.stdout + "\n"
