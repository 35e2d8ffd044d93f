"""Predictions against their twin in plain Python, what they may not see, and predictors that fail."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridtune as gt
from gridtune.batch.predictors import EARLY, PREDICTORS, early_end
from gridtune.errors import PolicyError, SimulationError
from tests.batch.logs import logs, make_log, reference_starts
from tests.conftest import examples

POLICIES = [
    {"order": "prediction * processors - wait"},
    {"order": "walltime * (1 - early_end) - wait / 3", "fill_order": "prediction"},
    {"order": "rollout(durations=predicted, portfolio=saf | prediction | -early_end, window=5)"},
    {"order": "rollout(durations=predicted, objective=balanced, moves=7)"},
    {"order": "sjf", "walltime": "predicted"},
    {"order": "rollout(portfolio=fcfs | sjf)", "walltime": "predicted"},
]


@gt.predictor("test-impatient")
class Impatient(gt.Predictor):
    """Halves what a user's last job ran, and grows with the time; asks again soon."""

    interval = 3

    def __init__(self):
        self.last = {}

    def ended(self, job, run_time, now):
        self.last[job.user] = run_time

    def predict(self, job, now):
        mean = max(self.last.get(job.user, job.walltime) / 2, job.elapsed) + now % 7 / 2
        return gt.Prediction(mean, (0.0, mean, mean), 0.0 if job.elapsed else (job.number % 4 + now % 2) / 5)


@pytest.mark.parametrize("policy", POLICIES)
@examples(60)
@given(
    workload=logs(jobs=16),
    predictor=st.sampled_from(["last-two", "template", "test-impatient"]),
    backfill=st.sampled_from(["easy", "easy-per-event"]),
    guard=st.sampled_from([None, None, 0, 5]),
    kill=st.booleans(),
)
def test_kernel_equals_twin(policy, workload, predictor, backfill, guard, kill):
    settings_ = {**policy, "predictor": predictor, "backfill": backfill, "guard": guard, "kill": kill}
    schedule = gt.simulate(workload, **settings_)
    gt.validate_schedule(schedule)
    np.testing.assert_array_equal(schedule.start_time, reference_starts(workload, **settings_))


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_last_two_is_the_same_compiled_and_in_python(backfill):
    log = gt.generate_workload("sessions", jobs=1500, processors=32, seed=5)
    for order in ("prediction * processors", "walltime * (1.5 - early_end)"):
        compiled = gt.simulate(log, order=order, backfill=backfill)
        plain = gt.simulate(log, order=order, backfill=backfill, predictor=PREDICTORS["last-two"])
        np.testing.assert_array_equal(compiled.start_time, plain.start_time)


def columns_of(workload):
    names = ("submit_time", "run_time", "requested_time", "requested_processors", "user")
    return [np.array(workload.column(name)) for name in names]


