"""Pods that arrive one after another and are placed on nodes, under a rule; none of them leaves.

A rule gives each node a score of 0 to 100. The node with the best score gets the pod; of several, the first.
Kubernetes rounds scores down to whole numbers, which matters: nodes that score nearly the same are taken in
their order, and empty nodes stay empty for longer.

Source of the model and of the rules: Q. Weng et al., "Beware of fragmentation: scheduling GPU-sharing
workloads with fragmentation gradient descent", ATC 2023, sections 4 (fragmentation, the rule that descends
it) and 6.2 (workloads inflated until the cluster is full, and the rules that it is compared with).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.systems.placement.cluster import MILLI, MOST_GPUS, GpuNodes, Pods
from gridtune.types import FloatArray, IntArray

Rule = Literal[
    "random", "first_fit", "best_fit", "least_waste", "dot_product", "clustering", "packing", "fgd"
]
_CODES: Mapping[str, int] = {name: code for code, name in enumerate(get_args(Rule))}
_RANDOM, _FIRST_FIT, _BEST_FIT, _LEAST_WASTE, _DOT_PRODUCT, _CLUSTERING, _PACKING, _FGD = range(8)
#: What a large node has: resources are weighed as parts of it.
_LARGE_CPUS, _LARGE_GPUS = 128_000.0, 8.0 * MILLI
#: No node holds the pod; a node does not.
_REFUSED, _DOES_NOT_FIT = -1, -1e9


@dataclass(frozen=True)
class Placement:
    """The nodes that pods got, and the resources left.

    Attributes
    ----------
    node
        Shape (pods,), int64: the node of each pod in order of arrival; -1 for one that no node could hold.
    gpus
        Shape (pods,), int64: bits of the node's GPUs that it has.
    free_cpus, free_memory
        Shape (nodes,), int64: left at the end.
    free_gpus
        Shape (nodes, 8), int64: thousandths left of each GPU; 0 beyond a node's last one.
    """

    node: IntArray
    gpus: IntArray
    free_cpus: IntArray
    free_memory: IntArray
    free_gpus: IntArray


def place(
    nodes: GpuNodes,
    pods: Pods,
    rule: Rule,
    rng: np.random.Generator,
    typical: tuple[Pods, FloatArray],
    *,
    whole_scores: bool = True,
) -> Placement:
    """Place pods in their order, each on the node with the best score; of several, on the first.

    Parameters
    ----------
    nodes, pods
        The cluster, empty, and the pods in order of arrival.
    rule
        Which node, and which of its GPUs (the fullest that hold the pod, where nothing else is said):

        - `random`: any node, and any GPU to share; `first_fit`: the first node;
        - `best_fit`: the least left of processors and GPUs, as parts of a large node, in equal weight;
        - `least_waste`: the fewest GPUs left on the node;
        - `dot_product`: the smallest product of what is free and what is asked for;
        - `clustering`: nodes that have pods of as many GPUs already, before empty ones, before others;
        - `packing`: GPUs in use, before free ones of nodes in use, before empty nodes;
        - `fgd`: the node and the GPU where the expected fragmentation grows least.
    rng
        Draws what `random` chooses.
    typical
        The requests that `fgd` expects, and the share of each.
    whole_scores
        Whether scores are rounded down to whole numbers.
    """
    classes, arrivals = pods.classes()
    expected, share = typical
    free_gpus = np.where(np.arange(MOST_GPUS) < nodes.gpus[:, None], MILLI, 0).astype(np.int64)
    free_cpus, free_memory = nodes.cpus.copy(), nodes.memory.copy()
    node, gpus = np.full(len(pods), _REFUSED, np.int64), np.zeros(len(pods), np.int64)
    _place(
        _CODES[rule],
        whole_scores,
        (free_cpus, free_memory, free_gpus, nodes.gpus, nodes.model),
        (classes.cpus, classes.memory, classes.gpus, classes.share, classes.models),
        arrivals,
        (expected.cpus, expected.gpus, expected.share, expected.models, share),
        rng.random(len(pods)),
        node,
        gpus,
    )
    return Placement(node, gpus, free_cpus, free_memory, free_gpus)


def fragmentation(nodes: GpuNodes, placement: Placement, typical: tuple[Pods, FloatArray]) -> FloatArray:
    """Return the thousandths of free GPUs on each node that a typical pod cannot use: shape (nodes,).

    It is the mean over typical pods.
    """
    expected, share = typical
    requests = (expected.cpus, expected.gpus, expected.share, expected.models, share)
    return np.array(
        [
            _fragments(placement.free_cpus[node], placement.free_gpus[node], nodes.model[node], requests)
            for node in range(len(nodes))
        ]
    )


@kernel()
def _place(rule, whole, nodes, classes, arrivals, typical, draws, placed, used):
    free_cpus, free_memory, free_gpus, _, _ = nodes
    cpus, memory, gpus, share, _ = classes
    count = len(free_cpus)
    # The score of a node for a class of pods stands until a pod is placed there.
    scores = np.full((len(cpus), count), np.nan)
    chosen = np.zeros((len(cpus), count), np.int64)
    kinds = np.zeros((count, MOST_GPUS + 1), np.int64)
    for pod in range(len(arrivals)):
        of = arrivals[pod]
        score = scores[of]
        for node in range(count):
            if np.isnan(score[node]):
                score[node], chosen[of, node] = _score(rule, whole, nodes, classes, of, node, typical, kinds)
        best = _drawn(score, draws[pod]) if rule == _RANDOM else np.argmax(score)
        if score[best] == _DOES_NOT_FIT:
            continue
        placed[pod] = best
        used[pod] = chosen[of, best]
        left = free_gpus[best]
        if rule == _RANDOM and 0 < share[of] < MILLI:
            used[pod] = 1 << _drawn(np.where(left >= share[of], 0.0, _DOES_NOT_FIT), draws[pod] * count % 1.0)
        free_cpus[best] -= cpus[of]
        free_memory[best] -= memory[of]
        for gpu in range(MOST_GPUS):
            if used[pod] >> gpu & 1:
                left[gpu] -= share[of]
        kinds[best, gpus[of] if share[of] >= MILLI else 0] += 1
        scores[:, best] = np.nan


@kernel()
def _drawn(score, draw):
    """Return the index of a drawn one of those that fit; 0 if none does."""
    fitting = np.flatnonzero(score != _DOES_NOT_FIT)
    return fitting[int(draw * len(fitting))] if len(fitting) else 0


@kernel()
def _score(rule, whole, nodes, classes, of, node, typical, kinds):
    """Return a node's score for a class of pods, and the bits of the GPUs that they get."""
    free_cpus, free_memory, free_gpus, has, model = nodes
    cpus, memory, gpus, share, models = classes
    left = free_gpus[node]
    if cpus[of] > free_cpus[node] or memory[of] > free_memory[node]:
        return _DOES_NOT_FIT, 0
    bits = 0
    if gpus[of] > 0:
        if model[node] < 0 or not models[of] >> model[node] & 1:
            return _DOES_NOT_FIT, 0
        bits = _tightest(left, gpus[of], share[of])
        if bits == 0:
            return _DOES_NOT_FIT, 0
    after = free_cpus[node] - cpus[of]
    total, demand = left.sum(), gpus[of] * share[of]
    score = 0.0
    if rule == _BEST_FIT:
        score = 100.0 - 50.0 * after / _LARGE_CPUS - 50.0 * (total - demand) / _LARGE_GPUS
    elif rule == _LEAST_WASTE:
        score = 100.0 - 100.0 * (total - demand) / _LARGE_GPUS
    elif rule == _DOT_PRODUCT:
        of_cpus = free_cpus[node] / _LARGE_CPUS * cpus[of] / _LARGE_CPUS
        score = 100.0 - 50.0 * (of_cpus + total / _LARGE_GPUS * demand / _LARGE_GPUS)
    elif rule == _CLUSTERING and gpus[of] > 0:
        own = gpus[of] if share[of] >= MILLI else 0
        score = _clustering(kinds[node], own) + 25.0 * (1.0 - total / _LARGE_GPUS)
    elif rule == _PACKING and gpus[of] > 0:
        score = _packing(left, has[node], bits)
    elif rule == _FGD:
        growth, bits = _growth(left, after, model[node], free_cpus[node], bits, gpus[of], share[of], typical)
        score = 100.0 / (1.0 + np.exp(growth / MILLI))
    return np.floor(score) if whole else score, bits


