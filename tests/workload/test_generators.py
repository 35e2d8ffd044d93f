"""Every generator: same bits for the same seed, sound columns, clear refusals."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from gridtune.cli.main import cli
from gridtune.errors import WorkloadError
from gridtune.workload.describe import offered_load
from gridtune.workload.generators import (
    GENERATORS,
    generate_workload,
    generator,
    generator_names,
    parse_parameters,
)
from gridtune.workload.generators.draws import check_range

NAMES = ("egee", "grid5000", "lublin", "poisson", "sessions")


def test_names() -> None:
    assert generator_names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_columns_are_sound(name: str) -> None:
    workload = generate_workload(name, jobs=3000, seed=3)
    assert len(workload) == 3000
    assert (np.diff(workload.submit_time) >= 0).all()
    assert workload.submit_time[0] >= 0
    assert (workload.run_time >= 1).all()
    assert (workload.requested_time >= workload.run_time).all()
    assert (workload.processors >= 1).all()
    assert (workload.processors <= workload.machine_processors).all()
    assert np.array_equal(workload.job_id, np.arange(1, 3001))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_few_jobs(name: str, jobs: int) -> None:
    assert len(generate_workload(name, jobs=jobs, seed=0)) == jobs


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_bits(name: str) -> None:
    first = generate_workload(name, jobs=2000, seed=11)
    again = generate_workload(name, jobs=2000, seed=11)
    other = generate_workload(name, jobs=2000, seed=12)
    assert first.checksum == again.checksum
    assert first.checksum != other.checksum
    assert not np.array_equal(first.run_time, other.run_time)


def test_same_bits_in_another_process() -> None:
    code = (
        "from gridtune.workload.generators import generate_workload as g\n"
        f"print(*[g(name, jobs=500, seed=5).checksum for name in {NAMES!r}])"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = [generate_workload(name, jobs=500, seed=5).checksum for name in NAMES]
    assert there.stdout.split() == here


@pytest.mark.parametrize("name", ["lublin", "sessions"])
def test_load_moves_arrivals_alone(name: str) -> None:
    low = generate_workload(name, jobs=3000, seed=2, load=0.5)
    high = generate_workload(name, jobs=3000, seed=2, load=1.0)
    for column in ("run_time", "requested_time", "processors", "user"):
        assert np.array_equal(np.sort(getattr(low, column)), np.sort(getattr(high, column)))
    assert np.ptp(low.submit_time) == pytest.approx(2 * np.ptp(high.submit_time), rel=1e-3)


@pytest.mark.parametrize("load", [0.3, 0.85, 1.2])
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("lublin", {}),
        ("lublin", {"population": "all", "processors": 100}),
        ("lublin", {"population": "mixed", "processors": 338}),
        ("sessions", {}),
        ("sessions", {"processors": 32, "users": 5}),
    ],
)
def test_load_is_hit_within_one_per_cent(name: str, parameters: dict[str, Any], load: float) -> None:
    workload = generate_workload(name, jobs=4000, seed=1, load=load, **parameters)
    assert offered_load(workload) == pytest.approx(load, rel=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_show_describes_every_parameter_with_its_default(name: str) -> None:
    shown = CliRunner().invoke(cli, ["traces", "generate", name, "--show"], catch_exceptions=False).output
    described, _, defaults = shown.partition("\nDefaults: ")
    for parameter, default in GENERATORS.find(name).defaults.items():
        assert re.search(rf"^(\w+, )*{parameter}(, \w+)*$", described, re.MULTILINE), parameter
        assert f"{parameter}={default}" in defaults.split()


def test_header_holds_the_command() -> None:
    workload = generate_workload("lublin", jobs=10, seed=4, load=0.7)
    (note,) = workload.header["Note"]
    words = note.split()
    assert words[:4] == ["gridtune", "traces", "generate", "lublin"]
    again = generate_workload("lublin", **parse_parameters("lublin", words[5:]))
    assert again.checksum == workload.checksum


@pytest.mark.parametrize(
    ("name", "parameters", "fault"),
    [
        ("lublin", {"jobs": 0}, "jobs: must be greater than or equal to 1, got 0"),
        ("lublin", {"jobs": 1.5}, "jobs: must be a valid integer, got 1.5"),
        ("lublin", {"seed": -1}, "seed: must be greater than or equal to 0"),
        ("lublin", {"processors": 8}, "processors: must be at least 16, got 8"),
        ("lublin", {"population": "mixed", "processors": 32}, "processors: must be at least 64"),
        ("lublin", {"population": "students"}, "no population is named 'students'"),
        ("lublin", {"load": 0.0}, "load: must be greater than 0"),
        ("lublin", {"load": float("nan")}, "load: must be a finite number"),
        ("lublin", {"load": 0.8, "jobs": 1}, "at least two jobs"),
        ("lublin", {"load": "high"}, "load: must be a valid number, got 'high'"),
        ("lublin", {"laod": 0.8}, "did you mean 'load'?"),
        ("lublin", {"users": 0}, "users: must be at least 1"),
        ("lublin", {"estimates": "guess"}, "no model of estimates is named 'guess'"),
        ("poisson", {"load": -1.0}, "load: must be greater than 0"),
        ("poisson", {"mean_run_time": 5.0}, "mean_run_time: must be at least 100"),
        ("poisson", {"mean_run_time": 1000.0, "processors": 64}, "mean gap between jobs would be"),
        ("poisson", {"service": "gamma"}, "no service is named 'gamma'"),
        ("sessions", {"batch_tail": 0.1}, "batch_tail: must be at least 0.5"),
        ("sessions", {"night": 0.0}, "night: must be greater than 0"),
        ("sessions", {"jobs": 20, "load": 90.0, "batches_per_session": 50.0}, "too few jobs for this load"),
        ("sessions", {"longest_run_time": 10}, "longest_run_time: must be at least 3600"),
        ("lublim", {}, "did you mean 'lublin'?"),
    ],
)
def test_bad_parameters_are_refused(name: str, parameters: dict[str, Any], fault: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        generate_workload(name, **{"jobs": 100, "seed": 1, **parameters})
    assert fault in str(caught.value).replace("field ", "")


def test_bounds_are_allowed_but_for_open_ones() -> None:
    for value in (0.0, 10.0):
        check_range("users", value, 0.0, 10.0)
    check_range("load", 1e-9, above=0.0)
    for value, fault in ((-0.1, "at least 0"), (10.1, "at most 10"), (math.inf, "a finite number")):
        with pytest.raises(WorkloadError, match=fault):
            check_range("users", value, 0.0, 10.0)
    with pytest.raises(WorkloadError, match="greater than 0"):
        check_range("load", 0.0, above=0.0)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("jobs", "not of the form key=value"),
        ("jobs=many", "must be a valid integer, .*got 'many'"),
        ("load=0.5x", "must be a valid number, .*got '0.5x'"),
        ("job=5", "did you mean 'jobs'?"),
    ],
)
def test_bad_texts_are_refused(text: str, fault: str) -> None:
    with pytest.raises(WorkloadError, match=fault.replace("?", r"\?")):
        parse_parameters("lublin", [text])


def test_texts_become_parameters() -> None:
    parameters = parse_parameters("lublin", ["jobs=5", "load=1", "population=all"])
    assert parameters == {"jobs": 5, "load": 1.0, "population": "all"}
    assert isinstance(parameters["load"], float)
    with pytest.raises(WorkloadError, match="given twice"):
        parse_parameters("lublin", ["jobs=5", "jobs=6"])


@pytest.mark.usefixtures("registrations")
def test_own_generators() -> None:
    @generator("ticks")
    def ticks(*, jobs: int, seed: int, processors: int = 2, gap: int = 10) -> dict[str, Any]:
        """Make one job every few seconds."""
        return {"submit_time": gap * np.arange(jobs), "run_time": np.full(jobs, 1 + seed)}

    assert "ticks" in generator_names()
    assert GENERATORS.find("ticks").summary == "Make one job every few seconds."
    workload = generate_workload("ticks", jobs=3, seed=4, gap=7)
    assert workload.submit_time.tolist() == [0, 7, 14]
    assert workload.run_time.tolist() == [5, 5, 5]
    assert workload.machine_processors == 2
    generator("ticks")(ticks)

    def other(*, jobs: int, seed: int, processors: int = 2) -> dict[str, Any]:
        return {}

    with pytest.raises(WorkloadError, match="registered already"):
        generator("ticks")(other)
    with pytest.raises(WorkloadError, match="does not fit"):
        generator("tocks")(lambda *, jobs, seed: {})
