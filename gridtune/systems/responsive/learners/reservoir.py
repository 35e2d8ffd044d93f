"""Random reservoirs: the part of an echo state network that does not learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gridtune.errors import PolicyError
from gridtune.systems.responsive.learners.arrays import ReservoirArrays
from gridtune.systems.responsive.learners.settings import LearnerSettings
from gridtune.types import BoolArray, FloatArray, IntArray

__all__ = ["draw_network", "draw_reservoirs", "spectral_radius"]


def draw_network(settings: LearnerSettings, shared: Sequence[bool] | BoolArray, seed: int) -> ReservoirArrays:
    """Return the untrained networks of the settings.

    Parameters
    ----------
    settings, shared
        See `draw_reservoirs`.
    seed
        The seed of all weights.
    """
    rng = np.random.default_rng((seed, *b"network"))
    if settings.regressor == "ffnn":
        return _draw_feed_forward(settings, np.asarray(shared, np.bool_), rng)
    return draw_reservoirs(settings, shared, rng)


def _draw_feed_forward(
    settings: LearnerSettings, common: BoolArray, rng: np.random.Generator
) -> ReservoirArrays:
    """Return a network of one hidden layer, its weights uniform within ±1/√inputs, its readout zeros."""
    inputs, neurons = common.size, settings.neurons
    bound = 1 / np.sqrt(inputs)
    return ReservoirArrays(
        inputs=rng.uniform(-bound, bound, (1, inputs, neurons)),
        bias=rng.uniform(-bound, bound, (1, neurons)),
        first=np.zeros((1, neurons + 1), np.int64),
        source=np.zeros((1, 1), np.int64),
        weight=np.zeros((1, 1)),
        readout=np.zeros((1, 1 + neurons)),
        columns=np.argsort(~common, kind="stable").astype(np.int64),
        sizes=np.array([neurons, int(common.sum())], np.int64),
        leak=np.array([1.0]),
    )


def draw_reservoirs(
    settings: LearnerSettings, shared: Sequence[bool] | BoolArray, rng: np.random.Generator
) -> ReservoirArrays:
    """Return reservoirs with readouts of zeros.

    Weights are uniform; exactly round(connectivity · k²) pairs of neurons are connected and exactly
    round(readout_connectivity · k) neurons, at least one of each, are used by the readout. Recurrent weights
    are then scaled to the spectral radius. (A sparse reservoir without cycles has the radius 0 and is not
    scaled.)

    Parameters
    ----------
    settings
        Sizes, shares and scales.
    shared
        Whether all candidates of a decision have the same value of an input, for each input.
    rng
        Random numbers for all weights.

    Raises
    ------
    PolicyError
        If there are no inputs.
    """
    common = np.asarray(shared, np.bool_)
    inputs = common.size
    if inputs == 0:
        raise PolicyError("a network needs at least one input, but got none")
    drawn = [_draw(settings, inputs, rng) for _ in range(settings.reservoirs)]
    visible = max(1, round(settings.readout_connectivity * settings.neurons))
    outputs = 1 + visible + (inputs if settings.direct else 0)
    feeding, bias, first, source, weight = (np.stack(column) for column in zip(*drawn, strict=True))
    return ReservoirArrays(
        inputs=feeding,
        bias=bias,
        first=first,
        source=source,
        weight=weight,
        readout=np.zeros((settings.reservoirs, outputs)),
        columns=np.argsort(~common, kind="stable").astype(np.int64),
        sizes=np.array([visible, int(common.sum())], np.int64),
        leak=np.array([settings.leak]),
    )


def _draw(settings: LearnerSettings, inputs: int, rng: np.random.Generator) -> tuple[npt.NDArray[Any], ...]:
    """Return one reservoir's weights. Neurons are exchangeable, so the first ones are the visible ones."""
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


def spectral_radius(matrix: FloatArray) -> float:
    """Return the largest modulus of a square matrix's eigenvalues; exactly 0 for a matrix without cycles."""
    if matrix.size == 0:
        return 0.0
    # Twelve digits: the last ones depend on the machine's linear algebra.
    radius = float(f"{np.abs(np.linalg.eigvals(matrix)).max():.12g}")
    # The computed eigenvalues of a nilpotent matrix of order k reach about ε^(1/k), so look for a cycle.
    return radius if _has_cycle(matrix) else 0.0


def _has_cycle(matrix: FloatArray) -> bool:
    connected = matrix != 0
    alive = np.ones(len(matrix), bool)
    while alive.any():
        remaining = (connected & alive).any(axis=1) & alive
        if remaining.sum() == alive.sum():
            return True
        alive = remaining
    return False


def _dense(neurons: int, first: IntArray, source: IntArray, weight: FloatArray) -> FloatArray:
    matrix = np.zeros((neurons, neurons))
    matrix[np.repeat(np.arange(neurons), np.diff(first)), source] = weight
    return matrix
