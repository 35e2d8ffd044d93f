"""A sweep on a cluster of three nodes that `ray.cluster_utils` makes in this process; prints what it saw.

    python -m tests.integration.three_nodes FOLDER SPACE.yaml

Each node has folders of its own for kernels and temporary files, as machines have; the last one's folder for
kernels cannot be written.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

NODES = 3


class Stores:
    """The most bytes that were in the object store of each node, seen whenever results come."""

    def __init__(self) -> None:
        self.most: dict[str, int] = {}

    def started(self, plan: Any) -> None:
        """Do nothing."""

    def finished(self, results: Any) -> None:
        """Look."""
        import ray  # noqa: PLC0415
        from ray._private.internal_api import node_stats  # noqa: PLC0415

        for node in ray.nodes():
            stats = node_stats(node["NodeManagerAddress"], node["NodeManagerPort"], include_memory_info=False)
            used = int(stats.store_stats.object_store_bytes_used)
            self.most[node["NodeID"]] = max(used, self.most.get(node["NodeID"], 0))

    def ended(self, result: Any) -> None:
        """Do nothing."""


def node_options(folder: Path, number: int) -> dict[str, Any]:
    """Return what a node is started with."""
    own = folder / str(number)
    (own / "tmp").mkdir(parents=True)
    kernels = own / "kernels"
    if number == NODES - 1:
        # A file where the folder should be: permissions do not keep the superuser out.
        kernels.touch()
    variables = {"NODE": str(number), "TMPDIR": str(own / "tmp"), "NUMBA_CACHE_DIR": str(kernels)}
    return {
        "num_cpus": 2,
        "memory": 2 * 2**30,
        "temp_dir": str(folder / "ray"),
        "env_vars": variables,
    }


def main() -> None:
    """Run the sweep."""
    folder, space = Path(sys.argv[1]), Path(sys.argv[2])
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    from gridtune.sweep.run import run_space  # noqa: PLC0415
    from gridtune.sweep.space.overriding import override  # noqa: PLC0415
    from gridtune.sweep.space.plan import load_space  # noqa: PLC0415

    head, *others = (node_options(folder, number) for number in range(NODES))
    head["include_dashboard"] = False
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for options in others:
            cluster.add_node(**options)
        stores = Stores()
        result = run_space(space, directory=folder / "out", address=cluster.address, observers=[stores])
        helped = override(load_space(space), {"helpers": [2], "x": [0, 1, 2, 3]})
        other = run_space(helped, directory=folder / "helped", address=cluster.address)
        seen = {"rows": _rows(result), "stores": list(stores.most.values()), "helped": _rows(other)}
        print(json.dumps(seen))
    finally:
        os.environ.pop("RAY_ADDRESS", None)
        cluster.shutdown()


def _rows(result: Any) -> list[dict[str, Any]]:
    return [
        {"state": one.state, "error": one.error, "x": one.configuration["x"], **one.metrics}
        for one in result.results
    ]


if __name__ == "__main__":
    main()
