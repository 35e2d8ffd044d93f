"""`gridtune policy predict`: how well predictors foresee run times, also one of a user's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import gridtune as gt
from gridtune.batch.predictors import PREDICTORS
from gridtune.study.predicting import block_sums, delay_of, predict

PLUGIN = '''
import gridtune as gt


@gt.predictor("test-always-early")
class AlwaysEarly(gt.Predictor):
    """All jobs end at once."""

    def ended(self, job, run_time, now):
        pass

    def predict(self, job, now):
        return gt.Prediction(1.0, (1.0, 1.0, 1.0), 1.0)
'''


def test_it_rates_predictors(gridtune, tmp_path) -> None:
    log = gt.generate_workload("sessions", jobs=400, processors=16, seed=3)
    gt.write_workload(log, tmp_path / "log.swf")
    (tmp_path / "mine.py").write_text(PLUGIN)
    names = ("--predictor", "last-two", "--predictor", "test-always-early")
    arguments = (
        "policy",
        "predict",
        str(tmp_path / "log.swf"),
        "--plugin",
        str(tmp_path / "mine.py"),
        *names,
    )
    code, out, _ = gridtune(*arguments, "--json")
    assert code == 0
    content = json.loads(out)
    two, early = content["predictors"]
    assert (content["jobs"], two["predictor"], early["predictor"]) == (400, "last-two", "test-always-early")
    share = float((log.run_time < 0.1 * log.requested_time).mean())
    assert early["early_ends"] == two["early_ends"] == pytest.approx(share)
    # One that says the same of all jobs cannot tell them apart, and is off by the share of the others.
    assert early["area_under_roc"] == 0.5
    assert early["calibration_error"] == pytest.approx(1 - share)
    assert early["bins"] == [[1.0], [pytest.approx(share)], [400]]
    assert two["gains"]["prediction"][1] == early["gains"]["prediction"][1]
    code, out, err = gridtune(*arguments, "--tracking-uri", f"sqlite:///{tmp_path}/mlflow.db")
    assert (code, "share of its gain" in out, "test-always-early" in out) == (0, True, True)
    assert "tracked in " in err
    # A log of one block of two weeks has no interval.
    assert "nan" not in out


def test_who_knows_run_times_has_the_whole_gain(monkeypatch) -> None:
    log = gt.generate_workload("sessions", jobs=400, processors=16, seed=3)
    run = np.minimum(log.run_time, log.requested_time).tolist()

    class Knows(gt.Predictor):
        def ended(self, job, run_time, now):
            pass

        def predict(self, job, now):
            seconds = float(run[job.number])
            return gt.Prediction(seconds, (seconds,) * 3, float(seconds < 0.1 * job.walltime))

    monkeypatch.setitem(PREDICTORS._items, "test-knows", Knows)
    _, (rating,) = predict(log, predictor=["test-knows"], guard=200_000)
    assert rating.area_under_roc == 1.0
    assert rating.calibration_error == rating.error == 0.0
    assert rating.share("prediction") == 1.0


def test_the_sums_over_blocks_are_the_metrics() -> None:
    log = gt.generate_workload("sessions", jobs=3000, processors=32, seed=3)
    schedule = gt.simulate(log, order="sjf")
    blocks = block_sums(schedule)
    assert len(blocks) > 2
    assert blocks[:, 0].sum() == 3000
    names = ["bounded_slowdown_mean", "area_weighted_response", "wait_mean", "delay_index"]
    values = gt.evaluate(schedule, only=names)
    np.testing.assert_allclose(delay_of(blocks), [values[name] for name in names])


@pytest.mark.slow
def test_the_page_shows_what_comes_out(trace_dir) -> None:
    log, _ = gt.clean(gt.read_workload(trace_dir / "swf/KTH-SP2-1996-2.1-cln.swf.gz"))
    _, (rating,) = predict(log.windows(2)[1], predictor=["template"])
    gain = rating.gains["prediction"]
    shown = f"{100 * gain.change:+.1f} [{100 * gain.low:+.0f}, {100 * gain.high:+.0f}]: "
    shown += f"{rating.share('prediction'):.0%}".replace("%", " %")
    page = (Path(__file__).parents[2] / "docs/lookahead.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| KTH 2/2 |") and "[" in line)
    assert shown.replace("-", "−") in row
