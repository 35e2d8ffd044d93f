"""The nodes of a GPU cluster and the pods that ask for its GPUs: read from tables, or drawn.

Source of the columns: the trace of Alibaba's GPU cluster of 2023 (`openb`), published with Q. Weng et al.,
"Beware of fragmentation: scheduling GPU-sharing workloads with fragmentation gradient descent", ATC 2023.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from gridtune.errors import SimulationError
from gridtune.types import FloatArray, IntArray

#: Parts of a GPU: 1,000 are one.
MILLI = 1000
#: GPUs that a node has at most.
MOST_GPUS = 8
#: GPU models that a cluster has at most: pods name those they accept by the bits of an integer.
_MOST_MODELS = 62


@dataclass(frozen=True)
class GpuNodes:
    """The nodes of a cluster, in columns of shape (nodes,), int64.

    Attributes
    ----------
    cpus
        Thousandths of a processor.
    memory
        MiB.
    gpus
        Number of GPUs, 0 to 8.
    model
        Index into `models` of the node's GPUs; -1 where it has none.
    models
        Names of GPU models.
    """

    cpus: IntArray
    memory: IntArray
    gpus: IntArray
    model: IntArray
    models: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.cpus)

    @property
    def gpu_capacity(self) -> int:
        """Thousandths of GPUs that each node has."""
        return int(self.gpus.sum()) * MILLI

    @classmethod
    def read(cls, path: Path) -> GpuNodes:
        """Read nodes from a CSV file with the columns `cpu_milli`, `memory_mib`, `gpu` and `model`.

        Raises
        ------
        SimulationError
            Naming the file, the line and the column at fault.
        """
        columns = _read(path, ("cpu_milli", "memory_mib", "gpu"), ("model",))
        _check(path, "gpu", columns["gpu"], columns["gpu"] > MOST_GPUS, f"at most {MOST_GPUS} GPUs a node")
        names = columns["model"].astype(str)
        has = columns["gpu"] > 0
        models = tuple(sorted(set(names[has].tolist())))
        if len(models) > _MOST_MODELS:
            raise SimulationError(
                f"{path}: {len(models)} GPU models; at most {_MOST_MODELS} can be told apart"
            )
        model = np.array(
            [models.index(name) if gpus else -1 for name, gpus in zip(names, has, strict=True)], np.int64
        )
        return cls(columns["cpu_milli"], columns["memory_mib"], columns["gpu"], model, models)

    @classmethod
    def drawn(cls, count: int) -> GpuNodes:
        """Return nodes of four kinds, as a cluster has that has grown over years; always the same ones."""
        kinds = np.array([[96_000, 393_216, 8, 0]] * 9 + [[104_000, 524_288, 2, 1]] * 6, np.int64)
        kinds = np.vstack([kinds, [[16_000, 122_880, 2, 2]] * 2, [[128_000, 786_432, 8, 3]]]).astype(np.int64)
        columns = np.ascontiguousarray(kinds[np.arange(count) % len(kinds)].T)
        cpus, memory, gpus, model = columns
        return cls(cpus, memory, gpus, model, ("A", "B", "C", "D"))


@dataclass(frozen=True)
class Pods:
    """The requests of pods, in columns of shape (pods,), int64.

    Attributes
    ----------
    cpus
        Thousandths of a processor.
    memory
        MiB.
    gpus
        Number of GPUs, all on one node; 0 for a pod without.
    share
        Thousandths of each of these GPUs: 1,000, or less for a pod that shares one.
    models
        Bits of the GPU models that it accepts; -1 for any.
    """

    cpus: IntArray
    memory: IntArray
    gpus: IntArray
    share: IntArray
    models: IntArray

    def __len__(self) -> int:
        return len(self.cpus)

    @property
    def _columns(self) -> tuple[IntArray, ...]:
        return self.cpus, self.memory, self.gpus, self.share, self.models

    @property
    def demand(self) -> IntArray:
        """Thousandths of GPUs that each pod asks for."""
        return self.gpus * self.share

    def take(self, which: IntArray) -> Pods:
        """Return the pods of these indices, in their order."""
        return Pods(*(column[which] for column in self._columns))

    def without_memory(self) -> Pods:
        """Return the same pods, asking for no memory."""
        return replace(self, memory=np.zeros_like(self.memory))

    def classes(self) -> tuple[Pods, IntArray]:
        """Return the distinct requests and, for each pod, the index of its own."""
        distinct, of = np.unique(np.column_stack(self._columns), axis=0, return_inverse=True)
        return Pods(*np.ascontiguousarray(distinct.T)), of.reshape(-1).astype(np.int64)

    def arrivals(self, demand: float, rng: np.random.Generator) -> IntArray:
        """Return the indices of pods in order of arrival, as many as ask for that many thousandths of GPUs.

        All pods come once in random order; if that is not enough, drawn ones follow; if it is too much, the
        last ones are left out.
        """
        order = rng.permutation(len(self))
        while self.demand[order].sum() < demand:
            order = np.concatenate([order, rng.integers(len(self), size=len(self))])
        enough = np.searchsorted(np.cumsum(self.demand[order]), demand)
        return order[: enough + 1].astype(np.int64)

    def typical(self, share: float) -> tuple[Pods, FloatArray]:
        """Return the most frequent requests that make up that share of pods, and how frequent each is."""
        requests, of = self.without_memory().classes()
        counts = np.bincount(of)
        order = np.argsort(-counts, kind="stable")
        kept = order[: np.searchsorted(np.cumsum(counts[order]), share * len(self)) + 1]
        return requests.take(kept), counts[kept] / counts[kept].sum()

    @classmethod
    def read(cls, path: Path, models: Sequence[str]) -> Pods:
        """Read pods from a CSV file.

        Its columns are `cpu_milli`, `memory_mib`, `num_gpu`, `gpu_milli` and `gpu_spec`. The last
        names the models that a pod accepts, separated by `|`; empty for any.

        Raises
        ------
        SimulationError
            Naming the file, the line and the column at fault.
        """
        columns = _read(path, ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli"), ("gpu_spec",))
        gpus, share = columns["num_gpu"], columns["gpu_milli"]
        share = np.where(gpus == 0, 0, share)
        _check(path, "gpu_milli", share, (gpus > 0) & ((share < 1) | (share > MILLI)), "1 to 1000 of a GPU")
        _check(
            path, "gpu_milli", share, (gpus > 1) & (share != MILLI), "pods of several GPUs take whole ones"
        )
        known = {name: 1 << place for place, name in enumerate(models)}
        accepted = []
        for line, text in enumerate(columns["gpu_spec"].astype(str), start=2):
            wanted = [name for name in text.split("|") if name]
            unknown = [name for name in wanted if name not in known]
            if unknown:
                raise SimulationError(
                    f"{path}, line {line}: no node has a GPU of model {unknown[0]!r}",
                    field="gpu_spec",
                    hint=f"the nodes have {', '.join(models) or 'no GPUs'}",
                )
            accepted.append(sum(known[name] for name in wanted) if wanted else -1)
        return cls(columns["cpu_milli"], columns["memory_mib"], gpus, share, np.array(accepted, np.int64))

    @classmethod
    def drawn(cls, count: int, rng: np.random.Generator) -> Pods:
        """Draw pods of the sizes of `openb`: 13 % ask for no GPU, 38 % for a part of one, 48 % for one."""
        sizes = rng.choice([0, 1, 2, 4, 8], count, p=[0.133, 0.857, 0.002, 0.002, 0.006])
        shared = (sizes == 1) & (rng.random(count) < 0.44)
        parts = rng.choice([160, 230, 320, 460, 470, 590, 650, 810], count)
        share = np.where(sizes == 0, 0, np.where(shared, parts, MILLI)).astype(np.int64)
        cpus = rng.choice([2_000, 4_000, 6_000, 8_000, 11_000, 12_000, 16_000], count) * np.maximum(1, sizes)
        memory = cpus * rng.choice([2, 3, 4], count)
        gpus = sizes.astype(np.int64)
        return cls(cpus.astype(np.int64), memory.astype(np.int64), gpus, share, np.full(count, -1, np.int64))


def _read(path: Path, numbers: Sequence[str], texts: Sequence[str]) -> Mapping[str, np.ndarray]:
    """Return the columns of a CSV file; texts that are missing are empty."""
    try:
        table = csv.read_csv(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise SimulationError(f"{path}: cannot be read as CSV: {error}") from None
    missing = [name for name in numbers if name not in table.column_names]
    if missing:
        raise SimulationError(
            f"{path}: no column {missing[0]!r}", hint=f"its first line names {', '.join(table.column_names)}"
        )
    columns: dict[str, np.ndarray] = {}
    for name in numbers:
        try:
            values = table[name].cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid:
            raise SimulationError(f"{path}: column {name!r} has values that are no integers") from None
        values = np.nan_to_num(values, nan=-1).astype(np.int64)
        _check(path, name, values, values < 0, "an integer of at least 0")
        columns[name] = values
    for name in texts:
        column = table[name].cast(pa.string()).fill_null("") if name in table.column_names else None
        columns[name] = np.full(len(table), "") if column is None else column.to_numpy(zero_copy_only=False)
    return columns


def _check(path: Path, name: str, values: IntArray, wrong: np.ndarray, expected: str) -> None:
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise SimulationError(
            f"{path}, line {first + 2}: {name} is {values[first]}", field=name, hint=expected
        )
