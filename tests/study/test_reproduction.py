"""A tiny reproduction from end to end: runs, goes on, and says what is missing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gridtune.cli.main import main
from gridtune.core.reproduction import (
    Claim,
    Criterion,
    Experiment,
    Log,
    PaperFigure,
    PaperTable,
    Reading,
    Reproduction,
)
from gridtune.core.system import get_system
from gridtune.errors import GridtuneError, SweepError
from gridtune.study.reproduction import _find_reproduction, reproduce
from gridtune.tracking.store import connect
from tests.cli.folders import quickstart

FCFS, SJF = {"order": "fcfs", "backfill": "easy"}, {"order": "sjf", "backfill": "easy"}


def waits(**where: Any) -> Reading:
    return Reading("orders", "wait_mean", where)


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reproduction:
    """Register a reproduction of batch whose log is not on this machine."""
    monkeypatch.chdir(tmp_path)
    space = quickstart(
        fixed={"trace": "a-log-that-is-nowhere.swf"},
        replicates={"seeds": 2},
        resources={"executor": "inline"},
    )
    Path("demo.yaml").write_text(yaml.safe_dump(space))
    stand_in = {"generator": "lublin", "jobs": 60, "seed": 1, "processors": 32, "load": 0.9}
    shorter = Criterion(
        "wait of SJF, change to FCFS",
        Reading("orders", "wait_mean", SJF, FCFS, "change"),
        at_most=0,
        unit="%",
    )
    reproduction = Reproduction(
        title="A demonstration",
        publications=["Nobody, 2020"],
        data="none",
        experiments={
            "orders": Experiment(
                "demo.yaml",
                settings={"order": ["fcfs", "sjf"]},
                quick={"backfill": ["easy"]},
                logs={"a-log-that-is-nowhere.swf": Log("a-log-that-is-nowhere.swf", stand_in)},
            )
        },
        claims=[Claim("SJF shortens waits", "section 1", [shorter])],
        tables=[
            PaperTable(
                "Waits",
                "table 1",
                ["wait, s"],
                [
                    ("SJF", [(None, waits(**SJF))]),
                    ("a rule not run", [(None, waits(order="no rule"))]),
                ],
            )
        ],
        figures=[PaperFigure("Ranking", "figure 1", "orders", "ranking-bounded_slowdown_mean.png", "bars")],
    )
    monkeypatch.setattr(type(get_system("batch")), "reproductions", {"demo": reproduction})
    return reproduction


def test_it_runs_goes_on_and_writes_page_and_verdicts(demo: Reproduction, tmp_path: Path) -> None:
    lines: list[str] = []
    done = reproduce("demo", folder="here", output="quiet", say=lines.append)
    assert done.complete
    assert done.reproduced.cells == {"orders": 4}
    (claim,) = done.reproduced.claims
    assert claim.criteria[0].ours is not None
    assert [label for label, _ in done.reproduced.tables[0].rows] == ["SJF"]
    (trace,) = done.reproduced.traces
    assert trace.name == "../traces/a-log-that-is-nowhere.swf-stand-in.swf.gz"
    assert "stands in for" in trace.remark
    assert lines == [
        "generating here/traces/a-log-that-is-nowhere.swf-stand-in.swf.gz with lublin",
        "experiment 1 of 1: orders",
    ]
    space = yaml.safe_load((tmp_path / "here/spaces/orders.yaml").read_text())
    assert space["dimensions"]["backfill"] == {"grid": ["easy"]}
    text = done.page.read_text(encoding="utf-8")
    assert "data:image/png;base64," in text
    assert "SJF shortens waits" in text

    # Killed after two cells: the same call runs the others, and finds the same.
    journal = tmp_path / "here/orders/journal.jsonl"
    journal.write_text("\n".join(journal.read_text().splitlines()[:3]) + "\n")
    before, page = done.verdicts.read_bytes(), done.page.read_bytes()
    again = reproduce("demo", folder="here", output="quiet", say=lines.append)
    assert again.verdicts.read_bytes() == before
    assert again.page.read_bytes() == page


@pytest.mark.integration
@pytest.mark.slow
def test_verdicts_and_page_are_kept_in_mlflow(demo: Reproduction, store_uri: str) -> None:
    def tracked() -> list[Any]:
        done = reproduce("demo", folder="here", output="quiet", say=lambda _: None, tracking_uri=store_uri)
        assert done.tracking is not None
        assert done.tracking.complete
        client = connect(store_uri)
        return client.search_runs([client.get_experiment_by_name("reproduce demo").experiment_id])

    (run,) = tracked()
    verdict = run.data.tags["SJF shortens waits"]
    assert run.data.metrics == {f"claims {verdict}": 1}
    files = connect(store_uri).list_artifacts(run.info.run_id)
    assert {file.path for file in files} == {"reproduction.html", "verdicts.json"}
    assert len(tracked()) == 1


def test_the_whole_needs_the_real_log_before_anything_is_run(demo: Reproduction, tmp_path: Path) -> None:
    with pytest.raises(GridtuneError, match=r"no trace 'a-log-that-is-nowhere\.swf'"):
        reproduce("demo", full=True, folder="here", output="quiet")
    assert not (tmp_path / "here/orders").exists()


def test_a_folder_of_another_reproduction_is_refused(demo: Reproduction, tmp_path: Path) -> None:
    done = reproduce("demo", folder="here", output="quiet", say=lambda _: None)
    replace(done.reproduced, name="other").write(tmp_path / "here")
    with pytest.raises(SweepError, match="holds the reproduction of 'other'"):
        reproduce("demo", folder="here", output="quiet")
    with pytest.raises(SweepError, match="is no folder"):
        reproduce("demo", folder="demo.yaml", output="quiet")


def test_the_name_that_was_meant(demo: Reproduction) -> None:
    assert _find_reproduction("demo")[0].name == "batch"
    with pytest.raises(SweepError, match="no reproduction of 'demmo'") as caught:
        _find_reproduction("demmo")
    assert "did you mean 'demo'?" in str(caught.value)
    assert "shutdown" in str(caught.value)


def test_the_command_prints_verdicts_or_json(
    demo: Reproduction, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> int:
        with pytest.raises(SystemExit) as ended:
            main(["reproduce", *arguments])
        return int(ended.value.code or 0)

    assert run("demo", "--output", "here") == 0
    shown = capsys.readouterr().out
    assert "SJF shortens waits" in shown
    assert (tmp_path / "here/reproduction.html").as_uri() in shown
    assert run("demo", "--output", "here", "--json") == 0
    content = json.loads(capsys.readouterr().out)
    assert content["name"] == "demo"
    assert content["page"].endswith("reproduction.html")
    assert run("nothing", "--full") == 2
    assert "there is no reproduction of 'nothing'" in capsys.readouterr().err
