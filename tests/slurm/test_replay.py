"""The compiled replay against its twin in plain Python, job by job."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import gridtune as gt
from gridtune.batch.policies.rollout import OBJECTIVES
from gridtune.errors import PolicyError, WorkloadError
from gridtune.slurm.cluster import (
    MODES,
    Clocks,
    Node,
    Outage,
    Partition,
    PreemptClass,
    Preemption,
    Priorities,
    Qos,
    SlurmCluster,
)
from gridtune.slurm.comparison import replayed_waits
from gridtune.slurm.kernel.clocks import take_turn
from gridtune.slurm.kernel.ordering import Ordering, order_for_nodes
from gridtune.slurm.limits import Limit
from gridtune.slurm.replay import ClusterState, Phases, in_threads, replay
from gridtune.slurm.requests import Request, RequestCheck
from gridtune.workload.slurm import SlurmAccounts
from tests.conftest import examples
from tests.slurm.reference import Record, Reference, reference_replay

NODES = (
    Node("a1", 4, 400, {}, frozenset(), 1),
    Node("a2", 8, 400, {"x": 2}, frozenset({"big"}), 1),
    Node("b1", 4, 800, {}, frozenset(), 2),
    Node("b2", 4, 400, {"x": 1, "y": 1}, frozenset(), 1),
    Node("b3", 8, 800, {}, frozenset({"big"}), 1),
)
ACCOUNTS = SlurmAccounts(
    {"p": "root", "q": "root"}, {"p": 3, "q": 1}, {("p", "u"): 1, ("p", "v"): 2, ("q", "w"): 1}
)
RULES = Priorities(
    True, age=100, fair_share=1000, size=300, partition=200, qos=50, max_age=900, half_life=3600
)


TRES = replace(RULES, favor_small=True, tres={"cpu": 200.0, "mem": 300.0, "node": 70.0, "gres/gpu": 90.0})
CLASSIC = replace(RULES, fair_tree=False, dampening=2)
LIMITS = (
    Limit("jobs", 1, qos="hot"),
    Limit("cpu", 12, account="p"),
    Limit("cpu", 14, qos="hot", each="user"),
    Limit("jobs", 2, account="q", each="user"),
    Limit("mem", 900, account="root"),
    Limit("node", 3, account="p", user="u"),
    Limit("node", 2, qos="hot"),
    Limit("node", 2, account="root", each="user"),
    Limit("cpu", 9, qos="hot", each="job"),
    Limit("node", 2, account="root", each="job"),
    Limit("cpu minutes", 30, qos="hot"),
    Limit("cpu minutes", 60, account="root"),
    Limit("node minutes", 12, qos="hot", each="user"),
    Limit("mem minutes", 2000, account="p", each="job"),
    Limit("billing", 30, account="p"),
    Limit("billing minutes", 90, qos="few"),
    Limit("cpu", 6, qos="few", each="user"),
    Limit("jobs", 2, qos="few"),
    Limit("cpu", 9, qos="few", each="job"),
)
PREEMPTIONS = st.one_of(
    st.just(Preemption()),
    st.builds(
        lambda hot, none, low, youngest, strict, count, pause: Preemption(
            "qos", {"hot": hot, "low": low, "": none}, youngest, strict, count, pause
        ),
        st.builds(
            PreemptClass, st.just(7), preempts=st.sampled_from([frozenset({"low"}), frozenset({"low", ""})])
        ),
        st.builds(PreemptClass, st.just(0), st.sampled_from(MODES), st.sampled_from([0, 40])),
        st.builds(
            PreemptClass,
            st.sampled_from([0, 1]),
            st.sampled_from(MODES),
            st.sampled_from([0, 0, 45]),
            st.sampled_from([0, 100]),
        ),
        st.booleans(),
        st.booleans(),
        st.sampled_from([0, 1, 3]),
        st.sampled_from([40, 130]),
    ),
    st.builds(
        lambda mode, grace: Preemption(
            "partition",
            {
                "few": PreemptClass(2, mode, grace, 0, frozenset({"all"})),
                "all": PreemptClass(1, mode, grace, 0),
            },
        ),
        st.sampled_from(MODES[1:]),
        st.sampled_from([0, 35]),
    ),
)
VERSIONS = st.sampled_from(
    ["22.05", "22.05", "23.02.7", "23.11.1", "24.05", "24.11.5", "25.05.0", "25.11", "26.05"]
)
OUTAGES = st.builds(
    lambda start, length, nodes, planned: Outage(start, start + length, tuple(nodes), planned),
    st.integers(-50, 500),
    st.integers(1, 900),
    st.sets(st.integers(0, 4), min_size=1, max_size=3),
    st.booleans(),
)


@st.composite
def clusters(draw):
    partitions = {
        "all": Partition("all", (0, 1, 2, 3, 4), memory_per_cpu=draw(st.sampled_from([0, 60, 150]))),
        "few": Partition(
            "few",
            (1, 2),
            tier=draw(st.sampled_from([1, 2])),
            factor=3,
            max_time=600,
            exclusive=draw(st.booleans()),
            billing=draw(st.sampled_from([{}, {"cpu": 0.5, "mem": 0.25, "gres/gpu": 40.0}])),
            own_qos=draw(st.sampled_from(["", "few", "hot"])),
        ),
    }
    clocks = Clocks(
        bf_interval=draw(st.sampled_from([20, 45])),
        bf_resolution=draw(st.sampled_from([10, 60])),
        bf_window=draw(st.sampled_from([10, 1440])),
        bf_max_job_test=draw(st.sampled_from([4, 100])),
        bf_max_job_user=draw(st.sampled_from([0, 2])),
        bf_max_job_array_resv=draw(st.sampled_from([1, 20])),
        bf_job_part_count_reserve=draw(st.sampled_from([0, 0, 0, 1])),
        bf_max_job_start=draw(st.sampled_from([0, 1])),
        bf_min_age_reserve=draw(st.sampled_from([0, 60])),
        bf_min_prio_reserve=draw(st.sampled_from([0, 0, 350])),
        bf_window_linear=draw(st.sampled_from([0, 40])),
        default_queue_depth=draw(st.sampled_from([1, 100])),
        max_switch_wait=draw(st.sampled_from([0, 300])),
    )
    threads, one_task = draw(st.sampled_from([(1, False), (1, False), (2, False), (2, True), (4, True)]))
    records = draw(st.sampled_from([(0, 0, 0, 0, 0), (0, 1, 2, 2, 1)]))
    heaviest = draw(st.sampled_from([1, 2]))
    nodes = tuple(
        replace(
            node,
            threads=min(threads, node.cpus),
            one_task=one_task,
            record=record,
            weight=min(node.weight, heaviest),
        )
        for node, record in zip(NODES, records, strict=True)
    )
    return SlurmCluster(
        nodes,
        partitions,
        draw(st.sampled_from([(), ((0, 1), (2, 3, 4)), ((0, 2), (1, 3), (4,))])),
        draw(st.booleans()),
        clocks,
        draw(st.sampled_from([RULES, TRES, replace(TRES, normal_tres=False), CLASSIC, Priorities()])),
        {"hot": Qos("hot", 7, draw(st.sampled_from([1.0, 2.5])), draw(st.booleans()))},
        ACCOUNTS,
        limits=tuple(draw(st.lists(st.sampled_from(LIMITS), max_size=4, unique=True))),
        licences={"m": 3, "n": 1},
        outages=tuple(draw(st.lists(OUTAGES, max_size=2))),
        version=draw(VERSIONS),
        preemption=draw(PREEMPTIONS),
        least_loaded=draw(st.sampled_from([False, False, True])),
        requeue=draw(st.booleans()),
        kill_wait=draw(st.sampled_from([30, 0, 90])),
        overtime=draw(st.sampled_from([0, 0, 60])),
        zero=draw(st.sampled_from([0, 1767571537])),
    )


KINDS = st.sampled_from(["afterok", "afterany", "afternotok"])


@st.composite
def logs(draw):
    requests, spread = [], draw(st.sampled_from([False, False, True]))
    for number in range(1, draw(st.integers(1, 14)) + 1):
        partitions = draw(st.sampled_from([("all",), ("all",), ("few", "all"), ("all", "few")]))
        account, user = draw(st.sampled_from(list(ACCOUNTS.users)))
        shape = draw(st.sampled_from([(1, 0), (3, 0), (4, 4), (8, 4), (9, 0), (2, 1), (12, 0)]))
        nodes = draw(st.sampled_from([1, 1, 2]))
        requests.append(
            Request(
                number,
                draw(st.integers(0, 400)),
                draw(st.integers(0, 500)),
                60 * draw(st.integers(1, 9)),
                user,
                account,
                partitions,
                draw(st.sampled_from(["", "hot", "low", "low"])),
                *shape,
                nodes=nodes,
                most_nodes=draw(st.sampled_from([0, 0, 3])),
                memory=draw(st.sampled_from([0, 0, 300, -1])),
                gpus=draw(st.sampled_from([0, 0, 1])) if shape[0] < 4 else 0,
                features=draw(st.sampled_from([(), (), ("big",)])),
                exclusive=draw(st.sampled_from([False, False, False, True])),
                nice=draw(st.sampled_from([0, 30])),
                after=tuple(draw(st.lists(st.tuples(KINDS, st.integers(1, number)), max_size=2))),
                after_any=draw(st.booleans()),
                name=draw(st.sampled_from(["", "x"])),
                singleton=draw(st.sampled_from([False, False, True])),
                failed=draw(st.booleans()),
                requeue=draw(st.sampled_from([None, None, False])),
                node_list=draw(st.sampled_from([(), (), (), (), ("b3",), ("a2", "b1")])),
                exclude=draw(st.sampled_from([(), (), (), ("b3",), ("a1", "b2")])),
                licences=draw(st.sampled_from([(), (), ("m",), ("m:2", "n")])),
                begin=draw(st.sampled_from([0, 0, 0, 333])),
                cpus_per_task=draw(st.sampled_from([1, 1, 2, 3])) if shape[0] < 4 else 1,
                threads=draw(st.sampled_from([0, 0, 1])),
                contiguous=draw(st.sampled_from([False, False, True])),
                spread=spread and draw(st.booleans()),
                switches=draw(st.sampled_from([0, 0, 0, 1, 2])),
                switch_wait=draw(st.sampled_from([40, 500])),
                time_min=draw(st.sampled_from([0, 0, 0, 60, 150])),
                deadline=draw(st.sampled_from([0, 0, 0, 500, 1200])),
            )
        )
    # Some jobs become arrays of up to four tasks.
    arrays = draw(st.sets(st.integers(1, len(requests)), max_size=2))
    for number in arrays:
        most, head = draw(st.sampled_from([0, 2])), requests[number - 1]
        requests[number - 1] = replace(head, array=number, array_most=most)
        requests += [
            replace(head, number=100 * number + task, array=number, task=task, array_most=most)
            for task in range(1, draw(st.integers(1, 4)))
        ]
    return requests


@examples(100)
@given(
    clusters(),
    logs(),
    st.tuples(st.integers(0, 59), st.integers(0, 19), st.integers(0, 29), st.integers(0, 299)),
)
def test_the_kernel_equals_its_twin(cluster, requests, phases):
    phases = Phases(*phases)
    try:
        result = replay(cluster, requests, phases)
    except WorkloadError:
        return
    schedule = reference_replay(cluster, requests, phases)
    own = [
        (int(s), int(e), tuple(map(int, n)))
        for s, e, n in zip(result.start, result.end, result.nodes, strict=True)
    ]
    assert own == [schedule.get(job, (-1, -1, ())) for job in range(len(requests))]


@examples(60)
@given(clusters(), logs(), st.integers(0, 5))
def test_a_replay_that_ends_early_starts_what_is_needed_as_a_whole_one_does(cluster, requests, needed):
    cluster = replace(cluster, preemption=Preemption())
    late = replace(requests[0], number=10**6, submit=10**5, array=0, after=())
    try:
        whole = replay(cluster, [*requests, late])
    except WorkloadError:
        return
    part = replay(cluster, [*requests, late], needed=needed)
    np.testing.assert_array_equal(part.start[:needed], whole.start[:needed])
    if (whole.start[:needed] >= 0).all() and needed <= len(requests):
        assert part.start[-1] == -1


def oldest_third(job, share=3.0):
    """A function of a user's: it may be compiled for whole numbers or for floating point."""
    return -job.wait / share + job.walltime % 7


