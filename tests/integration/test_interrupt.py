"""Ctrl-C and a terminal that closes: what is done is kept, and the message says how to go on."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gridtune.sweep.journal.journal import read_journal
from tests.integration.processes import wait_for
from tests.integration.test_kill import command
from tests.sweep.spaces import toy_space

pytestmark = pytest.mark.integration

CELLS, NAP = 400, 0.05


@pytest.fixture
def heeds_interrupts() -> Iterator[None]:
    """Let what the test starts heed signals: in the background it would inherit that they are ignored."""
    before = (
        signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    yield
    for one, handler in zip((signal.SIGINT, signal.SIGHUP), before, strict=True):
        signal.signal(one, handler)


@pytest.mark.usefixtures("heeds_interrupts")
@pytest.mark.timeout(900)
@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGHUP])
def test_an_interrupted_sweep_says_what_is_kept(tmp_path: Path, how: signal.Signals) -> None:
    out, path = tmp_path / "out", tmp_path / "space.yaml"
    space = toy_space(fixed={"nap": NAP}, dimensions={"x": list(range(CELLS))}, replicates={"seeds": 1})
    path.write_text(yaml.safe_dump(space))
    journal = out / "journal.jsonl"
    # A session of its own: Ctrl-C goes to this process and those that it starts, not to the tests.
    with subprocess.Popen(
        command(path, out),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as driver:
        wait_for("the sweep", lambda: len(read_journal(journal)) >= 10)
        driver.send_signal(how)
        output, _ = driver.communicate(timeout=600)
    done = len(read_journal(journal))
    assert driver.returncode == 130, output
    assert 10 <= done < CELLS
    assert f"{done} of {CELLS} cells are done and kept in {out}" in output
    assert f"the same command runs the {CELLS - done} that are left" in output
    assert "Traceback" not in output