@pytest.mark.parametrize(
    ("predictor", "futures"),
    [
        ("last-two", 154),
        pytest.param("template", 154, marks=pytest.mark.slow),
        pytest.param("early-end", 28, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    "policy",
    [
        {"order": "walltime * (1 - early_end) + prediction"},
        {"order": "rollout(durations=predicted, window=16)"},
        {"order": "unicef", "walltime": "predicted"},
    ],
)
def test_no_decision_depends_on_what_happens_later(predictor, futures, policy, monkeypatch):
    # Other futures: run times of jobs that have not ended, and all of the jobs not yet submitted; 1,008 in
    # all, where all are drawn. Fits take most of the time.
    futures = examples(futures).max_examples
    monkeypatch.setattr(early_end, "_FIRST", 40)
    monkeypatch.setattr(early_end, "_ROUNDS", 4)
    rng = np.random.default_rng(11)
    workload = gt.generate_workload("sessions", jobs=200, seed=4, processors=32)
    columns = columns_of(workload)
    submit, run, _, _, user = columns
    options = {"predictor": predictor, "guard": 40_000, "kill": True, **policy}
    past = gt.simulate(workload, **options)
    start, end = past.start_time, past.end_time
    changed = 0
    for _ in range(futures):
        now = int(rng.choice(np.concatenate([submit, end])))
        coming, going = submit > now, end > now
        other = [column.copy() for column in columns]
        ran = np.maximum(now - start, -1) + 1
        other[1][going] = (ran + rng.integers(0, 30_000, len(run)))[going]
        other[2][coming] = rng.integers(1, 30_000, coming.sum())
        other[3][coming] = rng.integers(1, 33, coming.sum())
        other[4][coming] = rng.choice(user, coming.sum())
        schedule = gt.simulate(make_log(np.stack(other, axis=1), 32), **options)
        decided = start <= now
        np.testing.assert_array_equal(schedule.start_time[decided], start[decided])
        assert (schedule.start_time[~decided] > now).all()
        changed += (schedule.start_time != start).any()
    assert changed > futures / 2


def failing(fault):
    class Failing(gt.Predictor):
        """Fails for the fortieth job."""

        def ended(self, job, run_time, now):
            pass

        def predict(self, job, now):
            return fault() if job.number == 39 else gt.Prediction(5.0, (1.0, 5.0, 9.0), 0.5)

    return Failing


def raises():
    raise RuntimeError("no idea")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (raises, "no idea"),
        (lambda: gt.Prediction(math.nan, (1.0, 2.0, 3.0), 0.5), "mean is nan"),
        (lambda: gt.Prediction(1.0, (1.0, math.inf, 3.0), 0.5), "quantiles"),
        (lambda: gt.Prediction(1.0, (3.0, 2.0, 1.0), 0.5), "fall"),
        (lambda: gt.Prediction(1.0, (1.0, 2.0, 3.0), 1.5), "early end is 1.5"),
        (lambda: 7, "iter|unpack"),
    ],
)
@pytest.mark.parametrize("order", ["prediction", "rollout(durations=predicted)"])
def test_a_predictor_that_fails_fails_the_run(fault, words, order):
    log = gt.generate_workload("sessions", jobs=80, processors=32, seed=5)
    second = int(log.submit_time[39] - log.submit_time[0])
    with pytest.raises(PolicyError, match=words) as failed:
        gt.simulate(log, order=order, predictor=failing(fault))
    assert f"at second {second:,}, for job {log.job_id[39]}" in str(failed.value)


def test_a_keyboard_interrupt_ends_the_run():
    def interrupt():
        raise KeyboardInterrupt

    log = gt.generate_workload("sessions", jobs=80, processors=32, seed=5)
    with pytest.raises(KeyboardInterrupt):
        gt.simulate(log, order="prediction", predictor=failing(interrupt))


def test_early_ends_are_learned():
    # Users 0 and 1 end after a second or when they have to, by turns of sizes; the trees tell which.
    rng = np.random.default_rng(3)
    rows = []
    for number in range(1200):
        width = int(rng.integers(1, 3))
        walltime = int(rng.choice([1000, 4000]))
        early = (width == 1) == (walltime == 1000)
        rows.append((900 * number, 5 if early else walltime, walltime, width, number % 2))
    told = []

    class Listening(PREDICTORS["early-end"]):
        def predict(self, job, now):
            said = super().predict(job, now)
            told.append((job.number, said))
            return said

    gt.simulate(make_log(rows, 4), order="prediction", predictor=Listening)
    late = [(rows[number], said) for number, said in told if number > 600]
    assert len(late) > 500
    for (_, run, walltime, *_), said in late:
        assert (said.early_end > 0.8) == (run < EARLY * walltime)
        assert abs(said.mean - run) < 0.2 * walltime


SCRIPT = """
import hashlib, gridtune as gt
log = gt.generate_workload("sessions", jobs=900, processors=32, seed=8)
for order in ("walltime * (1 - early_end)", "rollout(durations=predicted)"):
    schedule = gt.simulate(log, order=order, predictor="early-end")
    print(hashlib.sha256(schedule.start_time.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_processes_agree():
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, threads in (("1", "1"), ("2", "2"))
    }
    assert len(outputs) == 1


def test_what_is_refused():
    log = make_log([(0, 1, 1, 1)], 2)
    with pytest.raises(PolicyError, match=r"(?s)no predictor is named 'early'.*'early-end'"):
        gt.simulate(log, order="prediction", predictor="early")
    with pytest.raises(SimulationError, match="conservative"):
        gt.simulate(log, walltime="predicted", backfill="conservative")
    with pytest.raises(PolicyError, match="derives from Predictor"):
        gt.predictor("test-no-predictor")(lambda job: 1)
    with pytest.raises(PolicyError, match="has no method ended, predict"):
        gt.predictor("test-half-a-predictor")(type("Half", (gt.Predictor,), {}))
    with pytest.raises(PolicyError, match="already by gridtune"):
        gt.predictor("template")(Impatient)
