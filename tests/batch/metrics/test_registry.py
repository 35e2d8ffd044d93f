"""What our metrics say about themselves, and how metrics are registered and found."""

from __future__ import annotations

import math
import re

import pytest

from gridtune.batch.metrics import METRICS, JobColumns, Metric, evaluate, metric
from gridtune.batch.metrics.registry import MetricFunction
from gridtune.errors import MetricError

from .schedules import FIVE_JOBS, schedule_of

UNITS = {"s", "1", "jobs", "jobs/h", "users", "kWh", "h", "switches", "s^(2/3)"}


pytestmark = pytest.mark.usefixtures("registrations")


@pytest.mark.parametrize("entry", METRICS.values(), ids=METRICS)
class TestOurs:
    def test_says_what_it_is(self, entry: Metric) -> None:
        assert METRICS[entry.name] is entry
        assert entry.unit in UNITS
        assert re.search(r"(19|20)\d\d", entry.source), "a source has a year"
        assert "\\" not in entry.formula, "formulas are plain text"
        assert entry.description.endswith((".", ")"))

    def test_its_docstring_says_it_too(self, entry: Metric) -> None:
        text = entry.function.__doc__ or ""
        for part in (entry.description, entry.formula, f"Unit: {entry.unit}", entry.direction, entry.source):
            assert part in text


class TestRegistration:
    @pytest.mark.parametrize(
        ("result", "fault"),
        [
            (lambda jobs: jobs.wait[99], "fails: IndexError: index 99 is out of bounds"),
            (lambda jobs: None, "fails: TypeError: "),
            (lambda jobs: math.inf, "gives inf and no finite number"),
            (lambda jobs: "12", "gives the text '12' and no number"),
            (lambda jobs: 10.0**400, "fails: OverflowError: "),
        ],
    )
    def test_an_error_or_an_infinite_value_is_an_error_with_the_name(
        self, result: MetricFunction, fault: str
    ) -> None:
        result.__doc__ = "It is for a test."
        metric("broken", unit="1", direction="min", formula="?", source="here, 2024")(result)
        for name in ("broken", "broken[wide]"):
            with pytest.raises(MetricError) as failed:
                evaluate(schedule_of(FIVE_JOBS), only=[name], classes={"wide": "processors >= 1"})
            assert failed.value.message.startswith(f"metric {name!r} {fault}")

    def test_nan_is_a_value(self) -> None:
        @metric("nothing", unit="1", direction="min", formula="NaN", source="here, 2024")
        def nothing(jobs: JobColumns) -> float:
            """Nothing."""
            return math.nan

        assert math.isnan(evaluate(schedule_of(FIVE_JOBS), only=["nothing"])["nothing"])

    def test_a_metric_of_ones_own(self) -> None:
        @metric("long_waits", unit="jobs", direction="min", formula="#{i : wᵢ > 100 s}", source="here, 2024")
        def long_waits(jobs: JobColumns) -> float:
            """How many jobs waited for more than 100 s."""
            return float((jobs.wait > 100).sum())

        assert evaluate(schedule_of(FIVE_JOBS))["long_waits"] == 2
        assert METRICS.find("long_waits").description == "How many jobs waited for more than 100 s."
        assert "Formula: #{i : wᵢ > 100 s}" in (long_waits.__doc__ or "")

    def test_a_name_is_never_overwritten(self) -> None:
        entry = METRICS.find("wait_mean")
        with pytest.raises(MetricError, match="registered already"):
            METRICS.register(entry.name, entry)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"name": "Wait Mean"},
            {"name": ""},
            {"direction": "up"},
            {"unit": ""},
            {"formula": " "},
            {"source": ""},
            {"description": ""},
        ],
    )
    def test_half_a_metric_is_refused(self, wrong: dict[str, str]) -> None:
        whole = {
            "name": "new",
            "function": lambda jobs: 0.0,
            "unit": "s",
            "direction": "min",
            "formula": "0",
            "source": "here",
            "description": "None.",
            "family": "own",
        }
        with pytest.raises(MetricError):
            Metric(**{**whole, **wrong})  # type: ignore[arg-type]
        assert "new" not in METRICS

    def test_a_metric_without_words_is_refused(self) -> None:
        with pytest.raises(MetricError, match="description"):
            metric("new", unit="s", direction="min", formula="0", source="here")(lambda jobs: 0.0)

    def test_the_mapping_is_read_only(self) -> None:
        with pytest.raises(TypeError):
            METRICS["wait_mean"] = METRICS.find("wait_max")  # type: ignore[index]

    def test_a_misspelt_name_is_guessed(self) -> None:
        with pytest.raises(MetricError) as caught:
            METRICS.find("utilization")
        assert "'utilisation'" in (caught.value.hint or "")
