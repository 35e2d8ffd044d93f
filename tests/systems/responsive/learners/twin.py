"""Networks in plain Python, by definition; nothing is shared with the kernels."""

from __future__ import annotations

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


def phi_of(arrays, state):
    """The readouts' inputs: a constant and the first r neurons."""
    visible = arrays.sizes[0]
    return np.concatenate([np.ones((len(state), 1)), state[:, :visible]], axis=1)


def value(arrays, state, row):
    return float((phi_of(arrays, next_state(arrays, state, row)) * arrays.readout).sum(1).mean())


def ridge(phi, target, weight, prior):
    """argmin Σ (φ·w − y)² + weight · |w − prior|², from the stacked least-squares problem."""
    outputs = phi.shape[1]
    rows = np.concatenate([phi, np.sqrt(weight) * np.eye(outputs)])
    targets = np.concatenate([target, np.sqrt(weight) * prior])
    return np.linalg.lstsq(rows, targets, rcond=None)[0]
