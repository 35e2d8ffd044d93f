"""Networks in compiled code: scoring candidates, updating the state, and the normal equations."""

from __future__ import annotations

from math import exp, sqrt

from gridtune.core.compiled import kernel

__all__ = [
    "accumulate",
    "advance",
    "describe",
    "describe_chosen",
    "score_candidates",
    "solve",
    "values_of",
]


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
    leak, inputs, outputs = arrays.leak[0], arrays.inputs.shape[1], arrays.readout.shape[1]
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
            if outputs > 1 + visible:
                for f in range(inputs):
                    q += arrays.readout[a, 1 + visible + f] * rows[c, f]
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


@kernel()
def describe_chosen(arrays, state, row, out):
    """Write the readouts' inputs right after `advance` with this row: `out`, shape (m, p)."""
    visible, outputs = arrays.sizes[0], arrays.readout.shape[1]
    for a in range(arrays.bias.shape[0]):
        out[a, 0] = 1.0
        for i in range(visible):
            out[a, 1 + i] = state[a, i]
        if outputs > 1 + visible:
            for f in range(arrays.inputs.shape[1]):
                out[a, 1 + visible + f] = row[f]


@kernel()
def describe(arrays, state, rows, scratch, out):
    """Write the readouts' inputs for each candidate: `out`, shape (n, m, p); `state` is not changed."""
    visible, inputs = arrays.sizes[0], arrays.inputs.shape[1]
    leak, part, drive_of = arrays.leak[0], scratch[0], scratch[1]
    for a in range(arrays.bias.shape[0]):
        _shared_part(arrays, state, rows[0], a, visible, part)
        for c in range(rows.shape[0]):
            for i in range(visible):
                drive_of[i] = part[i]
            _feed(arrays, a, rows[c], arrays.sizes[1], inputs, visible, drive_of)
            out[c, a, 0] = 1.0
            for i in range(visible):
                out[c, a, 1 + i] = (1.0 - leak) * state[a, i] + leak * _logistic(drive_of[i])
            if arrays.readout.shape[1] > 1 + visible:
                for f in range(inputs):
                    out[c, a, 1 + visible + f] = rows[c, f]


@kernel()
def values_of(readout, phi, out):
    """Write the mean over the networks of their readouts' values: `phi`, shape (n, m, p); `out`, (n,)."""
    networks, outputs = readout.shape
    for t in range(out.size):
        total = 0.0
        for a in range(networks):
            for i in range(outputs):
                total += readout[a, i] * phi[t, a, i]
        out[t] = total / networks


@kernel()
def accumulate(gram, moment, phi, target):
    """Add samples to normal equations: gram += Σ φ φᵀ (its lower triangle), moment += Σ φ y.

    Parameters
    ----------
    gram, moment
        Shapes (p, p) and (p,), float64: updated.
    phi, target
        Shapes (n, p) and (n,), float64: φ and y of each sample.
    """
    for t in range(phi.shape[0]):
        for i in range(phi.shape[1]):
            value = phi[t, i]
            moment[i] += value * target[t]
            for j in range(i + 1):
                gram[i, j] += value * phi[t, j]


@kernel()
def solve(gram, moment, ridge, prior, factor, out):
    """Solve (gram + ridge · 1) w = moment + ridge · prior by Cholesky's factorisation.

    A library is not used because the last bits of its solution depend on the machine.

    Parameters
    ----------
    gram, moment
        Shapes (p, p) and (p,): the lower triangle is read.
    ridge, prior
        The weight of the prior, and the prior, shape (p,).
    factor
        Shape (p, p): overwritten.
    out
        Shape (p,): w.

    Returns
    -------
    bool
        Whether the matrix was positive definite; otherwise `out` is `prior`.
    """
    size = moment.size
    for i in range(size):
        for j in range(i + 1):
            total = gram[i, j] + (ridge if i == j else 0.0)
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            if i > j:
                factor[i, j] = total / factor[j, j]
            elif total > 0.0:
                factor[i, i] = sqrt(total)
            else:
                out[:] = prior
                return False
    for i in range(size):
        total = moment[i] + ridge * prior[i]
        for k in range(i):
            total -= factor[i, k] * out[k]
        out[i] = total / factor[i, i]
    for i in range(size - 1, -1, -1):
        total = out[i]
        for k in range(i + 1, size):
            total -= factor[k, i] * out[k]
        out[i] = total / factor[i, i]
    return True
