"""What running a cell costs beyond its simulation: cells that do nothing, beside raw Tune and raw Optuna.

    python -m benchmarks.engine_cost
    python -m benchmarks.engine_cost --cells 100000 --skip-ray

Each figure is the wall-clock time of a whole run in this process, divided by its cells: reading the space,
making cells, running and writing them, starting and ending Ray where it is used. Reports are left out. All
are measured in one run, so that ratios hold on a busy machine.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import arguments, print_machine, print_table

SYSTEM = """
from gridtune import Outcome, System, SystemParameters, register_system
from gridtune.core.measures import Measure

class Parameters(SystemParameters):
    x: float = 0.0

class Nothing(System):
    name, version, Parameters = "nothing", "1", Parameters
    metrics = {"value": Measure("1", "min", "(x - 3)²", source="this benchmark")}

    def run(self, parameters, *, streams, load, tables):
        return Outcome({"value": (parameters.x - 3) ** 2})

register_system(Nothing())
"""


def space(folder: Path, dimension: dict[str, Any], strategy: dict[str, Any], seeds: int) -> dict[str, Any]:
    """Return a search space of cells that do nothing."""
    return {
        "name": "nothing",
        "system": "nothing",
        "plugins": [str(folder / "nothing.py")],
        "dimensions": {"x": dimension},
        "strategy": strategy,
        "replicates": {"seeds": seeds},
        "objective": "value",
    }


def gridtune_seconds(content: dict[str, Any], folder: Path, executor: Any, *, tracked: bool = False) -> float:
    """Return the seconds of a sweep; with MLflow and the report if tracked."""
    from gridtune.study import run_sweep  # noqa: PLC0415
    from gridtune.sweep.run import run_space  # noqa: PLC0415

    before = time.perf_counter()
    if tracked:
        uri = f"sqlite:///{folder}/mlflow.db"
        run_sweep(content, directory=folder, executor=executor, tracking_uri=uri, output="quiet")
    else:
        run_space(content, directory=folder, executor=executor)
    return time.perf_counter() - before


def tune_seconds(trials: int, folder: Path, *, adaptive: bool) -> float:
    """Return the seconds of as many trials of raw Tune that do nothing, as cheap as they can be made.

    Ray starts as for gridtune's sweeps, without the processes that no task needs. If adaptive, Optuna's TPE
    chooses the points, through Tune's own `OptunaSearch`.
    """
    from gridtune.sweep.execution.cluster import environment, ray_session  # noqa: PLC0415

    before = time.perf_counter()
    # Without its own loggers, which write several files for each trial.
    quiet = {"TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1", "RAY_AIR_NEW_OUTPUT": "0"}
    with environment(quiet), ray_session(None, workers=0, cpus=1.0):
        from ray import tune  # noqa: PLC0415

        class Nothing(tune.Trainable):
            def step(self) -> dict[str, Any]:
                return {"value": (self.config["x"] - 3) ** 2, "done": True}

            def reset_config(self, new_config: dict[str, Any]) -> bool:
                self.config = new_config
                return True

            def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
                return {}

        search = {}
        if adaptive:
            import optuna  # noqa: PLC0415
            from ray.tune.search.optuna import OptunaSearch  # noqa: PLC0415

            optuna.logging.set_verbosity(optuna.logging.ERROR)
            search = {"search_alg": OptunaSearch(sampler=optuna.samplers.TPESampler(seed=0))}
        tuner = tune.Tuner(
            Nothing,
            param_space={"x": tune.uniform(0.0, 6.0)},
            tune_config=tune.TuneConfig(
                num_samples=trials, reuse_actors=True, metric="value", mode="min", **search
            ),
            run_config=tune.RunConfig(storage_path=str(folder), name=f"tune-{adaptive}", verbose=0),
        )
        if tuner.fit().num_errors:
            raise AssertionError("a trial has failed")
    return time.perf_counter() - before


def optuna_seconds(trials: int) -> float:
    """Return the seconds of as many trials of Optuna's TPE in memory."""
    import optuna  # noqa: PLC0415

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    before = time.perf_counter()
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(lambda trial: (trial.suggest_float("x", 0.0, 6.0) - 3) ** 2, n_trials=trials)
    return time.perf_counter() - before


def main() -> None:
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("--cells", type=int, default=2000, help="of an exhaustive sweep (2000)")
    parser.add_argument("--trials", type=int, default=200, help="of an adaptive one (200)")
    parser.add_argument("--skip-ray", action="store_true", help="leave out what starts Ray")
    options = parser.parse_args()
    print_machine()
    rows: list[tuple[str, int, str, str]] = []

    def measure(name: str, count: int, run: Callable[[], float]) -> None:
        seconds = run()
        rows.append((name, count, f"{seconds:.2f}", f"{1000 * seconds / count:.2f}"))

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "nothing.py").write_text(SYSTEM)
        grid = space(folder, {"grid": list(range(options.cells // 10))}, {"grid": {}}, 10)
        chosen = space(folder, {"uniform": [0, 6]}, {"optuna": {"trials": options.trials, "seed": 0}}, 1)
        cells = options.cells // 10 * 10
        measure("exhaustive, inline", cells, lambda: gridtune_seconds(grid, folder / "a", "inline"))
        measure("the same again, all done", cells, lambda: gridtune_seconds(grid, folder / "a", "inline"))
        measure(
            "exhaustive, inline, with report and MLflow",
            cells,
            lambda: gridtune_seconds(grid, folder / "b", "inline", tracked=True),
        )
        measure(
            "adaptive (TPE), inline", options.trials, lambda: gridtune_seconds(chosen, folder / "c", "inline")
        )
        measure("raw Optuna (TPE)", options.trials, lambda: optuna_seconds(options.trials))
        if not options.skip_ray:
            measure("exhaustive, Ray", cells, lambda: gridtune_seconds(grid, folder / "d", "ray"))
            measure(
                "adaptive (TPE), Ray", options.trials, lambda: gridtune_seconds(chosen, folder / "e", "ray")
            )
            for label, adaptive in (("raw Tune, random", False), ("raw Tune, OptunaSearch (TPE)", True)):
                measure(
                    label,
                    options.trials,
                    lambda adaptive=adaptive: tune_seconds(options.trials, folder, adaptive=adaptive),
                )
    print_table("Cells that do nothing", ("run", "cells or trials", "s", "ms each"), rows)


if __name__ == "__main__":
    main()
