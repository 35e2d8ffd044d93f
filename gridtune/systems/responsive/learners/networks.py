"""Networks as arrays: drawn at random, and computed in compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import kernel
from gridtune.errors import PolicyError
from gridtune.systems.responsive.learners.settings import LearnerSettings
from gridtune.types import BoolArray, FloatArray, IntArray


class ReservoirArrays(NamedTuple):
    """m networks of k neurons each over d inputs, and their readouts.

    A readout uses the first r neurons of its network, so scoring a candidate computes only these. A
    feed-forward network of one hidden layer is a network without recurrent weights and with leak 1.

    Attributes
    ----------
    inputs
        Shape (m, d, k), float64: weights from input to neuron.
    bias
        Shape (m, k), float64.
    first, source, weight
        Recurrent weights by receiving neuron: shape (m, k + 1) and (m, c), int64, and (m, c), float64.
        Neuron i of network a receives from source[a, j] for first[a, i] <= j < first[a, i + 1].
    readout
        Shape (m, p), float64: weights of a constant and of the r neurons, p = 1 + r.
    columns
        Shape (d,), int64: the inputs, first those that all candidates of a decision share.
    sizes
        Shape (2,), int64: r, and the number of shared inputs.
    leak
        Shape (1,), float64.
    """

    inputs: FloatArray
    bias: FloatArray
    first: IntArray
    source: IntArray
    weight: FloatArray
    readout: FloatArray
    columns: IntArray
    sizes: IntArray
    leak: FloatArray

    def with_readout(self, readout: Any) -> ReservoirArrays:
        """Return the same networks with another readout, shape (m, p)."""
        return self._replace(readout=np.ascontiguousarray(readout, np.float64).reshape(self.readout.shape))


def draw_network(settings: LearnerSettings, shared: Sequence[bool] | BoolArray, seed: int) -> ReservoirArrays:
    """Return untrained networks with readouts of zeros.

    Weights of reservoirs are uniform; exactly round(connectivity · k²) pairs of neurons are connected and
    exactly round(readout_connectivity · k) neurons, at least one of each, are used by the readout. Recurrent
    weights are then scaled to the spectral radius. (A sparse reservoir without cycles has the radius 0 and is
    not scaled.) The weights of a feed-forward network are uniform within ±1/√inputs.

    Parameters
    ----------
    settings
        Sizes, shares and scales.
    shared
        Whether all candidates of a decision have the same value of an input, for each input.
    seed
        The seed of all weights.

    Raises
    ------
    PolicyError
        If there are no inputs.
    """
    rng, common = np.random.default_rng((seed, *b"network")), np.asarray(shared, np.bool_)
    inputs, neurons = common.size, settings.neurons
    if inputs == 0:
        raise PolicyError("a network needs at least one input, but got none")
    if settings.regressor == "ffnn":
        bound, leak, visible = 1 / np.sqrt(inputs), 1.0, neurons
        feeding = rng.uniform(-bound, bound, (1, inputs, neurons))
        bias = rng.uniform(-bound, bound, (1, neurons))
        first, source = np.zeros((1, neurons + 1), np.int64), np.zeros((1, 1), np.int64)
        weight = np.zeros((1, 1))
    else:
        leak, visible = settings.leak, max(1, round(settings.readout_connectivity * neurons))
        drawn = [_draw_reservoir(settings, inputs, rng) for _ in range(settings.reservoirs)]
        feeding, bias, first, source, weight = (np.stack(column) for column in zip(*drawn, strict=True))
    return ReservoirArrays(
        inputs=feeding,
        bias=bias,
        first=first,
        source=source,
        weight=weight,
        readout=np.zeros((len(bias), 1 + visible)),
        columns=np.argsort(~common, kind="stable").astype(np.int64),
        sizes=np.array([visible, int(common.sum())], np.int64),
        leak=np.array([leak]),
    )


def _draw_reservoir(
    settings: LearnerSettings, inputs: int, rng: np.random.Generator
) -> tuple[npt.NDArray[Any], ...]:
    """Return one reservoir's weights. Neurons are exchangeable, so the first ones are the visible ones."""
    neurons = settings.neurons
    feeding = settings.input_scale * rng.uniform(0.0, 1.0, (inputs, neurons))
    bias = settings.input_scale * rng.uniform(0.0, 1.0, neurons)
    connections = max(1, round(settings.connectivity * neurons**2))
    places = np.sort(rng.choice(neurons**2, connections, replace=False))
    weight = rng.uniform(0.0, 1.0, connections)
    target, source = np.divmod(places, neurons)
    first = np.searchsorted(target, np.arange(neurons + 1)).astype(np.int64)
    dense = np.zeros((neurons, neurons))
    dense[target, source] = weight
    radius = _spectral_radius(dense)
    if radius > 0:
        weight *= settings.spectral_radius / radius
    return feeding, bias, first, source.astype(np.int64), weight


