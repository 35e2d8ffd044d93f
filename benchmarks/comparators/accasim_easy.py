"""Replay a log with AccaSim's EASY: run by the benchmark, in an environment that has AccaSim.

AccaSim's EASY computes a reservation for the blocked job and then passes none of the reserved nodes to the
allocator that fills the gap, so backfilled jobs may delay that job: its schedule is another one, and its work
per job is, if anything, less. Job counts can be compared; start times cannot.

Usage: python accasim_easy.py LOG.swf PROCESSORS NODES RESULTS_FOLDER
With one node AccaSim has the fewest nodes to look through; with a node per processor it is used as its
authors use it for logs of this format.
Prints the seconds of the simulation and the number of jobs it dispatched.
"""

import collections
import collections.abc
import json
import sys
from pathlib import Path

# AccaSim names the abstract classes by where they stood before Python 3.10.
for name in ("Mapping", "MutableMapping", "Sequence", "Iterable", "Callable"):
    if not hasattr(collections, name):
        setattr(collections, name, getattr(collections.abc, name))

from accasim.base.allocator_class import FirstFit  # noqa: E402
from accasim.base.scheduler_class import EASYBackfilling  # noqa: E402
from accasim.base.simulator_class import Simulator  # noqa: E402


def main() -> None:
    log, processors, nodes, results = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    machine = results / "machine.json"
    machine.write_text(
        json.dumps(
            {
                "system_name": "pool",
                "start_time": 0,
                "equivalence": {"processor": {"core": 1}},
                "groups": {"g0": {"core": processors // nodes}},
                "resources": {"g0": nodes},
            }
        )
    )
    simulator = Simulator(
        log,
        str(machine),
        EASYBackfilling(FirstFit()),
        RESULTS_FOLDER_PATH=str(results),
        scheduling_output=False,
        statistics_output=False,
        show_statistics=False,
        LOG_LEVEL="ERROR",
    )
    simulator.start_simulation()
    print(simulator.end_simulation_time - simulator.start_simulation_time, simulator.dispatched_jobs)


if __name__ == "__main__":
    main()
