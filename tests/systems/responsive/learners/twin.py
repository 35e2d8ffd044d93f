"""Networks and relative inputs in plain Python, by definition; nothing is shared with the kernels."""

from __future__ import annotations

import math

import numpy as np


def dense(arrays, network):
    neurons = arrays.bias.shape[1]
    matrix = np.zeros((neurons, neurons))
    for target in range(neurons):
        for place in range(arrays.first[network, target], arrays.first[network, target + 1]):
            matrix[target, arrays.source[network, place]] += arrays.weight[network, place]
    return matrix


def next_state(arrays, state, row):
    """x' = (1 − a) x + a σ(W x + U u + b), network by network."""
    leak, after = arrays.leak[0], np.empty_like(state)
    for network in range(len(state)):
        driven = dense(arrays, network) @ state[network] + row @ arrays.inputs[network] + arrays.bias[network]
        after[network] = (1 - leak) * state[network] + leak / (1 + np.exp(-driven))
    return after


def phi_of(arrays, state, row):
    """The readouts' inputs: a constant, the first r neurons and, with `direct`, the inputs."""
    networks, outputs = arrays.readout.shape
    visible = arrays.sizes[0]
    columns = [np.ones((networks, 1)), state[:, :visible]]
    if outputs > 1 + visible:
        columns.append(np.tile(row, (networks, 1)))
    return np.concatenate(columns, axis=1)


def value(arrays, state, row):
    return float((phi_of(arrays, next_state(arrays, state, row), row) * arrays.readout).sum(1).mean())


def ridge(phi, target, weight, prior):
    """argmin Σ (φ·w − y)² + weight · |w − prior|², from the stacked least-squares problem."""
    outputs = phi.shape[1]
    rows = np.concatenate([phi, np.sqrt(weight) * np.eye(outputs)])
    targets = np.concatenate([target, np.sqrt(weight) * prior])
    return np.linalg.lstsq(rows, targets, rcond=None)[0]


def expected_run_time(site, job):
    """The geometric mean of run times of the organisation and class, the latest weighted most."""
    if site.oracle:
        return job.run
    same = [other for other in site.done if (other.vo, other.interactive) == (job.vo, job.interactive)]
    weights = [0.98**age for age in reversed(range(len(same)))]
    total = 3 * math.log(site.expected(job))
    total += sum(weight * math.log(other.run) for weight, other in zip(weights, same, strict=True))
    return math.exp(total / (3 + sum(weights)))


def relative_rows(site):
    """The further inputs of every candidate of a `ReferenceSite`."""
    anything = any(site.service(vo) for vo in range(len(site.shares)))
    deficits = [site.deficit(vo) if anything else 0.0 for vo in range(len(site.shares))]
    neediest = int(np.argmax(deficits)) if max(deficits) > 0 else None
    spans = [math.log1p(expected_run_time(site, job) + site.now - job.submit) / 12 for job in site.waiting]
    rows = []
    for job, span in zip(site.waiting, spans, strict=True):
        expected = expected_run_time(site, job)
        row = [
            math.log1p(expected) / 12,
            span,
            expected / (expected + site.now - job.submit),
            span - min(spans),
            span - sum(spans) / len(spans),
            float(job.vo == neediest),
        ]
        for size in site.options():
            margin = (size - len(site.running) - len(site.waiting)) / site.cores
            hinges = [max(margin - hinge, 0.0) for hinge in (0, 0.1, 0.25, 0.5, 1)]
            rows.append(row + ([margin, *hinges] if site.elastic else []))
    return rows
