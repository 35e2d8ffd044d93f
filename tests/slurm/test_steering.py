"""A steered queue: the decisions, the faults of Slurm and of the steerer, and their undoing."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtune.errors import SimulationError
from gridtune.slurm import steering
from gridtune.slurm.configuration import read_cluster
from gridtune.slurm.replay import ClusterState, queue_order, replay
from gridtune.slurm.requests import Request
from gridtune.slurm.steering import _new_priorities, _Standing, steer

HERE = Path(__file__).parent / "steering"
CONF = """\
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PriorityType=priority/multifactor
PriorityWeightAge=1000
NodeName=n[1-2] CPUs=4
PartitionName=main Nodes=n[1-2] Default=YES MaxTime=INFINITE
PartitionName=other Nodes=n[1-2] MaxTime=INFINITE
"""
#: The clock of the tests: Slurm's and the steerer's.
NOW = 1_767_571_200
ROLLOUT = "rollout(objective=index, moves=60, window_by=orders, backlog=100, arrivals=5)"


def told(number):
    return {"set": number is not None, "infinite": False, "number": number or 0}


def job(number, *, minutes=60, cpus=1, waited=100, base=1000, state="PENDING", nodes="", **more):
    """Return a job as squeue prints it."""
    return {
        "job_id": number,
        "job_state": [state],
        "state_reason": "Priority",
        "priority": told(base),
        "base": base,
        "nice": 0,
        "partition": "main",
        "user_name": "ann",
        "account": "",
        "qos": "",
        "submit_time": told(NOW - waited),
        "eligible_time": told(NOW - waited),
        "start_time": told(NOW - 50),
        "time_limit": told(minutes),
        "cpus": told(cpus),
        "node_count": told(1),
        "memory_per_cpu": told(None),
        "memory_per_node": told(None),
        "tres_per_node": "",
        "features": "",
        "nodes": nodes,
        "array_job_id": told(0),
        "het_job_id": told(0),
        "job_resources": {"nodes": {"allocation": [{"name": nodes, "cpus": {"count": cpus}}]}},
        **more,
    }


class Site:
    """A folder with a slurm.conf, and a Slurm that is a file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path, self.audit = folder, folder / "state.json", folder / "steer.jsonl"
        (folder / "slurm.conf").write_text(CONF)
        for name in ("squeue", "sinfo", "scontrol"):
            script = folder / name
            script.write_text(f'#!/bin/sh\nexec {sys.executable} -S {HERE / "fake_slurm.py"} {name} "$@"\n')
            script.chmod(0o755)
        self.write({})

    @property
    def state(self):
        return json.loads(self.path.read_text())

    def write(self, state):
        idle = {"node": {"state": ["IDLE"]}, "nodes": {"nodes": ["n[1-2]"]}}
        whole = {"squeue": {"jobs": [], "errors": []}, "sinfo": {"sinfo": [idle], "errors": []}, **state}
        self.path.write_text(json.dumps(whole))

    def hold(self, *jobs, **state):
        self.write({"squeue": {"jobs": list(jobs), "errors": []}, **state})

    def change(self, **changes):
        self.write({**self.state, **changes})

    @property
    def jobs(self):
        return {one["job_id"]: one for one in self.state["squeue"]["jobs"]}

    @property
    def queue(self):
        """Numbers of the jobs, the highest priority first."""
        return sorted(self.jobs, key=lambda number: -self.jobs[number]["priority"]["number"])

    def steer(self, policy="sjf", **options):
        options = {"looks": 1, "apply": True, "audit": self.audit, "slurm_version": "24.11.5", **options}
        return steer(slurm=self.folder, policy=policy, **options)

    def look(self, **options):
        """Steer once, and return the decision."""
        return next(iter(self.steer(**options)))[0]

    def undo(self, **options):
        return self.look(policy=None, undo=True, apply=False, **options)


