"""Workers on Ray: actors that host a simulator each.

Imported only where Ray is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import ray
from ray.exceptions import OutOfMemoryError, RayError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from gridtune.core.system import CellResources
from gridtune.errors import SweepError
from gridtune.sweep.execution.blocks import LOOK_SECONDS, BlockQueue, Busy, Sink, SweepDriver
from gridtune.sweep.execution.cluster import Crew, client_connection
from gridtune.sweep.execution.simulators import Simulator, SimulatorSettings


class _Actors:
    """The actors of a sweep, by name, and the calls that they have not answered."""

    def __init__(self, settings: SimulatorSettings, needs: CellResources) -> None:
        self._settings, self._needs = ray.put(settings), needs
        self._class = ray.remote(Simulator)
        self._actors: dict[str, Any] = {}
        self._groups: dict[str, PlacementGroup] = {}
        self._calls: dict[ray.ObjectRef, str] = {}

    def start(self, name: str) -> None:
        """Start an actor, and let it get ready."""
        own, *helpers = self._needs.bundles
        options: dict[str, Any] = {"num_cpus": own.get("CPU", 0), "num_gpus": own.get("GPU", 0)}
        options["memory"] = own.get("memory")
        if helpers:
            # Processes that the cell starts take the other bundles.
            self._groups[name] = placement_group(self._needs.bundles)
            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                self._groups[name], placement_group_bundle_index=0, placement_group_capture_child_tasks=True
            )
        self._actors[name] = self._class.options(**options).remote(self._settings)
        self.call(name, "prepare")

    def call(self, name: str, method: str, *arguments: Any) -> None:
        """Call a method of an actor; `answers` has its result."""
        self._calls[getattr(self._actors[name], method).remote(*arguments)] = name

    def answers(self) -> Iterator[tuple[str, Any]]:
        """Wait a moment; yield answers of actors, and the errors of those that have died."""
        calls = list(self._calls)
        ready = (
            ray.wait(calls, num_returns=len(calls), timeout=0)[0] or ray.wait(calls, timeout=LOOK_SECONDS)[0]
        )
        for reference in ready:
            name = self._calls.pop(reference)
            try:
                answer = ray.get(reference)
            except OutOfMemoryError:
                answer = SweepError("Ray ended it because its machine ran out of memory")
            except RayError as fault:
                answer = fault
            yield name, answer

    def end(self, name: str) -> None:
        """End an actor, and give its place back."""
        ray.kill(self._actors.pop(name))
        if name in self._groups:
            remove_placement_group(self._groups.pop(name))

    def close(self) -> None:
        """End all actors."""
        for name in list(self._actors):
            self.end(name)


def run_on_ray(queue: BlockQueue, settings: SimulatorSettings, *, sink: Sink, busy: Busy, crew: Crew) -> None:
    """Run everything a queue deals out in workers on the Ray that is connected.

    Parameters
    ----------
    queue
        Deals out blocks of cells.
    settings
        The workers' settings; their workloads are in the object store.
    sink
        Takes results in the order they come, in this thread.
    busy
        Takes the number of busy workers when it changes.
    crew
        How many workers there are to be at once, and the resources that each occupies.

    Raises
    ------
    SweepError
        If workers keep dying, or none can be made ready.
    """
    driver = SweepDriver(queue, sink=sink, busy=busy, crew=crew)
    with client_connection(), contextlib.closing(_Actors(settings, crew.needs)) as actors:
        driver.run(actors)
