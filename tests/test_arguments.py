"""Wrong types at the public functions: always gridtune's own error, which names the argument."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridtune as gt
from gridtune.arguments import require, require_number, require_path

LOG = Path(__file__).parents[1] / "traces" / "quickstart.swf.gz"
SPACE = {"name": "a", "objective": "wait_mean", "fixed": {"trace": "quickstart"}}


@pytest.fixture(scope="module")
def log() -> gt.Workload:
    return gt.read_workload(LOG).first(50)


#: What is called, and what the message begins with.
CALLS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "simulate a path": (lambda log: gt.simulate("kth.swf"), "workload must be a Workload"),
    "simulate nothing": (lambda log: gt.simulate(None), "workload must be a Workload, but got None"),
    "order": (lambda log: gt.simulate(log, order=5), "a queue order must be a str"),
    "processors": (lambda log: gt.simulate(log, processors="many"), "processors must be a whole number"),
    "half a processor": (lambda log: gt.simulate(log, processors=2.5), "processors must be a whole number"),
    "noise": (lambda log: gt.simulate(log, walltime="noise", noise="a"), "noise must be a number"),
    "rng": (lambda log: gt.simulate(log, order="random", rng=7), "rng must be a Generator"),
    "evaluate": (gt.evaluate, "schedule must be a Schedule"),
    "validate": (gt.validate_schedule, "schedule must be a Schedule"),
    "clean": (lambda log: gt.clean("kth.swf"), "workload must be a Workload"),
    "read": (lambda log: gt.read_workload(5), "path must be a path, but got 5"),
    "write what": (lambda log: gt.write_workload("x", "x.swf"), "workload must be a Workload"),
    "write where": (lambda log: gt.write_workload(log, 5), "path must be a path"),
    "system": (lambda log: gt.run_cell(5, {}), "a system must be a str"),
    "parameters": (lambda log: gt.run_cell("batch", "trace=x"), "parameters must be a Mapping"),
    "seed": (lambda log: gt.run_cell("batch", SPACE["fixed"], seed="a"), "seed must be a whole number"),
    "register": (lambda log: gt.register_system("mine"), "'mine' is no system"),
    "space": (lambda log: gt.run_sweep(5), "a search space is a path"),
    "list as space": (lambda log: gt.run_sweep([1]), "a search space is a path"),
    "load a mapping": (lambda log: gt.load_space({}), "a search space's file must be a path"),
    "workers": (lambda log: gt.run_sweep(SPACE, workers="two", tracking=False), "workers must be"),
    "no workers": (lambda log: gt.run_sweep(SPACE, workers=0, tracking=False), "workers must be"),
    "output": (lambda log: gt.run_sweep(SPACE, output="loud"), "output must be one of"),
    "decorator without name": (lambda log: gt.queue_order(lambda job: 1.0), "the name of a queue order"),
    "first": (lambda log: log.first("ten"), "the number of jobs must be a whole number"),
    "windows": (lambda log: log.windows("ten"), "the number of windows must be a whole number"),
    "load": (lambda log: log.scale_load("a lot"), "a scaling factor must be"),
    "run time": (lambda log: log.scale_run_time(None), "a scaling factor must be"),
    "shake": (lambda log: log.shake(0.5, np.random.default_rng(0)), "the amount to shake by is"),
}


@pytest.mark.parametrize("what", CALLS)
def test_a_wrong_type_is_named(what: str, log: gt.Workload, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    call, words = CALLS[what]
    with pytest.raises(gt.GridtuneError) as caught:
        call(log)
    assert str(caught.value).startswith(words)
    assert list(tmp_path.iterdir()) == []


def test_numpy_numbers_are_numbers(log: gt.Workload) -> None:
    require_number(np.int64(3), "n", whole=True, least=3)
    require_number(np.float32(0.5), "x")
    assert len(gt.simulate(log, processors=np.int64(256))) == 50  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [True, float("nan"), float("inf"), "3", None, 2.5, 0])
def test_what_is_no_whole_number_of_at_least_one(value: Any) -> None:
    with pytest.raises(gt.GridtuneError, match="n must be a whole number of at least 1, but got"):
        require_number(value, "n", whole=True, least=1)


def test_what_is_right_is_returned() -> None:
    assert require("a", str, "word") == "a"
    require_path(Path(), "folder")


def test_a_long_value_is_not_spelt_out() -> None:
    with pytest.raises(gt.GridtuneError, match=r"a value of type list$"):
        require(list(range(1000)), str, "word")


def test_a_log_is_read_by_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert gt.read_workload("quickstart").checksum == gt.read_workload(LOG).checksum
    with pytest.raises(gt.GridtuneError, match="did you mean 'quickstart'"):
        gt.read_workload("quickstar")