ORDERS = st.sampled_from(
    [
        *("fcfs", "sjf", "ljf", "saf", "laf", "narrowest", "widest", "wfp3", "wfp3(exponent=2)", "unicef"),
        *("xfactor", "f1", "f2", "f3", "f4", "edf(slack=2)", "wait / walltime - now * processors"),
        oldest_third,
    ]
)
#: Rollouts with small windows, and portfolios that rarely agree.
ROLLOUTS = st.builds(
    "rollout(objective={}, window={}, moves={}{})".format,
    st.sampled_from(OBJECTIVES),
    st.sampled_from([2, 3, 5, 64]),
    st.sampled_from([0, 0, 1, 7, 60]),
    st.sampled_from(
        [
            *("", ", portfolio=fcfs", ", portfolio=sjf | widest | 3 * wait - walltime"),
            ", window_by=orders, backlog=100, arrivals=5",
        ]
    ),
)


@st.composite
def crowds(draw):
    """Jobs that come faster than they can run; few wait for others."""
    some = [replace(one, after=one.after[:1] if one.after_any else ()) for one in draw(logs())]
    more = [replace(one, number=one.number + 5000, after=(), array=0) for one in draw(logs())]
    return [replace(one, submit=one.submit // 8, singleton=False) for one in some + more]


@st.composite
def heterogeneous(draw):
    """Jobs in crowds, some of which are components of others."""
    jobs = [replace(one, time_min=0, deadline=0, after=()) for one in draw(crowds()) if not one.array]
    for number in range(9001, 9001 + draw(st.integers(1, 3))):
        submit = draw(st.integers(0, 60))
        for place in draw(st.sets(st.integers(0, max(1, len(jobs) - 1)), min_size=2, max_size=3)):
            if place < len(jobs):
                jobs[place] = replace(jobs[place], component_of=number, submit=submit)
    return jobs


def able(cluster, requests):
    """Return the jobs that the cluster can run."""
    check = RequestCheck(cluster)
    return [one for one in requests if check.can_run(one)]


@examples(100)
@given(
    clusters(),
    logs(),
    st.builds(Phases, st.integers(0, 59), st.integers(0, 19), st.integers(0, 29), st.integers(0, 299)),
    ORDERS | ROLLOUTS,
    st.sampled_from([None, None, 0, 90, 400]),
)
def test_an_order_equals_its_twin(cluster, requests, phases, order, guard):
    try:
        result = replay(cluster, requests, phases, order=order, guard=guard)
    except WorkloadError:
        return
    schedule = reference_replay(cluster, requests, phases, score=order_for_nodes(order), guard=guard)
    own = list(zip(result.start.tolist(), result.end.tolist(), map(tuple, result.nodes), strict=True))
    assert own == [schedule.get(job, (-1, -1, ())) for job in range(len(requests))]


def without_preemption():
    """Clusters whose backfill starts jobs that find a place."""
    return clusters().map(lambda one: replace(one, preemption=Preemption(), backfill=True))


@examples(100)
@given(without_preemption(), heterogeneous(), st.builds(Phases, st.integers(0, 59), st.integers(0, 19)))
def test_heterogeneous_jobs_equal_their_twin(cluster, requests, phases):
    requests = able(cluster, requests)
    assume(requests)
    result = replay(cluster, requests, phases)
    schedule = reference_replay(cluster, requests, phases)
    own = list(zip(result.start.tolist(), result.end.tolist(), map(tuple, result.nodes), strict=True))
    assert own == [schedule.get(job, (-1, -1, ())) for job in range(len(requests))]
    for number in {one.component_of for one in requests} - {0}:
        starts = {result.start[k] for k, one in enumerate(requests) if one.component_of == number}
        assert len(starts) == 1


@examples(80)
@given(clusters(), crowds(), ROLLOUTS, st.sampled_from([None, None, 60, 400]))
def test_a_rollout_equals_its_twin(cluster, requests, order, guard):
    requests = able(cluster, requests)
    assume(requests)
    result = replay(cluster, requests, order=order, guard=guard)
    schedule = reference_replay(cluster, requests, Phases(), score=order_for_nodes(order), guard=guard)
    assert result.start.tolist() == [schedule.get(job, (-1,))[0] for job in range(len(requests))]


def test_a_replay_looks_for_its_machine_code_once(monkeypatch):
    """By the types of callbacks it takes milliseconds, and each period of the priority has three calls."""
    kernel, looks = type(take_turn), []
    find = kernel.typeof_pyval
    monkeypatch.setattr(kernel, "typeof_pyval", lambda self, value: looks.append(value) or find(self, value))
    cluster = SlurmCluster(NODES, {"all": Partition("all", (0, 1, 2, 3, 4))}, priorities=RULES)
    jobs = [Request(number, 0, 3000, 6000, partitions=("all",), tasks=20) for number in range(4)]
    replay(cluster, jobs, order="saf")
    assert sum(isinstance(value, Ordering) for value in looks) == 1


class Ranking(gt.Policy):
    """Names all waiting jobs, by their area."""

    def decide(self, state):
        assert 0 <= state.free <= state.total <= 28
        assert len(state.running.requested_end) == len(state.running)
        assert (state.running.start_time <= state.now).all()
        jobs = state.waiting
        assert (jobs.wait == state.now - jobs.submit_time).all()
        return np.lexsort((jobs.job, jobs.processors * jobs.walltime))


@examples(60)
@given(clusters(), crowds(), st.sampled_from([None, 0, 90, 400]))
def test_a_policy_that_decides_is_an_order(cluster, requests, guard):
    requests = able(cluster, requests)
    decided, ordered = (replay(cluster, requests, order=order, guard=guard) for order in (Ranking(), "saf"))
    assert decided.start.tolist() == ordered.start.tolist()
    assert list(map(tuple, decided.nodes)) == list(map(tuple, ordered.nodes))


def test_what_a_policy_may_not_decide_on_nodes():
    requests = [Request(number, 0, 9, 60, partitions=("all",)) for number in (7, 8)]
    for decision, words in (
        (lambda state: [2], "'Deciding' names row 2 of 2 waiting jobs at second 0"),
        (lambda state: gt.Decision([0], {1: 60}), "makes reservations; on nodes, Slurm's passes do"),
        (
            lambda state: state.waiting.user,
            r"(?s)fails: these jobs have no column 'user'.* at second 0, for job 7",
        ),
        (lambda state: state.ended.run_time, "no column 'run_time'"),
    ):
        deciding = type(
            "Deciding", (gt.Policy,), {"decide": lambda self, state, chosen=decision: chosen(state)}
        )
        cluster = SlurmCluster(NODES, {"all": Partition("all", (0, 1, 2, 3, 4))})
        with pytest.raises(PolicyError, match=words):
            replay(cluster, requests, order=deciding())


@examples(60)
@given(clusters(), crowds(), ORDERS | ROLLOUTS, st.sampled_from([None, 90]), st.integers(1, 600), st.data())
def test_no_run_time_decides_before_its_job_has_ended(cluster, requests, order, guard, now, data):
    cluster = replace(cluster, preemption=Preemption())
    requests = able(cluster, requests)
    before = replay(cluster, requests, order=order, guard=guard)
    ended = (before.start >= 0) & (before.end <= now)
    # What has started goes on until now at least.
    least = np.where(before.start >= 0, np.maximum(now - before.start, 0), 0).tolist()
    changed = [
        one if done else replace(one, run_time=shortest + data.draw(st.integers(0, 500)))
        for one, done, shortest in zip(requests, ended, least, strict=True)
    ]
    after = replay(cluster, changed, order=order, guard=guard)
    begun = [
        np.where((result.start >= 0) & (result.start < now), result.start, now) for result in (before, after)
    ]
    np.testing.assert_array_equal(*begun)


@examples(40)
@given(clusters(), logs(), st.integers(60, 300), st.integers(0, 10**6))
def test_a_start_that_is_not_empty_equals_its_twin(cluster, requests, now, used):
    # What runs is what a replay had running then.
    requests = [replace(request, partitions=request.partitions[:1]) for request in requests]
    try:
        before = replay(cluster, requests)
    except WorkloadError:
        return
    running = {
        k: (int(before.start[k]), tuple(map(int, before.nodes[k])))
        for k, request in enumerate(requests)
        if before.start[k] <= now < min(before.end[k], before.start[k] + max(1, request.run_time))
    }
    kept = [k for k in range(len(requests)) if k in running or not 0 <= before.start[k] <= now]
    requests = [requests[k] for k in kept]
    running = {kept.index(k): value for k, value in running.items()}
    if not requests:
        return
    start = ClusterState(now, running, {("p", "u"): used})
    try:
        result = replay(cluster, requests, Phases(), start)
    except WorkloadError as error:
        # A state names a job's nodes but not its processors on each, and jobs that have ended by now
        # may have left others than those that are tried.
        assert "cannot hold it beside the others" in str(error)  # noqa: PT017
        return
    schedule = reference_replay(cluster, requests, Phases(), start)
    own = list(zip(result.start.tolist(), result.end.tolist(), map(tuple, result.nodes), strict=True))
    assert own == [schedule.get(job, (-1, -1, ())) for job in range(len(requests))]


def test_jobs_of_more_nodes_get_what_those_of_fewer_leave() -> None:
    # On empty nodes job 1 would have 2 processors of each, and leave too few for job 2.
    jobs = [request(1, 0, 99, 120, 4), request(2, 0, 99, 120, 3)]
    state = ClusterState(50, {0: (10, (0, 1)), 1: (20, (1,))})
    result = replay(cluster_of(), jobs, start=state)
    assert [part.tolist() for part in result.cpus] == [[3, 1], [3]]


@pytest.mark.parametrize(
    ("running", "message"),
    [
        ({0: (5, (0,))}, "job 1 runs at 50, but not by its times"),
        ({0: (20, (0, 0))}, "outside its partitions"),
        ({0: (20, (0,)), 1: (20, (0,))}, "job 2 runs at 50, but its nodes cannot hold it"),
    ],
)
def test_a_state_that_cannot_be_is_refused(running, message):
    jobs = [request(1, 10, 99, 120, 3), request(2, 10, 99, 120, 3)]
    with pytest.raises(WorkloadError, match=message):
        replay(cluster_of(), jobs, start=ClusterState(50, running))


def cluster_of(version="22.05", **clocks):
    nodes = (Node("n1", 4, 100, {}, frozenset(), 1), Node("n2", 4, 100, {}, frozenset(), 1))
    return SlurmCluster(nodes, {"all": Partition("all", (0, 1))}, clocks=Clocks(**clocks), version=version)


def request(number, submit, run, limit, tasks, per_node=0):
    return Request(number, submit, run, limit, "u", "a", ("all",), "", tasks, per_node)


def test_a_job_over_its_limit_ends_when_limits_are_looked_at():
    result = replay(cluster_of(), [request(1, 0, 999, 60, 1)], Phases(timeout=7))
    start = int(result.start[0])
    assert result.end[0] == next(t for t in range(start + 60, start + 91) if t % 30 == 7)


def test_a_job_past_its_limit_that_must_make_room_ends_at_the_next_look():
    few = {"low": PreemptClass(0, "cancel", grace=35), "hot": PreemptClass(1, preempts=frozenset({"low"}))}
    cluster = replace(cluster_of(), overtime=600, preemption=Preemption("qos", few))
    jobs = [
        replace(request(1, 0, 900, 60, 8, 4), qos="low"),
        replace(request(2, 100, 9, 60, 8, 4), qos="hot"),
    ]
    result = replay(cluster, jobs, Phases(timeout=7))
    assert result.end[0] == 127
    assert result.start[1] == 128


def test_a_replay_ends_where_jobs_make_room_in_circles():
    # Job 2 gets a whole node, which its limit does not allow: job 1 makes room for it again and again.
    classes = {"low": PreemptClass(0, "requeue"), "hot": PreemptClass(1, preempts=frozenset({"low"}))}
    limits = (Limit("cpu minutes", 30, qos="hot"),)
    cluster = replace(cluster_of(), limits=limits, preemption=Preemption("qos", classes), backfill=False)
    low = replace(request(1, 0, 900, 900, 8, 4), qos="low")
    hot = replace(request(2, 5, 9, 600, 1), qos="hot", exclusive=True)
    assert replay(cluster, [low, hot]).start.tolist() == [-1, -1]
    assert reference_replay(cluster, [low, hot], Phases()) == {}
    # A third job that comes later has its turn.
    late = request(3, 10**6, 9, 60, 1)
    assert replay(cluster, [low, hot, late]).start[2] >= 10**6
    # Two nodes with such jobs, of which one always runs.
    cluster = replace(cluster, partitions={"a": Partition("a", (0,)), "b": Partition("b", (1,))})
    low, hot = (replace(job, tasks=min(job.tasks, 4), partitions=("a",)) for job in (low, hot))
    beside = [
        replace(low, number=3, submit=30, partitions=("b",)),
        replace(hot, number=4, partitions=("b",)),
    ]
    assert replay(cluster, [low, hot, *beside]).start.tolist() == [-1, -1, -1, -1]
    assert reference_replay(cluster, [low, hot, *beside], Phases()) == {}
    # A long job beside the circles ends, and so does one that begins late.
    long = Request(3, 0, 10**5, 2 * 10**5, "u", "a", ("b",), "low", 4)
    begins = Request(4, 0, 9, 60, "u", "a", ("b",), "low", begin=3 * 10**5)
    result = replay(cluster, [low, hot, long, begins])
    assert result.end.tolist() == [-1, -1, 10**5, result.start[3] + 9]
    assert result.start[3] >= 3 * 10**5


def test_a_job_that_never_starts_has_no_wait():
    # It asks for one processor, which its limit allows, and gets the four of a node.
    cluster = replace(cluster_of(), limits=(Limit("cpu", 3, account="a"),))
    jobs = [request(1, 0, 9, 60, 1), replace(request(2, 5, 9, 60, 1), exclusive=True)]
    assert replay(cluster, jobs).start.tolist() == [0, -1]
    with pytest.raises(WorkloadError, match="1 of 2 jobs never start; the first is job 2 of u"):
        replayed_waits(cluster, jobs, draws=2, seed=1)


def test_a_full_pass_takes_the_place_of_one_that_was_asked_for():
    # The end of job 1 asks for a pass at 5, the full one is at 2: job 2 need not wait until 5 + 3.
    jobs = [request(1, 0, 1, 60, 1), request(2, 6, 1, 60, 1)]
    assert replay(cluster_of(), jobs, Phases(full=2)).start.tolist() == [0, 6]


def test_a_later_job_that_would_delay_a_plan_waits():
    # Job 2 needs both nodes at 600; job 3 would hold one until 900, job 4 ends before.
    jobs = [request(1, 0, 600, 600, 4, 4), request(2, 1, 60, 600, 8, 4), request(3, 2, 900, 900, 4, 4),
            request(4, 3, 60, 300, 4, 4)]  # fmt: skip
    start = replay(cluster_of(), jobs).start
    assert start[3] < 60
    assert 600 <= start[1] < start[2]


def test_a_job_that_no_node_can_hold_is_refused():
    with pytest.raises(WorkloadError, match="job 1: no partition of all can hold it"):
        replay(cluster_of(), [request(1, 0, 1, 60, 5, 5)])
    with pytest.raises(WorkloadError, match="job 1: no partition 'none'"):
        replay(cluster_of(), [replace(request(1, 0, 1, 60, 1), partitions=("none",))])


@pytest.mark.parametrize(
    ("job", "fits"),
    [
        ({"tasks": 28, "nodes": 5}, True),
        ({"tasks": 29, "nodes": 5}, False),
        ({"tasks": 16, "most_nodes": 2}, True),
        ({"tasks": 17, "most_nodes": 2}, False),
        ({"tasks": 20, "most_nodes": 3}, True),
        ({"tasks": 21, "most_nodes": 3}, False),
        ({"features": ("big",), "nodes": 2}, True),
        ({"features": ("big",), "nodes": 3}, False),
        ({"gpus": 1, "nodes": 2}, True),
        ({"gpus": 1, "gpu_type": "y", "nodes": 2}, False),
        ({"memory": 800, "nodes": 2}, True),
        ({"memory": 800, "nodes": 3}, False),
    ],
)
def test_a_job_fits_on_the_largest_nodes_that_suit_it(job, fits):
    cluster = SlurmCluster(NODES, {"all": Partition("all", (0, 1, 2, 3, 4))})
    assert RequestCheck(cluster).can_run(Request(1, 0, 10, 60, partitions=("all",), **job)) == fits


def test_a_node_counts_once_towards_a_limit_on_nodes() -> None:
    cluster = replace(cluster_of(), limits=(Limit("node", 1, account="a"),))
    # The first three share node n1; the fourth would need the other one.
    jobs = [request(k, 0, 100, 120, 1) for k in (1, 2, 3)] + [request(4, 1, 10, 60, 4)]
    result = replay(cluster, jobs)
    assert result.start[:3].tolist() == [0, 0, 0]
    assert result.start[3] >= 100


def test_weights_of_tres_are_those_of_the_whole_partition() -> None:
    # Job 2 asks for all processors: 300, or 2,400 unless normal. Job 3 asks for all memory and a quarter of
    # the processors: 275, or 40,600.
    rules = Priorities(True, tres={"cpu": 300.0, "mem": 200.0})
    wide, large = request(2, 1, 9, 60, 8), replace(request(3, 1, 9, 60, 2), memory=100, nodes=2)
    for normal in (True, False):
        cluster = replace(cluster_of(), priorities=replace(rules, normal_tres=normal), backfill=False)
        _, second, third = replay(cluster, [request(1, 0, 9, 60, 8), wide, large]).start
        assert (second < third) == normal


@pytest.mark.parametrize("clocks", [{"bf_min_age_reserve": 500}, {"bf_min_prio_reserve": 1 << 33}, {}])
def test_a_job_too_young_or_too_low_for_a_plan_does_not_block_its_partition(clocks) -> None:
    # Job 2 does not fit beside job 1; job 3 does.
    jobs = [request(1, 0, 60, 60, 6), request(2, 1, 9, 60, 6), request(3, 1, 9, 60, 2)]
    start = replay(replace(cluster_of(**clocks), backfill=False), jobs).start
    assert (start[2] < 10) == bool(clocks)


@pytest.mark.parametrize(("zero", "end"), [(0, 660), (1767571550, 670)])
def test_plans_end_on_a_grid_that_begins_in_1970(zero, end) -> None:
    cluster = replace(cluster_of(), nodes=(Node("n1", 4, 100, {}, frozenset(), 1),), zero=zero)
    cluster = replace(cluster, partitions={"all": Partition("all", (0,))})
    twin = Reference(cluster, [request(1, 0, 600, 630, 4), request(2, 1, 60, 60, 4)])
    twin.begin(twin.share(twin.free, 0, "all", [0], 0))
    assert twin.backfill_pass([Record(1, "all", 9)], 30)[1][0].end == end


def test_a_singleton_waits_for_all_jobs_of_its_user_and_name():
    one = [replace(request(k, k, 100, 120, 1), name="x", singleton=k > 2) for k in range(1, 5)]
    other = replace(one[0], number=5, submit=5, user="v", name="x", singleton=True)
    result = replay(cluster_of(), [*one, other])
    assert result.start[1] < 100
    assert result.end[:2].max() <= result.start[2] < result.end[2] <= result.start[3]
    assert result.start[4] < 100


def test_minutes_that_run_shrink_at_each_tick_and_are_given_back_at_the_end() -> None:
    # Each job has 4 processors for 20 minutes: 80 of the 100 minutes that all may have.
    rules = Priorities(multifactor=True, period=300)
    limits = (Limit("cpu minutes", 100, account="root"),)
    cluster = replace(cluster_of(), priorities=rules, limits=limits)
    jobs = [request(k, 0, run, 1200, 4) for k, run in ((1, 1200), (2, 100), (3, 100))]
    start = replay(cluster, jobs, Phases(0, 0, 0, 0)).start.tolist()
    # 60 are left of job 1's after 5 minutes, and 20 after 15: the first with room for 80 more.
    assert start[0] == 0
    assert 900 <= start[1] < 960
    # Job 2 ends early, and what it had is free at once.
    assert start[1] + 100 <= start[2] < start[1] + 160
    alone = [request(1, 0, 50, 1560, 4)]
    with pytest.raises(WorkloadError, match="asks for 104 of cpu minutes, but a limit allows 100"):
        replay(cluster, alone)


def test_a_job_over_what_one_may_have_is_refused_and_others_run_beside_each_other():
    cluster = replace(cluster_of(), limits=(Limit("cpu", 3, account="root", each="job"),))
    assert replay(cluster, [request(k, 0, 50, 60, 3) for k in (1, 2)]).start.tolist() == [0, 0]
    with pytest.raises(WorkloadError, match="job 1: asks for 4 of cpu, but a limit allows 3"):
        replay(cluster, [request(1, 0, 50, 60, 4)])
    # The nearest account's limit holds, and that of a QOS before it.
    nearer = (*cluster.limits, Limit("cpu", 4, account="a", each="job"))
    assert RequestCheck(replace(cluster, limits=nearer)).can_run(request(1, 0, 50, 60, 4))
    of_qos_ = (*nearer, Limit("cpu", 8, qos="hot", each="job"))
    assert RequestCheck(replace(cluster, limits=of_qos_)).can_run(of_qos("hot", 1, 0, 50, 60, 8))


def test_requests_may_come_in_any_order():
    jobs = [request(k, 10 * k, 50, 60, 4, 4) for k in range(1, 6)]
    one, other = replay(cluster_of(), jobs), replay(cluster_of(), jobs[::-1])
    np.testing.assert_array_equal(one.start, other.start[::-1])


def preempting(mode="requeue", **changes):
    """Return a cluster of two nodes on which `high` takes the place of `low`."""
    classes = {"low": PreemptClass(0, mode), "high": PreemptClass(9, preempts=frozenset({"low"}))}
    return replace(cluster_of(), preemption=Preemption("qos", classes, **changes))


def of_qos(qos, *values):
    return replace(request(*values), qos=qos)


def test_a_job_that_makes_room_starts_again_two_minutes_later():
    jobs = [of_qos("low", 1, 0, 500, 600, 4, 4), of_qos("low", 2, 0, 500, 600, 4, 4),
            of_qos("high", 3, 100, 50, 60, 4, 4)]  # fmt: skip
    result = replay(preempting(), jobs)
    # The first of two equal ones goes; its nodes are free a second later.
    assert result.start[2] - jobs[2].submit <= 4
    gone = int(result.start[2]) - 1
    assert gone + 121 <= result.start[0] <= gone + 121 + 5
    assert result.end[0] - result.start[0] == 500
    assert result.start[1] == 0


def test_a_job_that_may_not_be_requeued_ends():
    jobs = [replace(of_qos("low", 1, 0, 500, 600, 8, 4), requeue=False), of_qos("high", 2, 100, 50, 60, 8, 4)]
    result = replay(preempting(), jobs)
    assert result.start[0] == 0
    assert result.end[0] == result.start[1] - 1


def test_a_small_job_goes_before_a_large_one():
    # Either one's nodes would do.
    jobs = [of_qos("low", 1, 0, 500, 600, 4, 2), of_qos("low", 2, 10, 500, 600, 2, 2),
            of_qos("high", 3, 100, 50, 60, 4, 2)]  # fmt: skip
    result = replay(preempting("cancel"), jobs)
    assert result.end[1] == result.start[2] - 1
    assert result.end[0] == result.start[0] + 500


def test_grace_is_kept():
    cluster = preempting()
    classes = cluster.preemption.classes | {"low": PreemptClass(0, "cancel", grace=60)}
    cluster = replace(cluster, preemption=replace(cluster.preemption, classes=classes))
    jobs = [of_qos("low", 1, 0, 500, 600, 8, 4), of_qos("high", 2, 100, 50, 60, 8, 4)]
    assert 160 <= replay(cluster, jobs).end[0] <= 195


def test_a_main_pass_follows_a_submission_by_three_seconds_after_the_last():
    # Job 1 starts at once; the next pass is three seconds later, also for what ends in between.
    jobs = [request(1, 100, 1, 60, 8, 4), request(2, 101, 5, 60, 8, 4)]
    assert replay(cluster_of(), jobs, Phases(full=50)).start.tolist() == [100, 103]


@pytest.mark.parametrize(("version", "end"), [("22.05", 660), ("25.11", 720)])
def test_plans_end_rounded_as_in_the_release(version, end):
    # Job 2 is planned from 630 for 39 s.
    cluster = replace(cluster_of(version), nodes=(Node("n1", 4, 100, {}, frozenset(), 1),))
    cluster = replace(cluster, partitions={"all": Partition("all", (0,))})
    twin = Reference(cluster, [request(1, 0, 600, 630, 4), request(2, 1, 60, 39, 4), request(3, 2, 9, 30, 4)])
    twin.begin(twin.share(twin.free, 0, "all", [0], 0))
    plans = twin.backfill_pass([Record(1, "all", 9), Record(2, "all", 8)], 30)[1]
    assert plans[0].end == end


@pytest.mark.parametrize(("version", "start"), [("22.05", 610), ("25.11", 600)])
def test_a_predicted_start_is_the_last_end_of_the_group_or_of_the_nodes_chosen(version, start):
    # Jobs 1 and 2 are taken away together, and job 3 needs only the node of the first.
    twin = Reference(
        cluster_of(version), [request(k, 0, 600, 600, 4) for k in (1, 2)] + [request(3, 1, 9, 60, 4)]
    )
    for job, began in ((0, 0), (1, 10)):
        twin.begin(twin.share(twin.free, job, "all", [job], began))
    assert twin.will_run(2, "all", 0b11, 30) == (start, [0])


@pytest.mark.parametrize(("version", "node"), [("22.05", 1), ("23.02", 0)])
def test_later_releases_show_a_job_no_more_processors_than_it_wants(version, node) -> None:
    # Job 1 leaves 3 processors of the second node, which fit job 2 more tightly.
    jobs = [request(1, 0, 99, 120, 1), request(2, 10, 9, 60, 1, 1)]
    result = replay(cluster_of(version), jobs, start=ClusterState(10, {0: (0, (1,))}))
    assert result.nodes[1].tolist() == [node]


@pytest.mark.parametrize(("version", "first"), [("22.05", 2), ("23.11.1", 2), ("23.11.2", 1)])
def test_the_size_of_a_job_counts_the_nodes_that_its_tasks_need_in_later_releases(version, first) -> None:
    # Of 2 nodes and 8 processors job 1 asks for one and 8, or both; job 2 for both, and 7.
    rules = Priorities(True, size=1000)
    jobs = [request(3, 0, 9, 60, 8, 4), request(1, 1, 9, 60, 8, 4), replace(request(2, 1, 9, 60, 7), nodes=2)]
    _, one, other = replay(replace(cluster_of(version), priorities=rules, backfill=False), jobs).start
    assert (one < other) == (first == 1)


@pytest.mark.parametrize(
    ("version", "start"), [("24.05", 600), ("24.11", 30), ("25.05.0", 30), ("24.11.5", 30)]
)
def test_a_test_for_later_takes_away_first_what_ends_before(version, start) -> None:
    twin = Reference(cluster_of(version), [request(1, 0, 600, 600, 4), request(2, 1, 9, 60, 8)])
    twin.begin(twin.share(twin.free, 0, "all", [0], 0))
    # It is then the instant of the test, not the end, from which the job is planned.
    assert twin.will_run(1, "all", 0b11, 30, begin=660) == (start, [0, 1])
    assert twin.will_run(1, "all", 0b11, 30, begin=30, later=630) == (600, [0, 1])
    later = None if version != "24.05" else 600
    assert twin.will_run(1, "all", 0b11, 30, begin=30, later=590)[0] == later


@pytest.mark.parametrize(("version", "start"), [("24.11.5", 600), ("25.05.0", 30)])
def test_what_ends_at_the_instant_of_a_test_has_ended_since_25_05(version, start) -> None:
    twin = Reference(cluster_of(version), [request(1, 0, 600, 600, 4), request(2, 1, 9, 60, 8)])
    twin.begin(twin.share(twin.free, 0, "all", [0], 0))
    assert twin.will_run(1, "all", 0b11, 30, begin=600)[0] == start


@pytest.mark.parametrize(("version", "node"), [("25.11", 4), ("26.05", 0)])
def test_a_job_of_one_node_does_not_look_at_switches_since_26_05(version, node) -> None:
    cluster = replace(cluster_of(version), nodes=NODES, leaves=((0, 1, 2, 3), (4,)))
    cluster = replace(cluster, partitions={"all": Partition("all", tuple(range(5)))})
    assert replay(cluster, [request(1, 0, 9, 60, 2, 2)]).nodes[0].tolist() == [node]


@pytest.mark.parametrize(("version", "slot"), [("22.05", (600, 600)), ("25.11", (600, 660))])
def test_a_plan_lasts_a_step_at_least_in_later_releases(version, slot):
    cluster = replace(cluster_of(version), nodes=(Node("n1", 4, 100, {}, frozenset(), 1),))
    cluster = replace(cluster, partitions={"all": Partition("all", (0,))})
    twin = Reference(cluster, [request(1, 0, 600, 600, 4), request(2, 1, 9, 20, 4)])
    twin.begin(twin.share(twin.free, 0, "all", [0], 0))
    (plan,) = twin.backfill_pass([Record(1, "all", 9)], 30)[1]
    assert (plan.start // 60 * 60, plan.end) == slot


def test_a_job_runs_on_the_nodes_of_its_list_and_on_none_that_it_excludes() -> None:
    cluster = SlurmCluster(NODES, {"all": Partition("all", (0, 1, 2, 3, 4))}, version="22.05")
    jobs = [
        Request(1, 0, 100, 600, "u", "p", ("all",), tasks=1, node_list=("b3",)),
        Request(2, 0, 100, 600, "u", "p", ("all",), tasks=2, exclude=("a1", "b1", "b2", "b3")),
        Request(3, 0, 100, 600, "u", "p", ("all",), tasks=8, most_nodes=1, node_list=("b3",)),
        Request(4, 0, 100, 600, "u", "p", ("all",), tasks=4, node_list=("b2", "b1")),
    ]
    result = replay(cluster, jobs)
    assert [tuple(nodes) for nodes in result.nodes] == [(4,), (1,), (4,), (2, 3)]
    # The third waits for its node; the fourth does not wait for the third.
    assert result.start[2] >= 100 > result.start[3]
    with pytest.raises(WorkloadError, match="can hold it"):
        replay(cluster, [replace(jobs[0], node_list=("c9",))])


def test_a_job_may_take_all_memory_of_a_node() -> None:
    cluster = SlurmCluster(NODES[:1], {"all": Partition("all", (0,), memory_per_cpu=10)})
    jobs = [Request(k, 0, 100, 600, "u", "p", ("all",), memory=-1 if k == 2 else 0) for k in (1, 2, 3)]
    start = replay(cluster, jobs).start
    # It waits until nobody has memory of the node, and then nobody gets any.
    assert start[0] < 5
    assert start[2] >= start[1] + 100 >= 200
    assert max(replay(replace(cluster, memory_counts=False), jobs).start) < 5


def test_licences_are_counted_and_a_job_that_lacks_some_blocks_nobody() -> None:
    cluster = SlurmCluster(NODES, {"all": Partition("all", (0, 1, 2, 3, 4))}, licences={"m": 2})
    jobs = [
        Request(k, 0, 100, 600, "u", "p", ("all",), licences=("m:2",) if k < 3 else ()) for k in (1, 2, 3)
    ]
    start = replay(cluster, jobs).start
    assert max(start[0], start[2]) < 5
    assert start[1] >= 100
    with pytest.raises(WorkloadError, match="3 of licence m, but there are 2"):
        replay(cluster, [replace(jobs[0], licences=("m:3",))])


def test_a_job_starts_no_earlier_than_its_time_to_begin() -> None:
    cluster = SlurmCluster(NODES, {"all": Partition("all", (0, 1, 2, 3, 4))})
    jobs = [Request(1, 0, 10, 600, "u", "p", ("all",), begin=500), Request(2, 0, 10, 600, "u", "p", ("all",))]
    start = replay(cluster, jobs).start
    # The next full pass finds it.
    assert start[1] < 5
    assert 500 <= start[0] <= 560


@pytest.mark.parametrize("cores", [1, 2])
def test_draws_run_at_once_with_the_same_results(monkeypatch, cores) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(cores)))
    cluster, jobs = cluster_of(), [request(k, 10 * k, 50, 60, 4, 4) for k in range(1, 9)]
    waits = replayed_waits(cluster, jobs, 6, 0)
    for draw in range(6):
        phases = Phases.draw(cluster, np.random.default_rng([0, draw]))
        start = replay(cluster, jobs, phases).start
        assert waits[draw].tolist() == [int(at) - job.submit for at, job in zip(start, jobs, strict=True)]
    # Each waits for the other: both are under way.
    together = threading.Barrier(cores)
    assert in_threads(lambda draw: np.full(2, together.wait(60) * 0 + draw), cores)[:, 0].tolist() == [
        *range(cores)
    ]
    assert take_turn.targetoptions["nogil"]


@pytest.mark.parametrize(("least_loaded", "second"), [(False, (0,)), (True, (1,))])
def test_the_least_loaded_node_is_taken_first(least_loaded: bool, second: tuple[int, ...]) -> None:
    cluster = replace(cluster_of(), least_loaded=least_loaded)
    result = replay(cluster, [request(k, 0, 100, 120, 1) for k in (1, 2)])
    assert tuple(result.nodes[1]) == second


#: Two switches of two nodes, of which a long job has one each; another node has none.
PAIRS = SlurmCluster(
    tuple(Node(f"n{k}", 4, 800, {}, frozenset(), 1) for k in range(4)),
    {"all": Partition("all", (0, 1, 2, 3))},
    ((0, 1), (2, 3)),
    clocks=Clocks(bf_interval=20, bf_resolution=20),
)


def asked(number, submit, run, limit, nodes=1, **options):
    """Return a request for whole nodes of `PAIRS`."""
    size = {"tasks": 4 * nodes, "tasks_per_node": 4, "nodes": nodes, "most_nodes": nodes}
    return Request(number, submit, run, limit, partitions=("all",), **(size | options))


def schedule_of(requests, **changes):
    """Return the starts, ends and nodes of jobs on `PAIRS` with changes; kernel and twin must agree."""
    cluster = replace(PAIRS, **changes)
    result, twin = replay(cluster, requests), reference_replay(cluster, requests, Phases())
    own = list(zip(result.start.tolist(), result.end.tolist(), map(tuple, result.nodes), strict=True))
    assert own == [twin[job] for job in range(len(requests))]
    return own


@pytest.mark.parametrize("version", ["22.05", "24.11.5", "26.05"])
def test_a_job_waits_for_as_few_switches_as_it_asks_for(version):
    busy = [asked(k, 0, 900, 900, node_list=(node,)) for k, node in ((1, "n0"), (2, "n2"))]

    def start_with(wait=300, most=600, **options):
        clocks = replace(PAIRS.clocks, max_switch_wait=most)
        wide = asked(3, 0, 60, 60, 2, switch_wait=wait, **options)
        return schedule_of([*busy, wide], version=version, clocks=clocks)[2]

    assert start_with()[0] == 0
    assert start_with(switches=2)[0] == 0
    assert 300 <= start_with(switches=1)[0] < 360
    assert 120 <= start_with(most=120, switches=1)[0] < 180
    # In time a switch is free.
    assert start_with(wait=6000, most=6000, switches=1)[0] >= 900


@pytest.mark.parametrize(
    ("version", "limit"), [("22.05", 120), ("24.11.5", 120), ("25.05.3", 240), ("26.05", 240)]
)
def test_backfill_shortens_a_time_limit_that_may_be(version, limit):
    # Job 2 has a plan for all nodes at 300 s. Job 3 fits in before it if it may end in two minutes; later
    # releases give it the four that are left, and what runs longer is killed.
    requests = [asked(1, 0, 300, 300, 2), asked(2, 1, 60, 60, 4), asked(3, 2, 900, 600, 1)]
    assert schedule_of(requests, version=version)[2][0] > 300
    start, end, _ = schedule_of([*requests[:2], replace(requests[2], time_min=120)], version=version)[2]
    assert start < 60
    assert start + limit <= end < start + limit + 30


def test_a_job_that_could_not_end_by_its_deadline_is_cancelled():
    requests = [
        asked(1, 0, 300, 300, 4),
        asked(2, 1, 60, 120, 4),
        asked(3, 2, 60, 60, after=(("afternotok", 2),)),
    ]
    for version in ("22.05", "24.11.5"):
        late = replace(requests[1], deadline=400)
        in_time = replace(requests[1], deadline=600)
        _, (start, end, nodes), (after, _, _) = schedule_of([requests[0], late, requests[2]], version=version)
        assert (280 < start <= 360, end - start, nodes) == (True, 0, ())
        assert start <= after < start + 70
        assert schedule_of([requests[0], in_time], version=version)[1][1] <= 600
    # With --time-min its limit is what is left.
    short = replace(requests[1], deadline=400, time_min=60, run_time=900)
    start, end, _ = schedule_of([requests[0], short])[1]
    assert (start < 340, end <= 430) == (True, True)


def test_a_job_is_spread_over_as_many_nodes_as_it_has_tasks():
    size = {"tasks": 3, "tasks_per_node": 0, "nodes": 1, "most_nodes": 0}
    for version in ("22.05", "24.11.5", "26.05.5"):
        assert schedule_of([asked(1, 0, 60, 60, **size)], version=version)[0][2] == (0,)
        assert schedule_of([asked(1, 0, 60, 60, spread=True, **size)], version=version)[0][2] == (0, 1, 2)
    nodes = (*PAIRS.nodes[:-1], replace(PAIRS.nodes[-1], weight=2))
    with pytest.raises(WorkloadError, match="on nodes of several weights is not modelled"):
        replay(replace(PAIRS, nodes=nodes, version="25.05"), [asked(1, 0, 60, 60, spread=True)])


def test_a_spread_job_takes_a_node_of_each_weight_unless_its_list_has_the_most():
    # Nodes with more free GPUs are lighter, so that there are two classes.
    nodes = tuple(replace(one, gpus={"x": 1 + k // 2}) for k, one in enumerate(PAIRS.nodes))
    one = {"tasks": 1, "tasks_per_node": 0, "nodes": 1, "most_nodes": 0, "spread": True, "gpus": 1}
    for version, taken in (("24.11.5", 1), ("25.05", 2), ("26.05", 1)):
        spread, listed = (
            schedule_of([asked(1, 0, 60, 60, **one, **more)], nodes=nodes, version=version)[0][2]
            for more in ({}, {"node_list": ("n1",)})
        )
        assert (len(spread), listed) == (taken, (1,))


def test_a_job_of_one_task_takes_the_first_node_whatever_its_most():
    """sbatch lowers the most of `-N 1-3` to the number of tasks (opt.c)."""
    nodes = (replace(PAIRS.nodes[0], cpus=8), *PAIRS.nodes[1:])
    for version, node in (("25.11", 1), ("26.05", 0)):
        for most in (0, 1, 3):
            size = {"tasks": 1, "tasks_per_node": 0, "nodes": 1, "most_nodes": most}
            job = asked(1, 0, 60, 60, **size)
            assert schedule_of([job], nodes=nodes, leaves=(), version=version)[0][2] == (node,)


@pytest.mark.parametrize(("version", "cpus"), [("24.11.0", 4), ("24.11.1", 3), ("25.05", 3), ("25.11.0", 4)])
def test_tasks_or_those_of_each_node_are_counted(version, cpus) -> None:
    job = replace(asked(1, 0, 60, 60, nodes=2), tasks=3, tasks_per_node=2)
    result = replay(replace(PAIRS, version=version), [job])
    assert sum(result.cpus[0].tolist()) == cpus


def test_components_start_together_and_block_their_partition_until_then() -> None:
    nodes = tuple(Node(f"n{number}", 4, 100, {}, frozenset(), 1) for number in range(3))
    cluster = SlurmCluster(nodes, {"all": Partition("all", (0, 1, 2))}, clocks=Clocks(bf_interval=30))
    first = [request(1, 0, 300, 360, 8, 4)]
    parts = [request(number, 10, 100, 120, 4, 4) for number in (2, 3)]
    later = [request(4, 11, 20, 60, 4, 4)]
    apart = replay(cluster, first + parts + later)
    assert apart.start.tolist() == [0, 10, 110, 210]
    together = replay(cluster, first + [replace(one, component_of=2) for one in parts] + later)
    # The free node is planned for one of them at once, and the other is planned for later.
    assert together.start.tolist() == [0, 300, 300, 300]
    assert set(together.nodes[1]).isdisjoint(together.nodes[2])


def test_components_are_refused_with_what_is_not_modelled_of_them() -> None:
    with pytest.raises(WorkloadError, match="job 2: components of heterogeneous jobs are not modelled with"):
        replay(cluster_of(), [replace(request(2, 0, 9, 60, 1), component_of=2, time_min=60)])


def test_a_node_that_will_be_idle_is_the_least_loaded_then() -> None:
    nodes = tuple(Node(f"n{number}", 4, 800, {}, frozenset(), 1) for number in range(3))
    cluster = SlurmCluster(nodes, {"all": Partition("all", (0, 1, 2))}, least_loaded=True)
    jobs = [
        replace(request(1, 0, 900, 600, 5), node_list=("n2",)),
        replace(request(2, 10, 60, 60, 2), nodes=2, node_list=("n2",)),
        request(3, 20, 60, 60, 1),
    ]
    result, twin = replay(cluster, jobs), reference_replay(cluster, jobs, Phases())
    # The second job is planned on the first node, which will be as idle as the next one.
    assert (
        [tuple(some) for some in result.nodes] == [twin[job][2] for job in range(3)] == [(0, 2), (0, 2), (1,)]
    )
