"""Jobs that are suspended where others take their processors: by hand, and the kernel against its twin."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtune.errors import WorkloadError
from gridtune.slurm.cluster import Clocks, Node, Partition, PreemptClass, Preemption, SlurmCluster
from gridtune.slurm.kernel.ordering import order_for_nodes
from gridtune.slurm.limits import Limit
from gridtune.slurm.replay import Phases, replay
from gridtune.slurm.requests import Request
from tests.conftest import examples
from tests.slurm.reference import reference_replay
from tests.slurm.test_replay import NODES, clusters, logs

TIERS = {"low": 1, "mid": 2, "top": 3}


def by_partition(low="suspend", mid="suspend", *, top="off", tiers=TIERS):
    """Return who makes room for whom in partitions; those that are not named are suspended."""
    modes = {"low": low, "mid": mid, "top": top}
    classes = {
        name: PreemptClass(
            tier, modes.get(name, "suspend"), preempts=frozenset(o for o, t in tiers.items() if t < tier)
        )
        for name, tier in tiers.items()
    }
    return Preemption("partition", classes)


def cluster_of(*cpus, preemption=None, gpus=0, **settings):
    """Return a cluster of nodes with 100 MB each, all in three partitions."""
    kinds = {"x": gpus} if gpus else {}
    nodes = tuple(Node(f"n{k}", count, 100, kinds, frozenset(), 1) for k, count in enumerate(cpus))
    partitions = {name: Partition(name, tuple(range(len(cpus))), tier=tier) for name, tier in TIERS.items()}
    return SlurmCluster(nodes, partitions, preemption=preemption or by_partition(), **settings)


def job(partition, number, submit, run, tasks, **more):
    return Request(number, submit, run, more.pop("limit", 6000), "u", "a", (partition,), tasks=tasks, **more)


def played(cluster, jobs, **phases):
    """Replay jobs, and return starts, ends and suspensions, which the twin has too."""
    result, pauses = replay(cluster, jobs, Phases(**phases)), []
    schedule = reference_replay(cluster, jobs, Phases(**phases), pauses=pauses)
    assert [schedule[k][:2] for k in range(len(jobs))] == list(zip(result.start, result.end, strict=True))
    assert sorted(map(tuple, result.pauses.tolist())) == sorted(pauses)
    return result.start.tolist(), result.end.tolist(), sorted(map(tuple, result.pauses.tolist()))


def test_a_job_stands_still_until_the_one_above_it_has_ended() -> None:
    start, end, pauses = played(cluster_of(4, 4), [job("low", 1, 0, 500, 8), job("top", 2, 100, 50, 8)])
    # The other starts at once, and this one goes on in the second of its end.
    assert (start, end) == ([0, 100], [550, 150])
    assert pauses == [(0, 100, 150)]


def test_its_time_limit_stands_still_too() -> None:
    jobs = [job("low", 1, 0, 700, 8, limit=600), job("top", 2, 100, 50, 8)]
    # 600 s have passed at 650; limits are looked at every 30 s.
    assert played(cluster_of(4, 4), jobs)[1] == [660, 150]


def test_only_those_whose_processors_are_needed_are_suspended() -> None:
    low = [job("low", k, 0, 500, tasks) for k, tasks in ((1, 2), (2, 2), (3, 4))]
    assert played(cluster_of(4, 4), [*low, job("top", 4, 100, 50, 2)])[2] == [(0, 100, 150)]
    # Two on one node and one on the other.
    assert played(cluster_of(4, 4), [*low, job("top", 4, 100, 50, 8)])[2] == [(k, 100, 150) for k in range(3)]


def test_free_processors_are_taken_first() -> None:
    jobs = [job("low", 1, 0, 500, 4), job("top", 2, 100, 50, 4), job("top", 3, 110, 50, 3)]
    start, _, pauses = played(cluster_of(4, 4), jobs)
    assert start == [0, 100, 110]
    assert pauses == [(0, 110, 160)]


def test_one_who_took_the_place_of_another_may_have_to_make_room_itself() -> None:
    jobs = [job("low", 1, 0, 500, 8), job("mid", 2, 100, 300, 8), job("top", 3, 200, 50, 8)]
    start, end, pauses = played(cluster_of(4, 4), jobs)
    assert start == [0, 100, 200]
    assert end == [850, 450, 250]
    assert pauses == [(0, 100, 450), (1, 200, 250)]


def test_those_of_the_lowest_tier_make_room_first() -> None:
    jobs = [job("mid", 1, 0, 500, 4), job("low", 2, 0, 500, 4), job("top", 3, 100, 50, 4)]
    assert played(cluster_of(4, 4), jobs)[2] == [(1, 100, 150)]


def test_a_job_may_be_suspended_twice() -> None:
    jobs = [job("low", 1, 0, 500, 8), job("top", 2, 100, 50, 8), job("mid", 3, 200, 60, 8)]
    _, end, pauses = played(cluster_of(4, 4), jobs)
    assert end[0] == 610
    assert pauses == [(0, 100, 150), (0, 200, 260)]


def test_a_job_that_is_suspended_at_the_end_goes_on_once_all_others_have_ended() -> None:
    jobs = [job("low", 1, 0, 500, 8), job("top", 2, 490, 1000, 8)]
    assert played(cluster_of(4, 4), jobs)[1] == [1500, 1490]


@pytest.mark.parametrize(("memory", "starts"), [(40, 100), (41, 500)])
def test_memory_stays_with_the_job_that_is_suspended(memory, starts) -> None:
    jobs = [job("low", 1, 0, 500, 8, memory=60), job("top", 2, 100, 50, 8, memory=memory)]
    (_, start), _, pauses = played(cluster_of(4, 4), jobs)
    assert starts <= start <= starts + 3
    assert len(pauses) == (starts == 100)


def test_gpus_stay_with_the_job_that_is_suspended() -> None:
    jobs = [job("low", 1, 0, 500, 4, gpus=1), job("top", 2, 100, 50, 2, gpus=1), job("top", 3, 100, 50, 2)]
    start, _, pauses = played(cluster_of(4, gpus=1), jobs)
    # In the order of submission job 2 blocks the partition until a backfill pass.
    assert 500 < start[1] <= 700
    assert 100 <= start[2] <= 130
    assert pauses == [(0, start[2], start[2] + 50)]


def test_nobody_else_gets_the_processors_of_a_job_that_is_suspended() -> None:
    # Two of the four are idle while the second runs; the third, of the first one's tier, does not get them.
    jobs = [job("low", 1, 0, 500, 4), job("top", 2, 100, 900, 2), job("low", 3, 110, 50, 2)]
    start, end, _ = played(cluster_of(4), jobs)
    assert end[0] == 1400
    assert start[2] >= 1400
    # One of a higher tier does.
    above = played(cluster_of(4), [*jobs[:2], replace(jobs[2], partitions=("mid",))])
    assert above[0][2] == 110


def test_jobs_of_one_tier_wait_for_each_other() -> None:
    cluster = cluster_of(4, 4)
    qos = Preemption(
        "qos", {"": PreemptClass(0, "suspend"), "hot": PreemptClass(9, preempts=frozenset({""}))}
    )
    jobs = [job("low", 1, 0, 500, 8), job("low", 2, 100, 50, 8, qos="hot")]
    assert played(replace(cluster, preemption=qos), jobs)[2] == []
    # By QOS too, it must be in a partition of a higher tier.
    jobs[1] = replace(jobs[1], partitions=("mid",))
    assert played(replace(cluster, preemption=qos), jobs)[2] == [(0, 100, 150)]
    assert played(replace(cluster, preemption=qos), [jobs[0], replace(jobs[1], qos="")])[2] == []


def beside(cluster, tier=1):
    """Return a cluster with one more partition, `side`, of a tier."""
    side = Partition("side", cluster.partitions["low"].nodes, tier=tier)
    tiers = TIERS | {"side": tier}
    return replace(
        cluster, partitions=cluster.partitions | {"side": side}, preemption=by_partition(tiers=tiers)
    )


def test_jobs_of_two_partitions_of_one_tier_share_processors_and_both_run() -> None:
    jobs = [job("low", 1, 0, 500, 8), job("side", 2, 100, 50, 6)]
    assert played(beside(cluster_of(4, 4)), jobs) == ([0, 100], [500, 150], [])
    # One of the same partition waits: a partition gives each processor to one of its jobs.
    assert played(beside(cluster_of(4, 4)), [*jobs, job("side", 3, 110, 50, 4)])[0][2] >= 150
    # A job of a higher tier suspends both.
    jobs.append(job("top", 3, 120, 40, 8))
    start, end, pauses = played(beside(cluster_of(4, 4)), jobs)
    assert (start, end) == ([0, 100, 120], [540, 190, 160])
    assert pauses == [(0, 120, 160), (1, 120, 160)]


def test_jobs_of_one_tier_share_only_what_is_neither_free_nor_suspended() -> None:
    jobs = [job("low", 1, 0, 500, 4), job("side", 2, 100, 50, 4)]
    # The other node is free, so a third job of the first partition starts on it only after the second.
    start, _, pauses = played(beside(cluster_of(4, 4)), [*jobs, job("low", 3, 110, 50, 4)])
    assert (start, pauses) == ([0, 100, 110], [])
    # With a lower tier to suspend, it does that instead.
    start, _, pauses = played(
        beside(cluster_of(4), tier=2), [jobs[0], replace(jobs[1], partitions=("side",))]
    )
    assert (start, pauses) == ([0, 100], [(0, 100, 150)])


def test_a_job_takes_processors_of_the_socket_that_fits_best() -> None:
    cluster = cluster_of(6)
    two = replace(cluster, nodes=(replace(cluster.nodes[0], sockets=2),))
    jobs = [job("low", 1, 0, 500, 2), job("low", 2, 10, 500, 2), job("top", 3, 100, 50, 3)]
    # Each job has its own of two sockets; the last one takes the first socket.
    assert played(two, jobs)[2] == [(0, 100, 150)]
    both = [(0, 100, 150), (1, 100, 150)]
    assert played(cluster, jobs)[2] == both
    # In turn, the sockets give one each, so that both jobs have some of the first one.
    assert played(replace(two, socket_by_socket=False), jobs)[2] == both


def test_a_job_that_is_suspended_counts_towards_limits() -> None:
    cluster = cluster_of(4, 4, limits=(Limit("cpu", 6, account="a"),))
    jobs = [job("low", 1, 0, 500, 4), job("top", 2, 100, 50, 2), job("top", 3, 110, 50, 1)]
    full = replace(cluster, nodes=cluster.nodes[:1], partitions={
        name: replace(one, nodes=(0,)) for name, one in cluster.partitions.items()
    })  # fmt: skip
    start, _, pauses = played(full, jobs)
    assert start[:2] == [0, 100]
    assert pauses[0] == (0, 100, 150)
    assert start[2] >= 150


def test_one_that_is_cancelled_or_requeued_gives_back_what_it_took() -> None:
    jobs = [job("low", 1, 0, 500, 8), job("mid", 2, 100, 900, 8), job("top", 3, 200, 50, 8)]
    start, end, pauses = played(cluster_of(4, 4, preemption=by_partition(mid="cancel")), jobs)
    # The first goes on for a second, until the third can start on its processors.
    assert end[1] == 200
    assert pauses == [(0, 100, 200), (0, start[2], start[2] + 50)]


@st.composite
def tiered(draw):
    """Draw a cluster whose partitions have all nodes, and a tier each."""
    tiers = TIERS | {"side": draw(st.sampled_from([1, 1, 2]))}
    partitions = {
        name: Partition(
            name,
            (1, 2, 3) if name == "side" else (0, 1, 2, 3, 4),
            tier=tier,
            memory_per_cpu=draw(st.sampled_from([0, 30])),
        )
        for name, tier in tiers.items()
    }
    mode = st.sampled_from(["suspend", "suspend", "suspend", "requeue", "cancel", "off"])
    qos = {
        "low": PreemptClass(0, draw(mode)),
        "": PreemptClass(1, draw(mode), preempts=frozenset({"low"})),
        "hot": PreemptClass(draw(st.sampled_from([0, 7])), preempts=frozenset({"low", ""})),
    }
    preemption = draw(
        st.sampled_from([by_partition(*(draw(mode) for _ in range(2)), tiers=tiers), Preemption("qos", qos)])
    )
    preemption = replace(
        preemption, youngest_first=draw(st.booleans()), reorder_count=draw(st.integers(0, 1))
    )
    nodes = tuple(replace(node, sockets=draw(st.sampled_from([1, 2, 3]))) for node in NODES)
    socket_by_socket = draw(st.booleans())
    cluster = replace(draw(clusters()), nodes=nodes, socket_by_socket=socket_by_socket)
    return replace(cluster, partitions=partitions, preemption=preemption)


@examples(150)
@given(tiered(), logs(), st.builds(Phases, *(st.integers(0, most) for most in (59, 19, 29, 299))), st.data())
def test_the_kernel_equals_its_twin(cluster, requests, phases, data):
    some = st.sampled_from(
        [("low",), ("low",), ("mid",), ("top",), ("low", "mid"), ("side",), ("side", "low")]
    )
    drawn = {number: data.draw(some) for number in {r.array or r.number for r in requests}}
    requests = [replace(r, partitions=drawn[r.array or r.number]) for r in requests]
    order = data.draw(st.sampled_from([None, None, "saf", "rollout(window=3)"]))
    try:
        result = replay(cluster, requests, phases, order=order)
    except WorkloadError:
        return
    pauses: list[tuple[int, int, int]] = []
    score = order and order_for_nodes(order)
    schedule = reference_replay(cluster, requests, phases, score=score, pauses=pauses)
    own = list(zip(result.start.tolist(), result.end.tolist(), map(tuple, result.nodes), strict=True))
    assert own == [schedule.get(job, (-1, -1, ())) for job in range(len(requests))]
    assert sorted(map(tuple, result.pauses.tolist())) == sorted(pauses)


def test_all_suspensions_are_kept_though_kernels_have_little_room() -> None:
    # One job below 40 others, each of which suspends it.
    others = [job("top", k, 100 * k, 50, 4) for k in range(1, 41)]
    cluster = cluster_of(4, clocks=Clocks(sched_interval=1000, bf_interval=1000))
    result = replay(cluster, [job("low", 99, 0, 9000, 4, limit=60_000), *others])
    assert len(result.pauses) == 40
    assert result.end[0] == 9000 + 40 * 50
