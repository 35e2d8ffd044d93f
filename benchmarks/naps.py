"""A plug-in whose cells take a given time and no processor: to measure or disturb what is around them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import ClassVar

from gridtune.core.measures import Measure
from gridtune.core.system import Outcome, Streams, System, SystemParameters, WorkloadLoader, register_system


class NapParameters(SystemParameters):
    """A cell's parameters."""

    number: int
    nap: float


class Naps(System):
    """Sleeps; its result is a random number of the cell's own."""

    name: ClassVar[str] = "naps"
    version: ClassVar[str] = "1"
    Parameters: ClassVar[type[SystemParameters]] = NapParameters
    metrics: ClassVar[Mapping[str, Measure]] = {
        "value": Measure("1", "min", "number mod 7 + a random number from 0 to 1", source="this benchmark")
    }

    def run(
        self, parameters: NapParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        """Sleep."""
        time.sleep(parameters.nap)
        return Outcome({"value": parameters.number % 7 + float(streams("value").random())})


register_system(Naps())