@kernel()
def _tightest(left, gpus, share):
    """Return the bits of the GPUs with the least left that hold the request; 0 if there are not enough."""
    bits = 0
    for _ in range(gpus):
        best = -1
        for gpu in range(MOST_GPUS):
            if left[gpu] >= share and not bits >> gpu & 1 and (best < 0 or left[gpu] < left[best]):
                best = gpu
        if best < 0:
            return 0
        bits |= 1 << best
    return bits


@kernel()
def _clustering(kinds, own):
    """Return 75 where all pods are of that kind, 50 where some are, 25 on an empty node, 0 elsewhere."""
    some = 0
    for kind in range(MOST_GPUS + 1):
        some += kinds[kind] > 0
    if kinds[own] > 0:
        return 75.0 if some == 1 else 50.0
    return 25.0 if some == 0 else 0.0


@kernel()
def _packing(left, has, bits):
    """Return 90 and more for GPUs in use, 40 to 50 for free ones of a node in use, less for an empty node."""
    free, taken, remains = 0, 0, 0
    for gpu in range(has):
        free += left[gpu] == MILLI
        if bits >> gpu & 1:
            taken += left[gpu] == MILLI
            remains += left[gpu]
    if free == has:
        return 33.0 - free
    if taken > 0:
        return 50.0 - taken
    return 100.0 - 10.0 * remains // MILLI


@kernel()
def _growth(left, after, model, before, bits, gpus, share, typical):
    """Return by how much fragmentation grows, and the bits of the GPUs where it grows least."""
    now = _fragments(before, left, model, typical)
    trial = left.copy()
    if gpus != 1 or share == MILLI:
        for gpu in range(MOST_GPUS):
            if bits >> gpu & 1:
                trial[gpu] -= share
        return _fragments(after, trial, model, typical) - now, bits
    least, best = np.inf, 0
    for gpu in range(MOST_GPUS):
        if left[gpu] >= share and left[gpu] not in left[:gpu]:  # a GPU like an earlier one is no better
            trial[gpu] -= share
            growth = _fragments(after, trial, model, typical) - now
            trial[gpu] += share
            if growth < least:
                least, best = growth, gpu
    return least, 1 << best


@kernel()
def _fragments(free, left, model, typical):
    """Return the expected thousandths of free GPUs that a typical pod cannot use on a node (section 4.1).

    A pod without GPU can use none of them; one that does not fit neither; one that fits can use those GPUs
    that have its share left.
    """
    cpus, gpus, share, models, probability = typical
    total = left.sum()
    if total == 0:
        return 0.0
    fragments = 0.0
    for kind in range(len(cpus)):
        usable, fitting = 0, 0
        if gpus[kind] > 0 and free >= cpus[kind] and models[kind] >> model & 1:
            for gpu in range(MOST_GPUS):
                if left[gpu] >= share[kind]:
                    usable += left[gpu]
                    fitting += 1
        if fitting < gpus[kind]:
            usable = 0
        fragments += probability[kind] * (total - usable)
    return fragments
