"""The page of a sweep in Chromium: every chart is drawn, nothing fails, and it can be used."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gridtune.core.cells import CellResult
from gridtune.report.facts import ObjectiveFacts, SweepFacts
from gridtune.report.page.page import write_page
from gridtune.report.schedules import ReportMaterial, ScheduleFiles
from gridtune.report.summarising import summarise
from gridtune.sweep.journal.results import results_table
from tests.browser import BROWSER, Browser, browser
from tests.tracking.synthetic import cell_results, sweep_facts

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium here: install it, or name one by CHROMIUM"),
]

OBJECTIVES = (ObjectiveFacts("wait_mean", "min", "s"), ObjectiveFacts("utilisation", "max"))
SECTIONS = [
    "ranking",
    "replicates",
    "effects",
    "interactions",
    "parallel",
    "front",
    "convergence",
    "schedule",
]


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def results_of(orders: int, loads: int = 2, workloads: Sequence[str] = ("log",)) -> list[CellResult]:
    """Return results of a grid of orders and loads; utilisation goes up with the wait."""
    random_numbers = random.Random(1)
    found = []
    for workload in workloads:
        for result in cell_results(orders * loads, workload=workload):
            number = int(result.configuration_id[-4:])
            configuration = {
                **result.configuration,
                "order": f"order{number // loads}",
                "load": 0.7 + 0.1 * (number % loads),
            }
            use = 0.5 + 0.01 * number + 0.01 * random_numbers.random()
            metrics = {**result.metrics, "utilisation": use}
            found.append(replace(result, configuration=configuration, metrics=metrics))
    return found


def facts_of(**changes: Any) -> SweepFacts:
    return sweep_facts(objectives=OBJECTIVES, baseline={"order": "order0", "load": 0.7}, **changes)


def schedule_files(folder: Path, results: Sequence[CellResult]) -> list[ScheduleFiles]:
    columns = {
        "job_id": [1, 2, 3],
        "submit_time": [100, 100, 160],
        "start_time": [100, 100, 400],
        "end_time": [400, 700, 900],
        "processors": [2, 1, 3],
    }
    paths = {}
    for key, word in ((results[0].configuration_id, "baseline"), (results[-1].configuration_id, "best")):
        paths[key] = folder / f"log-{word}.parquet"
        pq.write_table(pa.table(columns), paths[key])
    return [ScheduleFiles("log", paths, replicate="window 1/4", processors=4)]


def show(
    tab: Browser,
    folder: Path,
    results: Sequence[CellResult],
    facts: SweepFacts,
    *,
    width: int = 1280,
    dark: bool = False,
    **material: Any,
) -> None:
    """Write a page and open it."""
    table = results_table(results)
    page = ReportMaterial(summarise(table, facts), table, results, folder, **material)
    path = write_page(page, folder / "report.html")
    tab.faults.clear()
    tab.look(width, dark=dark)
    tab.open(path.as_uri())
    assert tab.run("document.documentElement.dataset.state") == "ready", tab.faults


def shown_sections(tab: Browser) -> list[str]:
    return list(tab.run("[...document.querySelectorAll('section.chart:not([hidden])')].map(one => one.id)"))


def first_column(tab: Browser, column: int = 2) -> list[str]:
    cells = f"#ranking tbody td:nth-child({column})"
    return list(tab.run(f"[...document.querySelectorAll('{cells}')].map(cell => cell.textContent)"))


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (400, False), (400, True)])
def test_every_chart_is_drawn_and_nothing_fails(tab: Browser, tmp_path: Path, width: int, dark: bool) -> None:
    results = results_of(4)
    files = schedule_files(tmp_path, results)
    show(tab, tmp_path, results, facts_of(), width=width, dark=dark, schedules=files)
    assert shown_sections(tab) == SECTIONS
    assert tab.faults == []
    assert tab.requests() == [(tmp_path / "report.html").as_uri()]
    # Each chart has marks inside it, and the page does not scroll sideways.
    for name in SECTIONS:
        marks = "svg circle, svg path, svg polyline, td[style], canvas"
        assert tab.run(f"document.querySelectorAll('#{name}').length") == 1
        assert tab.run(f"document.getElementById('{name}').querySelectorAll('{marks}').length") > 3, name
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run("document.querySelector('main').innerHTML.match(/NaN|undefined|Infinity/)") is None
    colour = "getComputedStyle(document.body).backgroundColor"
    assert (tab.run(colour) == "rgb(20, 23, 26)") is dark


def test_the_gantt_chart_has_the_jobs_colours_where_they_ran(tab: Browser, tmp_path: Path) -> None:
    results = results_of(4)
    show(tab, tmp_path, results, facts_of(), schedules=schedule_files(tmp_path, results))
    # The third job has three of four processors from 300 to 800 seconds after the first submission.
    place = "[62 + (canvas.clientWidth - 72) * 550 / 800, canvas.clientHeight * 0.3]"
    pixel = f"""(() => {{
        const canvas = document.querySelector('#schedule canvas'), [x, y] = {place};
        const ratio = devicePixelRatio;
        return [...canvas.getContext('2d').getImageData(x * ratio, y * ratio, 1, 1).data].slice(0, 3);
    }})()"""
    assert tab.run(pixel) == [0, 158, 115]
    # The second still has the third processor.
    assert tab.run(pixel.replace("* 0.3", "* 0.62")) == [213, 94, 0]


def test_a_schedule_is_zoomed_by_dragging_and_by_buttons(tab: Browser, tmp_path: Path) -> None:
    results = results_of(4)
    show(tab, tmp_path, results, facts_of(), schedules=schedule_files(tmp_path, results))
    labels = "[...document.querySelectorAll('#schedule > div > svg:last-of-type .tick text')]"
    last = f"Number({labels}.at(-1).textContent)"
    # 800 seconds, written in minutes.
    assert tab.run(last) == 13
    tab.run("document.querySelector('#schedule canvas').scrollIntoView({block: 'center'})")
    box = "document.querySelector('#schedule canvas').getBoundingClientRect()"
    x, y, width = tab.run(f"(({{x, y, width}}) => [x, y, width])({box})")
    tab.drag((x + 62 + (width - 72) / 4, y + 50), (x + 62 + (width - 72) / 2, y + 50))
    assert tab.run(last) <= 6.7
    press = "[...document.querySelectorAll('#schedule button')].find(one => {}).click()"
    tab.run(press.format("one.title === 'Show all of it'"))
    assert tab.run(last) == 13
    tab.run(press.format("one.textContent.startsWith('best')"))
    assert "(best), 3 jobs" in tab.run("document.querySelector('#schedule p').textContent")
    assert tab.faults == []


def test_the_table_is_sorted_by_keyboard(tab: Browser, tmp_path: Path) -> None:
    show(tab, tmp_path, results_of(4), facts_of())
    ascending = first_column(tab, 3)
    tab.run("document.querySelector('th[data-key=\"parameter load\"] button').focus()")
    tab.press("Enter")
    assert first_column(tab, 3) == sorted(ascending)
    assert tab.run("document.activeElement.closest('th').ariaSort") == "ascending"
    tab.press("Enter")
    assert first_column(tab, 3) == sorted(ascending, reverse=True)
    assert tab.run("document.activeElement.closest('th').ariaSort") == "descending"
    assert tab.faults == []


@pytest.mark.parametrize(
    ("words", "count"), [("order2", 2), ("order=order2 load>0.75", 1), ("load<0.75", 4), ("nothing", 0)]
)
def test_the_table_is_filtered_by_words(tab: Browser, tmp_path: Path, words: str, count: int) -> None:
    show(tab, tmp_path, results_of(4), facts_of())
    box = "document.querySelector('#ranking input')"
    tab.run(f"{box}.focus(); {box}.value = '{words}'; {box}.dispatchEvent(new Event('input'))")
    assert len(first_column(tab)) == count
    assert f"{count} of 8 configurations" in tab.run(
        "document.querySelector('#ranking [role=status]').textContent"
    )
    assert tab.run(f"document.activeElement === {box}")
    assert tab.faults == []


def test_a_range_drawn_on_an_axis_filters_the_table(tab: Browser, tmp_path: Path) -> None:
    show(tab, tmp_path, results_of(4), facts_of())
    # The wait is the third axis; its lower half holds the short ones.
    tab.run("document.querySelectorAll('#parallel .grab')[2].scrollIntoView({block: 'center'})")
    grab = "document.querySelectorAll('#parallel .grab')[2].getBoundingClientRect()"
    box = tab.run(f"(({{x, y, width, height}}) => [x, y, width, height])({grab})")
    middle, top, bottom = box[0] + box[2] / 2, box[1] + box[3] / 2, box[1] + box[3] - 1
    tab.drag((middle, top), (middle, bottom))
    left = len(first_column(tab))
    assert 0 < left < 8
    tab.run("[...document.querySelectorAll('#parallel button')].at(-1).click()")
    assert len(first_column(tab)) == 8
    assert tab.faults == []


def test_another_workload_and_objective_can_be_chosen(tab: Browser, tmp_path: Path) -> None:
    show(tab, tmp_path, results_of(3, workloads=("log", "other")), facts_of())
    choose = "(menu, index) => { menu.selectedIndex = index; menu.dispatchEvent(new Event('change')); }"
    menus = "document.querySelectorAll('#controls select')"
    assert "overall: mean relative" in tab.run("document.querySelector('#ranking p').textContent")
    tab.run(f"({choose})({menus}[0], 2); ({choose})({menus}[1], 1)")
    heading = tab.run("document.querySelector('#ranking p').textContent")
    assert heading.startswith("other: utilisation, larger is better, 4 ")
    assert tab.faults == []


def test_an_adaptive_sweep_shows_its_trials(tab: Browser, tmp_path: Path) -> None:
    results = results_of(6)
    facts = facts_of(space={"strategy": {"optuna": {"trials": 12}}})
    show(tab, tmp_path, results, facts, order=[result.configuration_id for result in results[::4]])
    assert "order in which they were tried" in tab.run("document.getElementById('convergence').textContent")
    assert tab.faults == []


@pytest.mark.slow
def test_ten_thousand_configurations_and_one(tab: Browser, tmp_path: Path) -> None:
    many = results_of(1250, 8)
    show(tab, tmp_path, many, replace(facts_of(), objectives=OBJECTIVES[:1]))
    assert (tmp_path / "report.html").stat().st_size < 8_000_000
    assert len(first_column(tab)) == 40
    assert "of 10,000 lines are drawn" in tab.run("document.getElementById('parallel').textContent")
    assert tab.run("document.querySelectorAll('#parallel .path').length") <= 603
    show(tab, tmp_path, results_of(1, 1), facts_of())
    assert shown_sections(tab) == ["ranking", "replicates", "front"]
    assert tab.faults == []


def test_failed_cells_and_no_result_at_all(tab: Browser, tmp_path: Path) -> None:
    results = [replace(result, state="failed", metrics={}, error="it broke") for result in results_of(2)]
    show(tab, tmp_path, results, facts_of())
    assert shown_sections(tab) == []
    assert "it broke" in tab.run("document.getElementById('failed').textContent")
    show(tab, tmp_path, [*results[:3], *results_of(2)[3:]], facts_of())
    assert "ranking" in shown_sections(tab)
    assert tab.faults == []


def test_at_800_pixels_the_paired_interval_and_the_verdict_are_in_view(tab: Browser, tmp_path: Path) -> None:
    show(tab, tmp_path, results_of(4), facts_of(), width=800)
    right = tab.run(
        "Math.max(...[...document.querySelectorAll('#ranking th')].filter(head => "
        "/95 % paired|verdict/.test(head.textContent)).map(head => head.getBoundingClientRect().right))"
    )
    assert right <= 800


def test_sampled_numbers_are_scatters_contours_and_names_in_full(tab: Browser, tmp_path: Path) -> None:
    draw = random.Random(2)
    results, drawn = [], {}
    for result in cell_results(24):
        load, noise = drawn.setdefault(result.configuration_id, (draw.random(), draw.random()))
        configuration = {
            **result.configuration,
            "order": "fcfs",
            "a_long_name_of_a_parameter": load,
            "noise": noise,
        }
        metrics = {**result.metrics, "utilisation": draw.random()}
        results.append(replace(result, configuration=configuration, metrics=metrics))
    show(tab, tmp_path, results, sweep_facts(objectives=OBJECTIVES, baseline={}))
    assert tab.faults == []
    assert tab.run("document.querySelectorAll('#effects polyline.smooth').length") == 2
    assert tab.run("document.querySelectorAll('#interactions circle.sample').length") == 24
    assert "a_long_name_of_a_parameter" in tab.run("document.querySelector('#parallel').textContent")


def test_intervals_of_the_front_stay_inside_its_frame(tab: Browser, tmp_path: Path) -> None:
    show(tab, tmp_path, results_of(6), facts_of())
    outside = tab.run(
        "(() => { const all = (kind) => [...document.querySelectorAll(`#front svg ${kind}`)]"
        ".map(node => node.getBoundingClientRect());"
        "const [x, y] = all('.axis'); return all('.span').filter(one => one.left < x.left - 1 ||"
        " one.right > x.right + 1 || one.top < y.top - 1 || one.bottom > y.bottom + 1).length; })()"
    )
    lengths = tab.run(
        "[...document.querySelectorAll('#front .span')].filter(node => node.getTotalLength() > 0).length"
    )
    assert lengths > 0
    assert outside == 0
