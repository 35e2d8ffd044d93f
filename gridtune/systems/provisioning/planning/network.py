"""`Network`: the time to send data from one site to another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gridtune.errors import SimulationError
from gridtune.types import BoolArray, FloatArray

__all__ = ["Network"]


@dataclass(frozen=True, eq=False)
class Network:
    """Latencies and bandwidths between sites. Inside a site a transfer takes no time.

    Attributes
    ----------
    latency
        Shape (sites, sites), float64 seconds, ≥ 0: from the site of the row to that of the column.
    bandwidth
        Shape (sites, sites), float64 bytes per second, > 0; infinite where volume does not matter.

    Raises
    ------
    SimulationError
        Naming the pair of sites at fault.
    """

    latency: FloatArray
    bandwidth: FloatArray

    def __post_init__(self) -> None:
        for name in ("latency", "bandwidth"):
            matrix = np.array(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, matrix)
        if self.latency.ndim != 2 or self.latency.shape != (len(self.bandwidth),) * 2:
            shapes = f"{self.latency.shape} and {self.bandwidth.shape}"
            raise SimulationError(f"latencies and bandwidths must be two equal squares, not {shapes}")
        self._set_inside()
        apart = ~np.eye(len(self), dtype=bool)
        self._check("latency", "s", apart & ~((self.latency >= 0) & np.isfinite(self.latency)))
        self._check("bandwidth", "bytes/s", apart & ~(self.bandwidth > 0))

    def _set_inside(self) -> None:
        for name, value in (("latency", 0.0), ("bandwidth", np.inf)):
            matrix = getattr(self, name).copy()
            np.fill_diagonal(matrix, value)
            matrix.flags.writeable = False
            object.__setattr__(self, name, matrix)

    def _check(self, name: str, unit: str, bad: BoolArray) -> None:
        if bad.any():
            here, there = np.argwhere(bad)[0].tolist()
            value = getattr(self, name)[here, there]
            raise SimulationError(f"from site {here} to site {there}: {name} of {value} {unit}", field=name)

    def __len__(self) -> int:
        return len(self.latency)

    @classmethod
    def uniform(cls, sites: int, *, latency: float = 0.0, bandwidth: float = np.inf) -> Network:
        """Return a network that is the same between any two sites; by default transfers take no time.

        Parameters
        ----------
        sites
            The number of sites.
        latency, bandwidth
            Seconds, and bytes per second.
        """
        return cls(np.full((sites, sites), float(latency)), np.full((sites, sites), float(bandwidth)))

    @property
    def mean_latency(self) -> float:
        """Seconds, over the ordered pairs of different sites; 0 where there is one site."""
        return self._mean(self.latency)

    @property
    def mean_seconds_per_byte(self) -> float:
        """Over the ordered pairs of different sites; 0 where there is one site."""
        return self._mean(1.0 / self.bandwidth)

    def _mean(self, matrix: FloatArray) -> float:
        pairs = [(i, j) for i in range(len(self)) for j in range(len(self)) if i != j]
        return sum(float(matrix[pair]) for pair in pairs) / len(pairs) if pairs else 0.0
