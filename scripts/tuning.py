"""What the scripts tune_*.py share: their command line, Ray, and the table at the end."""

import argparse
import contextlib
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import moocore
import numpy as np
import ray
from home import results_home
from ray import tune
from ray.air.integrations.mlflow import MLflowLoggerCallback

from gridtune.tracking.store import tracking_uri

__all__ = ["connected", "options", "print_best", "print_front", "run_config"]

HOME = results_home()


def options(text: str | None, *, samples: int, replicates: int) -> argparse.ArgumentParser:
    """Return a command line with the options that all scripts have.

    Parameters
    ----------
    text
        The script's docstring.
    samples, replicates
        Their defaults.
    """
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=samples, help=f"configurations to try ({samples})")
    parser.add_argument(
        "--replicates", type=int, default=replicates, help=f"replicates of each at most ({replicates})"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the sampler (1)")
    parser.add_argument("--concurrent", type=int, default=4, help="configurations at once (4)")
    parser.add_argument(
        "--address", help="Ray cluster to join: by default $RAY_ADDRESS, else one is started here"
    )
    parser.add_argument(
        "--storage", type=Path, default=HOME / "results" / "tune", help="folder for what Tune writes"
    )
    parser.add_argument(
        "--tracking-uri", help="MLflow store: by default $MLFLOW_TRACKING_URI, else mlflow.db"
    )
    return parser


@contextlib.contextmanager
def connected(arguments: argparse.Namespace) -> Iterator[None]:
    """Connect to Ray, and end the Ray that was started here."""
    if ray.is_initialized():
        yield
        return
    # Many workers with a pool of threads each would wait for one another. Of Tune's output a table now and
    # then is enough, and MLflow has what its loggers would write.
    settings = {
        "OMP_NUM_THREADS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AIR_NEW_OUTPUT": "0",
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    }
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    # It would warn that the files of those loggers are not there.
    logging.getLogger("ray.tune.analysis.experiment_analysis").setLevel(logging.ERROR)
    ray.init(address=arguments.address or os.environ.get("RAY_ADDRESS") or "local", log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


def run_config(name: str, arguments: argparse.Namespace) -> tune.RunConfig:
    """Return where Tune writes, and the callback that tracks trials to MLflow."""
    uri = arguments.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or str(HOME.resolve() / "mlflow.db")
    return tune.RunConfig(
        name=name,
        storage_path=str(arguments.storage.resolve()),
        callbacks=[MLflowLoggerCallback(tracking_uri(uri), experiment_name=name)],
        verbose=1,
    )


def print_best(results: tune.ResultGrid, metric: str, mode: str, shown: int = 10) -> None:
    """Print the best trials.

    Parameters
    ----------
    results
        What `Tuner.fit` returned.
    metric, mode
        What to rank by, and "min" or "max".
    shown
        Rows.
    """
    rows = _rows(results, [metric, "replicates"])
    rows.sort(key=lambda row: float(row[metric]), reverse=mode == "max")
    _print(rows[:shown])


def print_front(results: tune.ResultGrid, objectives: Mapping[str, str]) -> None:
    """Print the trials that no other beats in every objective.

    Parameters
    ----------
    results
        What `Tuner.fit` returned.
    objectives
        Metric to "min" or "max".
    """
    rows = _rows(results, list(objectives))
    signs = [1.0 if mode == "min" else -1.0 for mode in objectives.values()]
    points = np.array([[float(row[name]) for name in objectives] for row in rows]).reshape(-1, len(signs))
    on_front = moocore.is_nondominated(points * signs, keep_weakly=True)
    front = [row for row, on_it in zip(rows, on_front, strict=True) if on_it]
    print(f"{len(front)} of {len(rows)} configurations are on the Pareto front")
    _print(sorted(front, key=lambda row: float(row[next(iter(objectives))])))


def _rows(results: tune.ResultGrid, names: list[str]) -> list[dict[str, Any]]:
    """Return configuration and metrics of every trial that has values."""
    rows = []
    for result in results:
        metrics = result.metrics or {}
        if result.error is None and all(np.isfinite(metrics.get(name, np.nan)) for name in names):
            rows.append({**(result.config or {}), **{name: metrics[name] for name in names}})
    return rows


def _print(rows: list[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = [names, *([_text(row.get(name)) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        print("  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)))


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
    return "–" if value is None else str(value)
