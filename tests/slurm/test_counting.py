"""Backfill by counting nodes against the twin: clusters of more than one word of bits, with a long queue."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gridtune.slurm.cluster import (
    MODES,
    Clocks,
    Node,
    Outage,
    Partition,
    PreemptClass,
    Preemption,
    Priorities,
    SlurmCluster,
)
from gridtune.slurm.limits import Limit
from gridtune.slurm.replay import Phases, _ClusterReplay
from gridtune.slurm.requests import Request, RequestCheck
from tests.conftest import examples
from tests.slurm.reference import reference_replay
from tests.slurm.test_replay import VERSIONS

SIZE = 70
#: Jobs of one partition make those of the other go; in half of the clusters none, so that nodes are counted.
PREEMPTIONS = st.just(Preemption()) | st.builds(
    lambda mode, grace, exempt, youngest, strict, count: Preemption(
        "partition",
        {
            "few": PreemptClass(2, mode, grace, 0, frozenset({"all"})),
            "all": PreemptClass(1, mode, grace, exempt),
        },
        youngest,
        strict,
        count,
        40,
    ),
    st.sampled_from(MODES[1:]),
    st.sampled_from([0, 0, 35]),
    st.sampled_from([0, 50]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 3]),
)


@st.composite
def clusters(draw):
    """Draw a cluster of nodes of some weights, with switches mostly; some have GPUs, or no switch."""
    widths = draw(st.sampled_from([(4,), (4, 8)]))
    weights = draw(st.sampled_from([(1,), (1, 2), (2, 1, 1)]))
    gpus = draw(st.sampled_from([0, 0, 0, 3]))
    threads, one_task = draw(st.sampled_from([(1, False), (1, False), (2, False), (2, True)]))
    nodes = tuple(
        Node(
            f"n{k}",
            widths[k % len(widths)],
            800,
            {"x": 1} if k < gpus else {},
            frozenset({"big"} if k % 3 else ()),
            weights[k % len(weights)],
            threads=threads,
            one_task=one_task,
        )
        for k in range(SIZE)
    )
    of_leaf = draw(st.sampled_from([10, 10, 23, 64]))
    leaves = tuple(tuple(range(k, min(k + of_leaf, SIZE))) for k in range(0, SIZE, of_leaf))
    partitions = {
        "all": Partition("all", tuple(range(SIZE)), memory_per_cpu=draw(st.sampled_from([0, 0, 150]))),
        "few": Partition(
            "few", tuple(range(5, 40)), tier=draw(st.sampled_from([1, 2])), exclusive=draw(st.booleans())
        ),
    }
    clocks = Clocks(
        bf_interval=draw(st.sampled_from([30, 47])),
        bf_window=draw(st.sampled_from([5, 60, 1440])),
        bf_max_job_test=draw(st.sampled_from([4, 500, 500])),
        bf_node_space_size=draw(st.sampled_from([0, 9])),
        bf_window_linear=draw(st.sampled_from([0, 0, 40])),
        bf_min_age_reserve=draw(st.sampled_from([0, 0, 90])),
    )
    return SlurmCluster(
        nodes,
        partitions,
        draw(st.sampled_from([leaves, leaves, leaves[1:], ()])),
        clocks=clocks,
        priorities=draw(st.sampled_from([Priorities(), Priorities(True, age=50, size=300, max_age=900)])),
        limits=draw(st.sampled_from([(), (Limit("cpu", 200, account="root"),)])),
        outages=draw(st.sampled_from([(), (Outage(100, 500, tuple(range(12, 30)), planned=False),)])),
        version=draw(VERSIONS),
        zero=draw(st.sampled_from([0, 1767571537])),
        preemption=draw(PREEMPTIONS),
        overtime=draw(st.sampled_from([0, 0, 60])),
    )


@st.composite
def logs(draw):
    """Draw jobs of which most are wide, so that plans are made one behind the other."""
    requests = []
    for number in range(1, draw(st.integers(5, 30)) + 1):
        nodes = draw(st.integers(1, 60))
        per_node = draw(st.sampled_from([4, 4, 2, 0, 1]))
        tasks = nodes * max(per_node, 1) - draw(st.sampled_from([0, 0, 0, 1]))
        requests.append(
            Request(
                number,
                draw(st.integers(0, 150)),
                draw(st.integers(0, 400)),
                draw(st.sampled_from([20, 60, 120, 330, 600, 1500])),
                partitions=draw(st.sampled_from([("all",), ("all",), ("few",), ("all", "few")])),
                tasks=max(1, tasks),
                tasks_per_node=per_node,
                nodes=draw(st.sampled_from([nodes, nodes, 1])),
                most_nodes=draw(st.sampled_from([nodes, nodes, nodes, 0])),
                memory=draw(st.sampled_from([0, 0, 500])),
                features=draw(st.sampled_from([(), (), (), ("big",)])),
                gpus=int(nodes <= 2 and draw(st.booleans())),
                exclusive=draw(st.sampled_from([False, False, False, True])),
                switches=draw(st.sampled_from([0, 0, 0, 3])),
                time_min=draw(st.sampled_from([0, 0, 0, 60])),
            )
        )
    return requests


def counted_and_twin(cluster, requests, phases):
    """Return both schedules, and whether lists of nodes were made."""
    check = RequestCheck(cluster)
    requests = [request for request in requests if check.can_run(request)]
    simulation = _ClusterReplay(cluster, requests, phases)
    result = simulation.run()
    own = list(zip(result.start.tolist(), result.end.tolist(), map(tuple, result.nodes), strict=True))
    schedule = reference_replay(cluster, requests, phases)
    twin = [schedule.get(job, (-1, -1, ())) for job in range(len(requests))]
    return own, twin, bool(simulation.world.forms.epoch.any())


@examples(60)
@given(clusters(), logs(), st.builds(Phases, st.integers(0, 59), st.integers(0, 29), st.integers(0, 29)))
def test_counting_nodes_equals_the_twin(cluster, requests, phases):
    own, twin, _ = counted_and_twin(cluster, requests, phases)
    assert own == twin


def test_nodes_are_counted_but_where_others_must_go_or_nodes_are_reserved():
    cluster = SlurmCluster(
        tuple(Node(f"n{k}", 4, 800, {}, frozenset(), 1) for k in range(SIZE)),
        {"all": Partition("all", tuple(range(SIZE)))},
        (tuple(range(SIZE)),),
    )
    requests = [
        Request(k, k, 300, 600, partitions=("all",), tasks=50, tasks_per_node=1, nodes=50, most_nodes=50)
        for k in range(1, 6)
    ]
    own, twin, counted = counted_and_twin(cluster, requests, Phases())
    assert own == twin
    assert counted
    reserved = replace(cluster, outages=(Outage(400, 500, (0,), planned=True),))
    own, twin, counted = counted_and_twin(reserved, requests, Phases())
    assert own == twin
    assert not counted


def test_a_second_test_for_now_does_not_weigh_completing_nodes():
    # The nodes of job 1, which is killed at 130 s, weigh more in the first test of job 4 alone: the others
    # of its switches do not do.
    cluster = SlurmCluster(
        tuple(Node(f"n{k}", 4, 800, {}, frozenset(), 1) for k in range(SIZE)),
        {"all": Partition("all", tuple(range(SIZE)))},
        tuple(tuple(range(k, k + 10)) for k in range(10, SIZE, 10)),
        clocks=Clocks(bf_window=5, bf_max_job_test=4),
        outages=(Outage(100, 500, tuple(range(12, 30))),),
        version="24.11.5",
    )
    jobs = [(31, 131, 120), (53, 0, 20), (3, 0, 20), (30, 0, 20), (30, 0, 20), (11, 0, 20)]
    requests = [
        Request(
            k,
            0,
            run,
            limit,
            partitions=("all",),
            tasks=4 * nodes,
            tasks_per_node=4,
            nodes=nodes,
            most_nodes=nodes,
        )
        for k, (nodes, run, limit) in enumerate(jobs, start=1)
    ]
    own, twin, _ = counted_and_twin(cluster, requests, Phases(0, 0, 10))
    assert own == twin
    assert own[-1][0] == 160
