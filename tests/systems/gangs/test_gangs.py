"""Gangs of GPUs: by hand, against plain Python, what must hold of any schedule, and published orders."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtune.errors import GridtuneError
from gridtune.sweep.execution.runner import run_cell
from gridtune.systems.gangs.simulator import GpuPool, Policy, simulate
from gridtune.systems.gangs.system import _draw_jobs
from tests.conftest import examples
from tests.systems.gangs.reference import simulate as simulate_plainly

POLICIES = get_args(Policy)
PREEMPTIVE = ("las", "srtf", "srsf")
NODE = GpuPool(nodes=1, gpus_per_node=4, round=10, restart=3)


def run(jobs, policy, pool=NODE, queues=()):
    """Run jobs given as (submission, run time, GPUs)."""
    columns = np.array(jobs, np.int64).reshape(-1, 3).T
    return simulate(*map(np.ascontiguousarray, columns), policy, pool, queues=queues, spans=True)


@st.composite
def cases(draw):
    """A pool, jobs that fit in it, and queues."""
    period = draw(st.integers(1, 12))
    pool = GpuPool(
        nodes=draw(st.integers(1, 4)),
        gpus_per_node=draw(st.integers(1, 5)),
        round=period,
        restart=draw(st.integers(0, period - 1)),
    )
    widest = pool.nodes * pool.gpus_per_node
    job = st.tuples(st.integers(0, 60), st.integers(0, 50), st.integers(1, widest))
    jobs = sorted(draw(st.lists(job, min_size=1, max_size=14)), key=lambda job: job[0])
    queues = draw(st.sampled_from([(), (10,), (5, 40)]))
    return jobs, pool, queues


@pytest.mark.parametrize("policy", POLICIES)
@examples(60)
@given(case=cases())
def test_jobs_run_when_and_where_plain_python_lets_them(policy, case):
    jobs, pool, queues = case
    gangs = run(jobs, policy, pool, queues)
    plain = simulate_plainly(*map(list, zip(*jobs, strict=True)), policy, pool, queues)
    for name in ("start", "end", "held", "starts"):
        assert getattr(gangs, name).tolist() == [job[name] for job in plain], name
    spans = sorted((job["id"], *span) for job in plain for span in job["spans"])
    assert sorted(map(tuple, gangs.spans.tolist())) == spans
    last = jobs[-1][0]
    used = sum(gpus * max(0, min(end, last) - start) for _, _, gpus, start, end in spans)
    assert gangs.used == used


@pytest.mark.parametrize("policy", POLICIES)
@examples(60)
@given(case=cases())
def test_gangs_are_whole_no_gpu_is_given_twice_and_no_work_is_lost(policy, case):
    jobs, pool, queues = case
    gangs = run(jobs, policy, pool, queues)
    submit, run_time, gpus = np.array(jobs).T
    spans = gangs.spans
    for second in {time for *_, start, end in spans.tolist() for time in (start, end - 1)}:
        now = spans[(spans[:, 3] <= second) & (second < spans[:, 4])]
        assert np.bincount(now[:, 1], now[:, 2], pool.nodes).max(initial=0) <= pool.gpus_per_node
        given = np.bincount(now[:, 0], now[:, 2], len(jobs))
        assert (given == np.where(given > 0, gpus, 0)).all()
        # As few nodes as hold it: whole ones, and one for the rest.
        nodes = np.bincount(now[:, 0], minlength=len(jobs))
        assert (nodes == np.where(given > 0, -(-gpus // pool.gpus_per_node), 0)).all()
    assert (gangs.start >= submit).all()
    assert (gangs.end >= gangs.start + run_time).all()
    paid = gangs.held - run_time
    assert (paid >= 0).all()
    assert (paid <= pool.restart * (gangs.starts - 1)).all()
    if policy not in PREEMPTIVE:
        assert (gangs.starts == 1).all()
        assert (gangs.end == gangs.start + run_time).all()
    if policy == "fifo":
        assert (np.diff(gangs.start) >= 0).all()


@pytest.mark.parametrize(("policy", "queues"), [("fifo", ()), ("backfill", ()), ("las", ()), ("las", (10,))])
@examples(60)
@given(case=cases(), change=st.integers(0, 40), data=st.data())
def test_what_is_not_clairvoyant_does_not_see_the_future(policy, queues, case, change, data):
    jobs, pool, _ = case
    before = run(jobs, policy, pool, queues)
    # Jobs that have not ended by that second run for longer or shorter, and later ones are others.
    other = []
    for index, (submit, run_time, gpus) in enumerate(jobs):
        if submit > change:
            other.append((submit + data.draw(st.integers(0, 9)), data.draw(st.integers(0, 30)), 1))
        elif before.end[index] <= change:
            other.append((submit, run_time, gpus))
        else:
            # It ends later than that in both.
            stays = {(start, end) for job, _, _, start, end in before.spans.tolist() if job == index}
            done = sum(max(0, min(end, change) - start) for start, end in stays)
            other.append((submit, min(run_time, done + 1) + data.draw(st.integers(0, 20)), gpus))
    other.sort(key=lambda job: job[0])
    after = run(other, policy, pool, queues)

    def seen(spans):
        return sorted((j, n, g, s, min(e, change)) for j, n, g, s, e in spans.tolist() if s <= change)

    assert seen(before.spans) == seen(after.spans)


def test_a_gang_that_does_not_fit_blocks_fifo_and_no_one_else():
    jobs = [(0, 25, 3), (0, 10, 2), (1, 5, 1)]
    fifo, backfill = run(jobs, "fifo"), run(jobs, "backfill")
    # The first has ended at 25, so the second starts in the round of 30, and the third beside it.
    assert fifo.start.tolist() == [0, 30, 30]
    assert fifo.end.tolist() == [25, 40, 35]
    assert backfill.start.tolist() == [0, 30, 10]


def test_a_short_job_preempts_a_long_one_which_pays_a_restart():
    gangs = run([(0, 40, 4), (5, 12, 4)], "srtf")
    # 30 s are left of the first at 10, when the second has 12; it ends at 22, and the first goes on at 30.
    assert gangs.start.tolist() == [0, 10]
    assert gangs.end.tolist() == [30 + 3 + 30, 22]
    assert gangs.starts.tolist() == [2, 1]
    assert gangs.held.tolist() == [43, 12]
    assert gangs.spans.tolist() == [[0, 0, 4, 0, 10], [1, 0, 4, 10, 22], [0, 0, 4, 30, 63]]


def test_gpu_seconds_count_where_seconds_do_not():
    # Of 20 s on four GPUs and 30 s on one, the first is shorter and the second smaller.
    jobs = [(0, 5, 4), (1, 20, 4), (2, 30, 1)]
    assert run(jobs, "srtf").start.tolist() == [0, 10, 30]
    assert run(jobs, "srsf").start.tolist() == [0, 40, 10]


def test_las_alternates_and_queues_let_jobs_finish():
    jobs = [(0, 15, 4), (0, 15, 4)]
    exact, queued = run(jobs, "las"), run(jobs, "las", queues=(1000,))
    assert exact.spans[:, [0, 3, 4]].tolist() == [[0, 0, 10], [1, 10, 20], [0, 20, 28], [1, 30, 38]]
    assert queued.end.tolist() == [15, 35]
    # A job falls once it has held as many GPU-seconds as the threshold: here after one round.
    assert run(jobs, "las", queues=(40,)).start.tolist() == [0, 10]
    assert run(jobs, "las", queues=(41,)).start.tolist() == [0, 20]


def test_jobs_share_the_fullest_node_that_holds_them_and_wide_ones_take_whole_nodes():
    gangs = run([(0, 50, 3), (0, 50, 2), (0, 50, 1), (0, 50, 6)], "las", GpuPool(3, 4, 10, 3))
    places = {(job, node, gpus) for job, node, gpus, *_ in gangs.spans.tolist()}
    assert places == {(0, 0, 3), (1, 1, 2), (2, 0, 1), (3, 2, 4), (3, 1, 2)}


def test_a_job_is_moved_where_its_gpus_go_to_one_before_it():
    # At 10 a gang of two comes to two half-empty nodes. It takes the first; the job there goes to the other.
    gangs = run([(0, 8, 1), (0, 30, 1), (0, 8, 1), (0, 30, 1), (10, 10, 2)], "las", GpuPool(2, 2, 10, 3))
    spans = gangs.spans.tolist()
    assert [4, 0, 2, 10, 20] in spans
    assert [span for span in spans if span[0] == 1] == [[1, 0, 1, 0, 10], [1, 1, 1, 10, 33]]
    assert gangs.starts.tolist() == [1, 2, 1, 1, 1]


def test_metrics_by_hand(tmp_path):
    log = tmp_path / "jobs.csv"
    log.write_text("submit,duration,num_gpus,vc\n100,30,4,a\n105,12,4,a\n110,500,8,a\n120,9,1,b\n")
    parameters = {"trace": str(log), "partition": "a", "policy": "srtf", "gpus": 8, "gpus_per_node": 4}
    parameters |= {"round": 10, "restart": 3}
    result = run_cell("gangs", parameters, tables=True).outcome
    # Both of four GPUs run from their first round, to 30 and 22; the one of eight from 30 to 530.
    assert result.tables["jobs"]["end"].to_pylist() == [30, 22, 530]
    assert result.tables["spans"]["node"].to_pylist() == [1, 0, 0, 1]
    expected = {
        "jct_mean": (30 + 17 + 520) / 3,
        "jct_median": 30,
        "jct_p99": 30 + 0.98 * (520 - 30),
        "jct_max": 520,
        "jct_mean_node": (30 + 17) / 2,
        "jct_mean_wide": 520,
        "jct_mean_short": (30 + 17) / 2,
        "jct_mean_long": 520,
        "wait_mean": (0 + 5 + 20) / 3,
        "makespan": 530,
        "utilisation": 4 * 10 / (8 * 10),
        "preemptions": 0,
        "offered_load": (4 * 30 + 4 * 12 + 8 * 500) / (8 * 10),
        "jobs": 3,
        "gpus": 8,
    }
    metrics = dict(result.metrics)
    assert np.isnan(metrics.pop("jct_mean_single"))
    assert metrics == pytest.approx(expected)
    assert run_cell("gangs", {**parameters, "load": 0.5}).outcome.metrics["offered_load"] == pytest.approx(
        0.5
    )


def test_gpus_count_where_a_log_says_them_beside_processors(tmp_path):
    log = tmp_path / "jobs.csv"
    log.write_text("submit,duration,cpus,num_gpus\n0,30,16,2\n5,12,64,0\n")
    metrics = run_cell("gangs", {"trace": str(log), "gpus": 8}).outcome.metrics
    assert metrics["jobs"] == 1
    assert metrics["jct_mean_node"] == 30


def test_drawn_jobs_are_those_of_gavels_generator():
    jobs = _draw_jobs(20_000, np.random.default_rng(1))
    widths, counts = np.unique(jobs.processors, return_counts=True)
    assert dict(zip(widths.tolist(), counts / 20_000, strict=True)) == pytest.approx(
        {1: 0.7, 2: 0.1, 4: 0.15, 8: 0.05}, abs=0.01
    )
    minutes = jobs.run_time / 60
    assert minutes.min() >= 10**1.49
    assert minutes.max() <= 10**4
    assert np.median(minutes) == pytest.approx(10 ** (1.5 + 1.5 * 0.5 / 0.8), rel=0.05)
    assert (minutes > 1000).mean() == pytest.approx(0.2, abs=0.01)


def test_all_policies_get_the_same_jobs_and_windows_are_parts_of_them():
    cells = [{"policy": policy, "drawn_jobs": 300, "window": "2/3", "load": 2} for policy in ("fifo", "srtf")]
    tables = [run_cell("gangs", cell, seed=4, tables=True).outcome.tables["jobs"] for cell in cells]
    assert tables[0]["submit"] == tables[1]["submit"]
    assert tables[0]["end"] != tables[1]["end"]
    assert len(tables[0]) == 100


def test_jobs_are_drawn_from_a_log_and_arrive_as_often_as_in_it(tmp_path):
    log = tmp_path / "jobs.csv"
    lines = [f"{10 * k},{100 + k},{1 + k % 2}" for k in range(50)]
    log.write_text("submit,duration,num_gpus\n" + "\n".join(lines))
    cell = {"trace": str(log), "gpus": 8, "policy": "backfill", "drawn_jobs": 4000}
    cells = [run_cell("gangs", cell, seed=seed, tables=True).outcome.tables["jobs"] for seed in (1, 1, 2)]
    submit, again, other = (np.asarray(cell["submit"]) for cell in cells)
    assert len(submit) == 4000
    assert np.array_equal(submit, again)
    assert not np.array_equal(submit, other)
    assert np.diff(submit).mean() == pytest.approx(490 / 50, rel=0.1)
    assert set(np.asarray(cells[0]["gpus"]).tolist()) == {1, 2}


def jct(parameters, seed):
    return run_cell("gangs", parameters, seed=seed).outcome.metrics["jct_mean"]


@pytest.mark.parametrize("load", [0.7, 0.9])
def test_the_published_order_on_drawn_jobs(load):
    # Gavel and Tiresias: srtf below las below fifo in mean completion time.
    means = {
        policy: np.mean([jct({"policy": policy, "load": load}, seed) for seed in range(5)])
        for policy in ("fifo", "las", "srtf")
    }
    assert means["srtf"] < means["las"] < means["fifo"]


@pytest.mark.slow
def test_the_published_order_on_philly(trace_dir):
    log = {"trace": str(trace_dir / "gpu" / "philly.csv.xz"), "gpus": 512}
    means = {policy: jct({**log, "policy": policy}, 0) for policy in ("fifo", "las", "srtf")}
    assert means["srtf"] < means["las"] < means["fifo"]


LOG = "submit,duration,num_gpus\n0,30,4\n5,12,16\n"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"gpus": 60}, "gpus=60 are no whole nodes of gpus_per_node=8"),
        ({"restart": 360}, "restart=360 must be shorter than round=360"),
        ({"queues": "500,100"}, "queues must ascend, but are 500, 100"),
        ({"queues": "0"}, "queues"),
        ({"queues": "x"}, "queues"),
        ({"policy": "srtf", "queues": "500"}, "queues has no effect with policy=srtf"),
        ({"drawn_jobs": 5, "window": "6/6"}, "5 jobs cannot be cut into 6 windows"),
        ({"drawn_jobs": 1}, "all jobs of drawn jobs are submitted at once"),
        ({"partition": "a"}, "partition has no effect with drawn jobs"),
        ({"trace": "LOG"}, "jobs does not say how many GPUs there are"),
        ({"trace": "LOG", "gpus": 8}, "a job asks for 16 of 8 GPUs"),
        ({"trace": "LOG", "gpus": 16, "partition": "a"}, "no partition is named 'a'"),
        ({"trace": "LONG", "gpus": 16}, r"ask for more than 2\^53 GPU-seconds"),
    ],
)
def test_what_cannot_be_run_is_refused_with_the_reason(tmp_path, parameters, message):
    (tmp_path / "jobs.csv").write_text(LOG)
    (tmp_path / "long.csv").write_text(LOG + f"9,{2**52},16\n")
    files = {"LOG": tmp_path / "jobs.csv", "LONG": tmp_path / "long.csv"}
    given = {name: str(files.get(value, value)) for name, value in parameters.items()}
    with pytest.raises(GridtuneError, match=message):
        run_cell("gangs", given)


def test_jobs_wider_than_the_pool_can_be_left_out(tmp_path):
    (tmp_path / "jobs.csv").write_text(LOG)
    cell = {"trace": str(tmp_path / "jobs.csv"), "gpus": 8, "clean": "default,drop_wider"}
    assert run_cell("gangs", cell).outcome.metrics["jobs"] == 1
