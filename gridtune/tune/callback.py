"""`MlflowCallback`: tracks the trials of a `tune.Tuner`, from the driver alone."""

from __future__ import annotations

import time
import uuid
import warnings
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from operator import methodcaller
from typing import Any, NamedTuple

from ray import tune
from ray.tune.result import AUTO_RESULT_KEYS
from ray.tune.utils import flatten_dict

from gridtune.errors import GridtuneWarning
from gridtune.report.labels import value_text
from gridtune.tracking.outbox import Outbox, store_outbox
from gridtune.tracking.runs import RUNNING, Point, RootRun, RunContent, clean_name, clean_text
from gridtune.tracking.store import tracking_uri
from gridtune.training.system import HISTORY, with_segment

__all__ = ["MlflowCallback"]

#: Seconds between two times that results are sent.
_SEND_SECONDS = 2.0
#: What Tune adds to results, beside `AUTO_RESULT_KEYS`.
_BOOK_KEEPING = frozenset({"done", "trial_id", "experiment_tag", "training_iteration", "checkpoint_dir_name"})


class _Era(NamedTuple):
    """A trial's parameters, and the first and last iteration with them."""

    config: Mapping[str, Any]
    first: int
    last: int


class MlflowCallback(tune.Callback):
    """Tracks a tuning in MLflow: a run for it, and one below for each trial.

    A trial's run has its configuration as parameters and every number that it reports as a metric, by
    training iteration; the last value of `gridtune.tune.trainable` is the mean over the replicates. A trial
    that population based training changes keeps the parameters it began with; the tag `history` has all, each
    up to its last iteration, and metrics `parameter.NAME` those that are numbers, by iteration. One process,
    the driver, writes, in batches; a store that is away does not hold the tuning up.

    Parameters
    ----------
    experiment
        The experiment's name.
    tracking_uri
        The tracking store; by default that of `MLFLOW_TRACKING_URI`, else SQLite (`mlflow.db`) in the
        working directory.
    patience
        Seconds of nothing but failures after which the end of the tuning no longer waits for the store.
    """

    def __init__(self, experiment: str, *, tracking_uri: str | None = None, patience: float = 30.0) -> None:
        self._experiment, self._uri, self._patience = experiment, tracking_uri, patience
        self._outbox: Outbox | None = None
        self._trials: dict[str, RunContent] = {}
        self._histories: defaultdict[str, list[Point]] = defaultdict(list)
        #: The parameters that a trial had, each from its first to its last iteration.
        self._eras: defaultdict[str, list[_Era]] = defaultdict(list)
        #: Trials with something that has not been sent.
        self._changed: set[str] = set()
        self._next = 0.0

    def __getstate__(self) -> dict[str, Any]:
        # Tune pickles callbacks before it begins; what is open cannot travel.
        return {**self.__dict__, "_outbox": None}

    def setup(
        self, stop: Any = None, num_samples: Any = None, total_num_samples: Any = None, **info: Any
    ) -> None:
        """Begin the tuning's run."""

        def warn(message: str) -> None:
            warnings.warn(message, GridtuneWarning, stacklevel=2)

        self._outbox = store_outbox(tracking_uri(self._uri), warn, "tuning")
        name = f"{self._experiment} {datetime.now():%Y-%m-%d %H:%M}"
        root = RootRun(self._experiment, "sweep", uuid.uuid4().hex[:20], name)
        self._outbox.put("the tuning's run", lambda runs: runs.open(root))

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Take notice of a trial, also when it begins again with another configuration."""
        values = {name: value_text(value) for name, value in flatten_dict(trial.config).items()}
        label = " · ".join(f"{name}={value}" for name, value in values.items())
        parameters = {clean_name(name): clean_text(value) for name, value in values.items()}
        known = self._trials.get(trial.trial_id)
        if known is None or known.parameters != parameters:
            # Parameters of a run stay; those of a trial that PBT has changed are those it began with.
            kept = parameters if known is None else known.parameters
            name = clean_text(label, 200) or trial.trial_id
            tags = {"gridtune.kind": "trial"}
            self._change(RunContent(trial.trial_id, name, tags, kept, status=RUNNING))

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Take what a trial reports; now and then send what is new."""
        history, step = self._histories[trial.trial_id], int(result.get("training_iteration", 0))
        # A scheduler may have changed the trial's already: the result has those that it was made with.
        eras, config = self._eras[trial.trial_id], flatten_dict(result.get("config", trial.config))
        if eras and eras[-1].config == config:
            eras[-1] = eras[-1]._replace(last=step)
        else:
            eras.append(_Era(config, step, step))
        for name, value in flatten_dict(result).items():
            known = name in AUTO_RESULT_KEYS or name in _BOOK_KEEPING or name.startswith(("config/", "perf/"))
            if not known and isinstance(value, int | float) and not isinstance(value, bool):
                history.append(Point(clean_name(name), float(value), step))
        self._changed.add(trial.trial_id)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _SEND_SECONDS
            self._send(final=False)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Take the end of a trial."""
        self._end(trial, "FINISHED")

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Take the failure of a trial."""
        self._end(trial, "FAILED")

    def _end(self, trial: Any, status: str) -> None:
        if trial.trial_id in self._trials:
            self._change(replace(self._trials[trial.trial_id], status=status))

    def _change(self, content: RunContent) -> None:
        self._trials[content.key] = content
        self._changed.add(content.key)

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Send everything, and end the runs."""
        outbox = self._outbox
        if outbox is None:
            return
        self._send(final=True)
        statuses = [content.status for content in self._trials.values()]
        failed, at = statuses.count("FAILED"), int(time.time() * 1000)
        counts = f"{len(statuses)} trials" + (f", {failed} failed" if failed else "")
        outbox.put("the tuning's totals", lambda runs: runs.update({"trials": counts}))
        outbox.put("the tuning's end", lambda runs: runs.end("FINISHED", at))
        if not outbox.drain(self._patience):
            reason = f": {outbox.fault}" if outbox.fault else ""
            message = f"{len(outbox.unsent)} items were not sent to the tracking store{reason}"
            warnings.warn(message, GridtuneWarning, stacklevel=2)
        outbox.close()

    def _send(self, *, final: bool) -> None:
        outbox = self._outbox
        if outbox is None or (outbox.unsent and not final):
            return
        at = int(time.time() * 1000)
        changed = [self._trials[key] for key in self._trials if key in self._changed]
        for ended in (False, True):
            contents = [
                self._with_history(content) for content in changed if (content.status != RUNNING) == ended
            ]
            if contents:
                outbox.put("trials", methodcaller("log", contents, final=ended, at=at))
        self._changed.clear()

    def _with_history(self, content: RunContent) -> RunContent:
        """Return a trial's content with its points and, if its parameters changed, those it had when."""
        eras, points = self._eras[content.key], list(self._histories[content.key])
        if len(eras) < 2:
            return replace(content, history=tuple(points))
        first, history = eras[0].config, ""
        names = {name for era in eras for name, value in era.config.items() if value != first.get(name)}
        for era in eras:
            values = {name: era.config[name] for name in sorted(names)}
            history = with_segment(history, era.last, values)
            points += [
                Point(f"parameter.{clean_name(name)}", float(value), step)
                for name, value in values.items()
                for step in range(era.first, era.last + 1)
                if isinstance(value, int | float)
            ]
        return replace(content, tags={**content.tags, HISTORY: clean_text(history)}, history=tuple(points))
