"""Reservoirs drawn at random: the part of an echo state network that does not learn."""

from __future__ import annotations

import numpy as np

from gridtune.agents.echo_state.arrays import Floats, ReservoirArrays
from gridtune.agents.echo_state.settings import LearnerSettings
from gridtune.errors import PolicyError

__all__ = ["draw_reservoirs", "recurrent_matrix", "spectral_radius"]


def draw_reservoirs(
    settings: LearnerSettings, inputs: int, shared: int, rng: np.random.Generator
) -> ReservoirArrays:
    """Return reservoirs with readouts of zeros.

    Weights are uniform; exactly round(connectivity · k²) pairs of neurons are connected and exactly
    round(readout_connectivity · k) neurons, at least one of each, are seen by the readout. Recurrent weights
    are then scaled to the spectral radius. (A sparse draw may have none to scale: that of a reservoir
    without cycles is 0, and stays it.)

    Parameters
    ----------
    settings
        Sizes, shares and scales.
    inputs
        How many numbers a candidate's row has.
    shared
        How many of them, the first ones, all candidates of a decision share.
    rng
        Draws every weight.

    Raises
    ------
    PolicyError
        Where there are no inputs, or more are shared than there are.
    """
    if not 0 <= shared <= inputs or inputs < 1:
        raise PolicyError(f"shared <= inputs must hold with inputs >= 1, but got {shared=}, {inputs=}")
    drawn = [_draw(settings, inputs, rng) for _ in range(settings.reservoirs)]
    seen = max(1, round(settings.readout_connectivity * settings.neurons))
    outputs = 1 + seen + (inputs if settings.direct else 0)
    columns = [np.stack(column) for column in zip(*drawn, strict=True)]
    return ReservoirArrays(
        *columns,
        readout=np.zeros((settings.reservoirs, outputs)),
        sizes=np.array([seen, shared]),
        leak=np.array([settings.leak]),
    )


def _draw(settings: LearnerSettings, inputs: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Return one reservoir's weights. Neurons are alike, so the first ones may well be the seen ones."""
    neurons, low = settings.neurons, -1.0 if settings.signed else 0.0
    feeding = settings.input_scale * rng.uniform(low, 1.0, (inputs, neurons))
    bias = settings.input_scale * rng.uniform(low, 1.0, neurons)
    connections = max(1, round(settings.connectivity * neurons**2))
    places = np.sort(rng.choice(neurons**2, connections, replace=False))
    weight = rng.uniform(low, 1.0, connections)
    target, source = np.divmod(places, neurons)
    first = np.searchsorted(target, np.arange(neurons + 1)).astype(np.int64)
    radius = spectral_radius(_dense(neurons, first, source, weight))
    if radius > 0:
        weight *= settings.spectral_radius / radius
    return feeding, bias, first, source.astype(np.int64), weight


def spectral_radius(matrix: Floats) -> float:
    """Return the largest modulus of a square matrix's eigenvalues; 0 within rounding is 0."""
    if matrix.size == 0:
        return 0.0
    # Twelve digits: the last ones depend on the machine's linear algebra, and results must not.
    radius = float(f"{np.abs(np.linalg.eigvals(matrix)).max():.12g}")
    # A nilpotent matrix of order k has computed eigenvalues up to about ε^(1/k): a cycle decides instead.
    return radius if _has_cycle(matrix) else 0.0


def _has_cycle(matrix: Floats) -> bool:
    connected = matrix != 0
    alive = np.ones(len(matrix), bool)
    while alive.any():
        fed = (connected & alive).any(axis=1) & alive
        if fed.sum() == alive.sum():
            return True
        alive = fed
    return False


def recurrent_matrix(arrays: ReservoirArrays, network: int) -> Floats:
    """Return the recurrent weights of one network as a matrix: [receiving, sending]."""
    return _dense(arrays.bias.shape[1], arrays.first[network], arrays.source[network], arrays.weight[network])


def _dense(neurons: int, first: np.ndarray, source: np.ndarray, weight: Floats) -> Floats:
    matrix = np.zeros((neurons, neurons))
    matrix[np.repeat(np.arange(neurons), np.diff(first)), source] = weight
    return matrix
