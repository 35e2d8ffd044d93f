"""The `queue_demo` system: customers of c servers, who share one queue or have one at each server."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from gridtune.core.measures import Measure
from gridtune.core.system import FinishedSweep, Outcome, Streams, System, SystemParameters, WorkloadLoader
from pydantic import Field

from queue_demo.kernel import start_times
from queue_demo.theory import erlang_c, mean_wait

__all__ = ["QueueDemo", "QueueParameters"]

_KLEINROCK = "L. Kleinrock, Queueing Systems, Volume 1: Theory, Wiley 1975, section 3.5"
_ERLANG = "A. K. Erlang, Solution of some problems in the theory of probabilities, 1917"


class QueueParameters(SystemParameters):
    """The parameters of one run."""

    servers: Annotated[int, Field(gt=0, le=1000)] = Field(2, description="servers (c)")
    load: Annotated[float, Field(gt=0, lt=1)] = Field(0.7, description="offered load of each server (ρ)")
    queue: Literal["shared", "random", "round_robin"] = Field(
        "shared", description="one queue for all servers, or one at each, joined at random or in turn"
    )
    service_mean: Annotated[float, Field(gt=0)] = Field(60.0, description="mean time of service, s (m)")
    customers: Annotated[int, Field(gt=0)] = Field(10_000, description="customers that are measured (n)")
    warmup: Annotated[int, Field(ge=0)] = Field(
        1000, description="customers before them, who meet the queue while it fills"
    )


class QueueDemo(System):
    """A queue with c servers: Poisson arrivals, exponential times of service.

    Customers share one queue, or each server has its own. Queueing theory knows the waits of the first and of
    random choice; both stand beside what is simulated.
    """

    name: ClassVar[str] = "queue_demo"
    version: ClassVar[str] = "1"
    Parameters: ClassVar[type[SystemParameters]] = QueueParameters
    metrics: ClassVar[Mapping[str, Measure]] = {
        "wait_mean": Measure("s", "min", "Σ wᵢ / n; w: from arrival to start of service", source=_KLEINROCK),
        "response_mean": Measure("s", "min", "Σ (wᵢ + sᵢ) / n; s: time of service", source=_KLEINROCK),
        "waited_fraction": Measure("1", "min", "#{ i : wᵢ > 0 } / n", source=_ERLANG),
        "wait_mean_theory": Measure(
            "s", "none", "C(c, cρ) m / (c (1 - ρ)); own queues: c = 1; in turn: none", source=_KLEINROCK
        ),
        "waited_fraction_theory": Measure(
            "1", "none", "Erlang C: C(c, cρ); own queues: c = 1; in turn: none", source=_ERLANG
        ),
    }
    search_spaces: ClassVar[Path | None] = Path(__file__).with_name("search_spaces")

    def prepare(self, parameters: Iterable[QueueParameters]) -> None:
        """Compile the kernel."""
        if list(parameters):
            start_times(np.zeros(1), np.ones(1), np.zeros(1, np.int64), np.zeros(1), np.empty(1))

    def run(
        self, parameters: QueueParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        """Simulate the customers and measure their waits; `tables` adds a row for each of them."""
        p = parameters
        count = p.warmup + p.customers
        gap = p.service_mean / (p.servers * p.load)
        arrival = np.cumsum(streams("arrivals").exponential(gap, count))
        service = streams("services").exponential(p.service_mean, count)
        start = np.empty(count)
        start_times(arrival, service, _servers(p, count, streams), np.zeros(p.servers), start)
        columns = {"arrival": arrival, "start": start, "end": start + service}
        columns = {name: column[p.warmup :] for name, column in columns.items()}
        wait = columns["start"] - columns["arrival"]
        metrics = {
            "wait_mean": float(wait.mean()),
            "response_mean": float((columns["end"] - columns["arrival"]).mean()),
            "waited_fraction": float((wait > 0).mean()),
            **_theory(p),
        }
        return Outcome(
            metrics, {"customers": p.customers}, {"customers": pa.table(columns)} if tables else {}
        )

    def report(self, sweep: FinishedSweep) -> list[Path]:
        """Write simulated waits beside those of theory, as a table and a figure."""
        from queue_demo.report import write  # slow to import: matplotlib

        return write(sweep)


def _servers(p: QueueParameters, count: int, streams: Streams) -> Any:
    """Return the server whose queue each customer joins; -1 for the queue that all share."""
    if p.queue == "random":
        return streams("choices").integers(p.servers, size=count)
    return np.arange(count) % p.servers if p.queue == "round_robin" else np.full(count, -1)


def _theory(p: QueueParameters) -> dict[str, float]:
    wait = waited = math.nan
    if p.queue != "round_robin":
        # Random choice splits the arrivals into Poisson streams, one for each server.
        servers = p.servers if p.queue == "shared" else 1
        wait, waited = mean_wait(servers, p.load, p.service_mean), erlang_c(servers, p.load)
    return {"wait_mean_theory": wait, "waited_fraction_theory": waited}
