"""Networks as plain arrays for compiled code."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gridtune.types import FloatArray, IntArray

__all__ = ["ReservoirArrays"]


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
        Shape (m, p), float64: weights of a constant, of the r neurons and, if the readout uses them, of the d
        inputs: p = 1 + r or 1 + r + d.
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

    def rest(self) -> FloatArray:
        """Return the initial state of every run, shape (m, k): zeros."""
        return np.zeros(self.bias.shape)
