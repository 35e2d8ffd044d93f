"""What MLflow's pages show of a sweep, in a real browser; `GRIDTUNE_SCREENSHOTS=FOLDER` keeps pictures."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from gridtune.report.summarising import summarise
from gridtune.sweep.journal.results import results_table
from gridtune.tracking.store import connect
from gridtune.tracking.tracker import MlflowTracker

from . import chromium
from .synthetic import cell_results, sweep_facts

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(chromium.program() is None, reason=f"no browser: none of {', '.join(chromium.NAMES)}"),
]


class Site:
    """`gridtune ui` on a store with one sweep."""

    def __init__(self, folder: Path, store: bytes) -> None:
        (folder / "mlflow.db").write_bytes(store)
        self.uri = f"sqlite:///{folder}/mlflow.db"
        tracker = MlflowTracker(self.uri)
        results = cell_results(replicates=10)
        facts = sweep_facts(10, cells=30)
        tracker.begin(facts, folder)
        tracker.add(results)
        tracker.publish(summarise(results_table(results), facts))
        self.outcome = tracker.close()
        assert self.outcome.complete
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [sys.executable, "-c", "from gridtune.cli.main import main; main()", "ui"]
        self._process = subprocess.Popen(
            [*command, "--tracking-uri", self.uri, "--port", str(port)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        lines = [next(self._process.stdout, "") for _ in range(2)]
        match = re.search(r"(http://\S+)   \(Ctrl-C", lines[-1])
        assert match, lines
        self.address = match[1]
        self.server = f"http://127.0.0.1:{port}"
        self._wait_until_it_answers()

    def _wait_until_it_answers(self) -> None:
        while self._process.poll() is None:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.server}/health"):
                return
            time.sleep(0.2)
        raise AssertionError("the server has ended")

    def stop(self) -> None:
        """Stop the server."""
        self._process.terminate()
        self._process.communicate()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, empty_store: bytes) -> Iterator[Site]:
    """A running UI."""
    running = Site(tmp_path_factory.mktemp("site"), empty_store)
    yield running
    running.stop()


def seen(name: str, address: str, *texts: str) -> str:
    """Open a page, wait until it shows the texts, and return all that it shows."""

    async def look() -> str:
        async with chromium.open_page() as page:
            await page.open(address)
            text = await page.wait_for(*texts)
            folder = os.environ.get("GRIDTUNE_SCREENSHOTS")
            if folder:
                # Pictures are drawn a little after the words.
                await asyncio.sleep(3)
                await page.screenshot(Path(folder) / f"{name}.png")
            assert not page.errors
            return text

    return asyncio.run(look())


def test_the_command_opens_on_the_ranking(site: Site) -> None:
    text = seen("ranking", site.address, "order0", "order1", "order2", "to_baseline_percent", "verdict")
    assert re.search(r"order0.*order1.*order2", text, re.DOTALL)
    for shown in (
        "Ranking of orders",
        "wait_mean",
        "rank",
        "baseline",
        "worse",
        "log.swf",
        "3 matching runs",
    ):
        assert shown in text, shown
    assert "Which order is best?" in text
    # The pages for machine learning, not those for language models.
    assert "Model registry" in text
    assert "Prompts" not in text


def test_charts_show_the_ranking_first(site: Site) -> None:
    text = seen(
        "charts", f"{site.address}&compareRunsMode=CHART", "Parallel Coordinates", "to_baseline_percent_up_to"
    )
    titles = set(text.splitlines())
    assert "to_baseline_percent_up_to_200" in titles
    assert titles.isdisjoint({"cells", "seconds"})


def test_the_list_of_experiments_shows_the_question(site: Site) -> None:
    address = f"{site.server}/#/experiments?workflowType=machine_learning"
    seen("experiments", address, "orders", "Which order")


def test_the_page_of_the_sweep_shows_question_ranking_and_datasets(site: Site) -> None:
    address = f"{site.server}/#/experiments/{site.outcome.experiment_id}/runs/{site.outcome.run_id}"
    text = seen("sweep", address, "Which order is best?", "log.swf", "30 of 30 done")
    for shown in ("wait_mean (min)", "order=order0", "smaller is better", "order0"):
        assert shown in text, shown


def test_the_page_of_a_configuration_shows_its_values(site: Site) -> None:
    client = connect(site.uri)
    (run,) = client.search_runs([site.outcome.experiment_id], "attributes.run_name = 'order1'")
    address = f"{site.server}/#/experiments/{site.outcome.experiment_id}/runs/{run.info.run_id}"
    text = seen("configuration", address, "order1", "wait_mean.replicates", "to_baseline_percent")
    assert str(run.data.metrics["wait_mean"])[:6] in text
    # Few tags: what the UI has no column for, and how the run is found again.
    assert text.count("gridtune.") <= 3


def test_two_configurations_side_by_side(site: Site) -> None:
    client = connect(site.uri)
    query = f"tags.`mlflow.parentRunId` = '{site.outcome.run_id}'"
    runs = [run.info.run_id for run in client.search_runs([site.outcome.experiment_id], query)][:2]
    values = f"runs={quote(json.dumps(runs))}&experiments={quote(json.dumps([site.outcome.experiment_id]))}"
    text = seen("comparison", f"{site.server}/#/compare-runs?{values}", "Comparing 2 Runs", "wait_mean")
    assert "order" in text