@pytest.fixture
def site(tmp_path, monkeypatch):
    site = Site(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SLURM", str(site.path))
    monkeypatch.setattr(time, "time", lambda: float(NOW))
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    return site


def three_jobs():
    return job(1, minutes=30), job(2, minutes=20), job(3, minutes=10)


# -- Decisions


@given(st.lists(st.tuples(st.integers(1, 400), st.integers(-300, 300)), max_size=30))
def test_few_new_priorities_give_the_order(drawn):
    ranked = [
        _Standing(number, base, max(1, base - nice)) for number, (base, nice) in enumerate(drawn, start=1)
    ]
    new = _new_priorities(ranked)
    after = [new.get(one.number, one.priority) for one in ranked]
    assert all(above > below for above, below in itertools.pairwise(after))
    assert all(priority >= 2 for priority in new.values())
    if ranked:
        # None gets above all that they have without nice values, unless there is no room below.
        room = 16 * (len(ranked) + 1)
        assert max(new.values(), default=0) <= max(*(one.base for one in ranked), 2 + room)
    # Those that stay are a longest sequence in order, unless all move.
    ranked = [one._replace(priority=after[place]) for place, one in enumerate(ranked)]
    assert _new_priorities(ranked) == {}


def test_one_job_that_comes_moves_alone():
    ranked = [_Standing(number, 1000, 1000 - 20 * number) for number in range(5)]
    new = _Standing(9, 1000, 1000)
    assert set(_new_priorities([*ranked[:3], new, *ranked[3:]])) == {9}


@pytest.mark.parametrize("order", ["sjf", "saf", "fcfs", "wait - walltime", "processors"])
def test_the_order_is_that_of_a_replay(tmp_path, order):
    (tmp_path / "slurm.conf").write_text(CONF.replace("n[1-2]", "n1").replace("CPUs=4", "CPUs=1"))
    cluster = read_cluster(tmp_path, version="24.11.5")
    stream = np.random.default_rng(7)
    pending = [
        Request(number, 100 * number, 60, 60 * int(minutes), partitions=("main",))
        for number, minutes in enumerate(stream.permutation(range(10, 22)), start=1)
    ]
    for guard in (None, 1500):
        places = queue_order(cluster, pending, [], 2000, order, guard)
        if "wait" in order:
            first = queue_order(cluster, pending, [], 2000, "walltime")
            assert places != first
        # One runs at a time: the first to start is the first of the queue.
        starts = replay(cluster, pending, start=ClusterState(2000), order=order, guard=guard).start
        assert places[0] == int(np.argmin(starts))
    assert sorted(places) == list(range(12))


def test_guard(site):
    site.hold(job(1, minutes=600, waited=5000), job(2, minutes=20), job(3, minutes=10))
    site.look(guard=3600)
    assert site.queue == [1, 3, 2]


def test_rollout_sees_what_runs_and_nodes_out_of_service(site):
    runs = job(7, state="RUNNING", nodes="n1", cpus=4)
    down = {"node": {"state": ["DOWN", "DRAIN"]}, "nodes": {"nodes": ["n2"]}}
    site.hold(runs, *three_jobs(), sinfo={"sinfo": [down], "errors": []})
    assert site.look(policy=ROLLOUT)["jobs"] == 3
    assert site.queue[-3:] == [3, 2, 1] or site.queue[:3] == [3, 2, 1]


def test_dry_run_changes_nothing(site):
    site.hold(*three_jobs())
    before = site.state
    decision, lines = next(iter(site.steer(apply=False)))
    # The first keeps its priority.
    assert set(decision["set"]) == {"1", "2"}
    assert "2 of 3 jobs would move" in lines[0]
    assert any("job 2: place 2, nice 0 -> " in line for line in lines)
    assert site.state == before
    assert not site.audit.exists()


def test_the_queue_gets_the_order_and_keeps_it(site):
    site.hold(*three_jobs())
    decision = site.look()
    assert site.queue == [3, 2, 1]
    assert json.loads(site.audit.read_text()) == {**decision, "by": "nice"} | {
        "set": {number: list(pair) for number, pair in decision["set"].items()}
    }
    assert site.look()["set"] == {}


def test_jobs_that_are_not_touched(site):
    others = {
        11: job(11, base=0, state_reason="JobHeldUser"),
        12: job(12, partition="other"),
        13: job(13, array_job_id=told(13)),
        14: job(14, het_job_id=told(14)),
        15: job(15, nice=50, priority=told(950)),
        16: job(16, base=9000),
        17: job(17, state_reason="Dependency"),
        18: job(18, cpus=64),
    }
    site.hold(*three_jobs(), *others.values())
    decision = site.look(partition=("main",), above=5000)
    assert decision["jobs"] == 3
    assert {number: site.jobs[number] for number in others} == others
    assert decision["left"] == {
        "held": 2,
        "of other partitions": 1,
        "of an array": 1,
        "of a heterogeneous job": 1,
        "set by others": 1,
        "above the limit": 1,
        "not understood": 1,
    }


def test_negative_nice_values_of_22_05(site):
    site.hold(job(1, minutes=30, base=2000), job(2, minutes=20))
    site.look()
    jobs = site.jobs
    assert jobs[2]["nice"] < 0
    for one in jobs.values():
        one["nice"] %= 1 << 32
    site.hold(*jobs.values())
    decision = site.look()
    assert (decision["left"], decision["set"]) == ({}, {})


def test_a_rate_limit(site):
    site.hold(*(job(number, minutes=100 - number) for number in range(1, 11)))
    decisions = [len(site.look(most=4)["set"]) for _ in range(4)]
    assert max(decisions) <= 4
    assert site.queue == list(range(10, 0, -1))


@pytest.mark.parametrize("release", ["22.05", "24.11", "26.05"])
@pytest.mark.parametrize("policy", ["saf", ROLLOUT])
def test_what_real_releases_print(site, release, policy, monkeypatch):
    answer = json.loads((HERE / f"{release}.json").read_text())
    (site.folder / "slurm.conf").write_text((HERE / "slurm.conf").read_text())
    monkeypatch.setattr(time, "time", lambda: float(NOW + 600))
    site.write(answer)
    decision = site.look(policy=policy, apply=False, slurm_version=release)
    waiting = [one for one in answer["squeue"]["jobs"] if "PENDING" in one["job_state"]]
    assert decision["left"] == {"set by others": 1, "held": 1, "of an array": 1}
    assert decision["jobs"] == len(waiting) - 3


# -- Undo


def test_undo_restores_nice_values(site):
    before = three_jobs()
    site.hold(*before)
    site.look()
    assert site.undo()["set"].keys() == json.loads(site.audit.read_text().splitlines()[0])["set"].keys()
    assert list(site.jobs.values()) == list(before)
    assert site.undo()["set"] == {}
    site.look()
    assert site.queue == [3, 2, 1]


def test_undo_of_explicit_priorities(site):
    before = three_jobs()
    site.hold(*before)
    site.look(by="priority")
    assert site.queue == [3, 2, 1]
    assert all(one["nice"] == 0 for one in site.jobs.values())
    site.undo(by="priority")
    assert list(site.jobs.values()) == list(before)
    assert all(command.startswith("release") for command in site.state["commands"][-2:])
    with pytest.raises(SimulationError, match="has decisions --by priority"):
        site.look()


def test_undo_leaves_what_others_have_set(site):
    site.hold(*three_jobs())
    site.look()
    jobs = site.jobs
    jobs[1] |= {"nice": 77, "priority": told(923)}
    site.hold(*jobs.values())
    assert site.undo()["others"] == 1
    assert [one["nice"] for one in site.jobs.values()] == [77, 0, 0]


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_a_steerer_that_is_killed_is_undone(site, calls):
    before = [*three_jobs(), job(4, minutes=40)]
    for one in before:
        one |= {"submit_time": told(int(1e9)), "eligible_time": told(int(1e9))}
    site.hold(*before, fault={"scontrol": calls})
    command = [sys.executable, "-m", "gridtune", "slurm", "steer", "--slurm", str(site.folder), "--apply"]
    command += ["--policy", "sjf", "--slurm-version", "24.11.5", "--audit", str(site.audit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr
    recorded = json.loads(site.audit.read_text())["set"]
    assert len(site.state.get("commands", [])) == calls < len(recorded)
    site.change(fault={})
    assert len(site.undo()["set"]) == calls
    assert list(site.jobs.values()) == list(before)


def test_half_a_line_of_the_audit_is_dropped(site):
    site.hold(*three_jobs())
    site.look()
    whole = site.audit.read_text()
    site.audit.write_text(whole + '{"at": 17675')
    site.undo()
    lines = site.audit.read_text().splitlines()
    assert [json.loads(line).get("undo", False) for line in lines] == [False, True]


def test_a_file_that_is_no_audit(site):
    site.audit.write_text("hello\n")
    with pytest.raises(SimulationError, match=r"steer\.jsonl:1: is no decision"):
        site.look()


# -- Doubts


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"squeue": "down"}, "squeue --json fails: slurm_load_jobs error: Unable to contact"),
        ({"squeue": "half"}, "squeue --json prints no whole answer"),
        ({"sinfo": "half"}, "sinfo --json prints no whole answer"),
        ({"squeue": "slow"}, "squeue --json: .*timed out after 1 s"),
        ({"scontrol": "denied"}, "permission denied"),
    ],
)
def test_it_stops_if_slurm_does_not_answer(site, fault, message, monkeypatch):
    site.hold(*three_jobs(), fault=fault)
    if "slow" in fault.values():
        monkeypatch.setattr(time, "monotonic", MONOTONIC)
    before = list(site.jobs.values())
    with pytest.raises(SimulationError, match=message):
        site.look(timeout=1 if "slow" in fault.values() else 30)
    assert list(site.jobs.values()) == before
    site.change(fault={})
    site.look()
    assert site.queue == [3, 2, 1]