def _spectral_radius(matrix: FloatArray) -> float:
    """Return the largest modulus of a square matrix's eigenvalues; exactly 0 for a matrix without cycles."""
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415 (only a training needs it)

    # The computed eigenvalues of a nilpotent matrix of order k reach about ε^(1/k), so look for a cycle: a
    # neuron that feeds itself, or a strongly connected component of several neurons.
    components, _ = connected_components(matrix != 0, connection="strong")
    if components == len(matrix) and not matrix.diagonal().any():
        return 0.0
    # Twelve digits: the last ones depend on the machine's linear algebra.
    return float(f"{np.abs(np.linalg.eigvals(matrix)).max():.12g}")


@kernel(inline="always")
def _logistic(x):
    return 1.0 / (1.0 + exp(-x))


@kernel()
def _shared_part(arrays, state, row, a, neurons, part):
    """Write the sum of bias, recurrent and shared inputs of the first `neurons` neurons of network a."""
    for i in range(neurons):
        total = arrays.bias[a, i]
        for j in range(arrays.first[a, i], arrays.first[a, i + 1]):
            total += arrays.weight[a, j] * state[a, arrays.source[a, j]]
        part[i] = total
    _feed(arrays, a, row, 0, arrays.sizes[1], neurons, part)


@kernel(inline="always")
def _feed(arrays, a, row, start, stop, neurons, part):
    """Add a range of inputs; most of a candidate's are zeros of a one-hot code."""
    for place in range(start, stop):
        f = arrays.columns[place]
        value = row[f]
        if value != 0.0:
            for i in range(neurons):
                part[i] += value * arrays.inputs[a, f, i]


@kernel()
def score_candidates(arrays, state, rows, scratch, out_q):
    """Write the value of each candidate of a decision, all from the same state.

    Parameters
    ----------
    arrays
        `ReservoirArrays`.
    state
        Shape (m, k), float64: the state after the previous decision; not changed.
    rows
        Shape (n, d), float64: candidates, equal in the shared inputs.
    scratch
        Shape (2, k) or more, float64.
    out_q
        Shape (n,) or more, float64: filled in, the mean over the networks.
    """
    networks = arrays.bias.shape[0]
    visible, shared = arrays.sizes[0], arrays.sizes[1]
    leak, inputs = arrays.leak[0], arrays.inputs.shape[1]
    part, drive_of = scratch[0], scratch[1]
    for c in range(rows.shape[0]):
        out_q[c] = 0.0
    for a in range(networks):
        _shared_part(arrays, state, rows[0], a, visible, part)
        for c in range(rows.shape[0]):
            for i in range(visible):
                drive_of[i] = part[i]
            _feed(arrays, a, rows[c], shared, inputs, visible, drive_of)
            q = arrays.readout[a, 0]
            for i in range(visible):
                q += arrays.readout[a, 1 + i] * ((1.0 - leak) * state[a, i] + leak * _logistic(drive_of[i]))
            out_q[c] += q / networks


@kernel()
def advance(arrays, state, row, scratch):
    """Update every network by a decision: `state`, shape (m, k), is overwritten."""
    networks, neurons = arrays.bias.shape
    leak, part = arrays.leak[0], scratch[0]
    for a in range(networks):
        _shared_part(arrays, state, row, a, neurons, part)
        _feed(arrays, a, row, arrays.sizes[1], arrays.columns.size, neurons, part)
        for i in range(neurons):
            state[a, i] = (1.0 - leak) * state[a, i] + leak * _logistic(part[i])
