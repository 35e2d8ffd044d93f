"""Placement of pods on shared GPUs: against plain Python and published results; files with faults."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtune.errors import SimulationError, SweepError
from gridtune.sweep.execution.runner import run_cell
from gridtune.systems.placement.cluster import MOST_GPUS, GpuNodes, Pods
from gridtune.systems.placement.simulator import Rule, place
from tests.conftest import examples
from tests.systems.placement.reference import place as place_plainly

#: Mean share of the GPUs that was allocated at the end, 10 seeds, in percent: the authors' result files
#: (`analysis_allo_discrete.csv`, `openb_pod_list_default`).
PUBLISHED = {
    "random": 87.4,
    "dot_product": 90.8,
    "clustering": 91.8,
    "packing": 92.0,
    "best_fit": 93.1,
    "fgd": 95.4,
}


@st.composite
def clusters(draw):
    """A small cluster, more pods than it holds, and what they are expected to ask for."""
    nodes = GpuNodes.drawn(draw(st.integers(1, 20)))
    pods = Pods.drawn(draw(st.integers(1, 120)), np.random.default_rng(draw(st.integers(0, 2**32))))
    # Whole and half points: sums of these probabilities are exact, so that ties are ties in both.
    accepted = np.array([draw(st.sampled_from([-1, 0b0001, 0b0110])) for _ in range(len(pods))], np.int64)
    pods = Pods(pods.cpus, pods.memory, pods.gpus, pods.share, accepted)
    requests, _ = pods.take(np.arange(min(4, len(pods)))).without_memory().classes()
    requests = requests.take(np.arange(1 << int(np.log2(len(requests)))))
    return nodes, pods, (requests, np.full(len(requests), 1 / len(requests)))


@pytest.mark.parametrize("rule", [rule for rule in get_args(Rule) if rule != "random"])
@examples(25)
@given(cluster=clusters(), whole=st.booleans())
def test_pods_go_where_plain_python_puts_them(rule, cluster, whole):
    nodes, pods, typical = cluster
    placed = place(nodes, pods, rule, np.random.default_rng(0), typical, whole_scores=whole)
    own = [
        (node, tuple(gpu for gpu in range(MOST_GPUS) if bits >> gpu & 1))
        for node, bits in zip(placed.node.tolist(), placed.gpus.tolist(), strict=True)
    ]
    assert own == place_plainly(nodes, pods, rule, typical, whole)


@examples(25)
@given(cluster=clusters(), seed=st.integers(0, 99))
def test_random_places_give_no_gpu_twice_and_refuse_only_what_fits_nowhere(cluster, seed):
    nodes, pods, typical = cluster
    placed = place(nodes, pods, "random", np.random.default_rng(seed), typical)
    left = np.where(np.arange(MOST_GPUS) < nodes.gpus[:, None], 1000, 0)
    cpus, memory = nodes.cpus.copy(), nodes.memory.copy()
    for pod, (node, bits) in enumerate(zip(placed.node.tolist(), placed.gpus.tolist(), strict=True)):
        has = np.array([bits >> gpu & 1 for gpu in range(MOST_GPUS)])
        accepts = (nodes.model >= 0) & (pods.models[pod] >> np.maximum(nodes.model, 0) & 1 == 1)
        enough = (left >= pods.share[pod]).sum(axis=1) >= pods.gpus[pod]
        fits = (cpus >= pods.cpus[pod]) & (memory >= pods.memory[pod])
        fits &= (pods.gpus[pod] == 0) | (accepts & enough)
        assert fits.any() == (node >= 0)
        if node >= 0:
            assert fits[node]
            assert has.sum() == pods.gpus[pod]
            left[node] -= has * pods.share[pod]
            cpus[node] -= pods.cpus[pod]
            memory[node] -= pods.memory[pod]
            assert left.min() >= 0
    assert (left == placed.free_gpus).all()
    assert (cpus == placed.free_cpus).all()


@pytest.mark.slow
def test_the_published_allocation_within_a_point_and_the_published_order(trace_dir):
    files = {
        "nodes": str(trace_dir / "gpu" / "openb_node_list_gpu_node.csv"),
        "pods": str(trace_dir / "gpu" / "openb_pod_list_default.csv"),
    }

    def allocation(rule):
        runs = (run_cell("placement", {**files, "rule": rule}, seed=seed).outcome for seed in range(10))
        return 100 * np.mean([run.metrics["gpu_allocation"] for run in runs])

    own = {rule: allocation(rule) for rule in PUBLISHED}
    assert all(abs(own[rule] - PUBLISHED[rule]) < 1 for rule in PUBLISHED), own
    assert own["random"] < own["dot_product"] < own["best_fit"] < own["fgd"]
    assert own["dot_product"] < min(own["clustering"], own["packing"])
    assert max(own["clustering"], own["packing"]) < own["best_fit"]


def test_configurations_of_a_replicate_place_the_same_pods():
    runs = [
        run_cell("placement", {"rule": rule, "drawn_nodes": 6}, seed=3, tables=True).outcome
        for rule in ("first_fit", "clustering")
    ]
    orders = [run.tables["pods"]["pod"].to_pylist() for run in runs]
    assert orders[0] == orders[1]
    assert runs[0].tables["pods"]["node"] != runs[1].tables["pods"]["node"]


NODES = "cpu_milli,memory_mib,gpu,model\n64000,262144,2,P100\n"
PODS = "cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"


@pytest.mark.parametrize(
    ("nodes", "pods", "message"),
    [
        (NODES + "1,1,9,T4\n", PODS, r"line 3: gpu is 9"),
        (NODES + "1,-1,1,T4\n", PODS, r"line 3: memory_mib is -1"),
        ("cpu_milli,gpu\n1,1\n", PODS, r"no column 'memory_mib'"),
        (NODES, PODS + "1,1,1,1001,\n", r"line 2: gpu_milli is 1001"),
        (NODES, PODS + "1,1,2,500,\n", r"line 2: gpu_milli is 500"),
        (NODES, PODS + "1,1,1,500,P100|H100\n", r"line 2: no node has a GPU of model 'H100'"),
        (NODES, PODS + "x,1,1,500,\n", r"'cpu_milli' has values that are no integers"),
    ],
)
def test_files_with_faults_are_refused_by_line_and_column(tmp_path, nodes, pods, message):
    (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "pods.csv").write_text(pods)
    with pytest.raises(SimulationError, match=message):
        Pods.read(tmp_path / "pods.csv", GpuNodes.read(tmp_path / "nodes.csv").models)


def test_one_file_without_the_other_is_refused(tmp_path):
    with pytest.raises(SweepError, match="nodes is a file, so pods must be one too"):
        run_cell("placement", {"nodes": str(tmp_path / "nodes.csv")})