MONOTONIC = time.monotonic


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"job_state": ["PENDING", "STRANGE"]}, "unknown state"),
        ({"submit_time": told(NOW + 1000)}, "is of the future: the clocks"),
        ({"nice": "x"}, "squeue --json, job 1"),
        ({"partition": "nowhere"}, None),
    ],
)
def test_it_stops_at_a_job_that_cannot_be(site, changes, message):
    site.hold(job(1, **changes), job(2))
    if message is None:
        assert site.look()["left"] == {"not understood": 1}
        return
    with pytest.raises(SimulationError, match=message):
        site.look()


def test_it_stops_at_an_unknown_state_of_a_node(site):
    strange = {"node": {"state": ["HOVERING"]}, "nodes": {"nodes": ["n1"]}}
    site.hold(*three_jobs(), sinfo={"sinfo": [strange], "errors": []})
    with pytest.raises(SimulationError, match="n1 are in an unknown state"):
        site.look()


def test_two_steerers(site):
    site.hold(*three_jobs())
    first = site.steer(looks=2, interval=0)
    next(first)
    for other in (site.look, site.undo):
        with pytest.raises(SimulationError, match="another process steers by this file"):
            other()
    next(first)


def test_another_program_that_sets_nice_values(site):
    site.hold(*three_jobs())
    looks = site.steer(looks=2, interval=0)
    next(looks)
    jobs = site.jobs
    jobs[2] |= {"nice": 5, "priority": told(995)}
    site.hold(*jobs.values())
    with pytest.raises(SimulationError, match="job 2 has nice 5, set by others"):
        next(looks)
    # A new steerer leaves the job alone.
    assert site.look()["left"] == {"set by others": 1}


def test_a_clock_that_jumps(site, monkeypatch):
    site.hold(*three_jobs())
    looks = site.steer(looks=2, interval=0)
    next(looks)
    monkeypatch.setattr(time, "time", lambda: NOW + 5000.0)
    with pytest.raises(SimulationError, match="the clock has jumped by 5,000 s"):
        next(looks)


def test_jobs_that_end_meanwhile_or_have_explicit_priorities(site):
    site.hold(*three_jobs(), fault={"scontrol": "gone"})
    site.look()
    assert site.state.get("commands", []) == []
    site.hold(*three_jobs(), explicit=[1])
    site.audit.unlink()
    *_, last = site.steer(looks=3, interval=0)
    assert last[0]["left"] == {"set by others": 1}
    assert last[0]["jobs"] == 2


def test_it_needs_a_policy(site):
    with pytest.raises(SimulationError, match="--policy"):
        site.look(policy=None)
    assert steering._MOST_NICE < 1 << 31
