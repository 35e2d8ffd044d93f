"""Code of users in sweeps: edited, in several files, from a notebook; each cell is of today's code."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import shutil
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridtune as gt
from gridtune.batch.metrics import METRICS
from gridtune.core.remarks import merged_remarks, remark_lines
from gridtune.core.system import get_system
from gridtune.core.user_code import checksums, plugins
from gridtune.core.user_code.plugins import load_plugins
from gridtune.errors import GridtuneWarning, MetricError, PolicyError, SweepError
from gridtune.sweep.execution.observing import SweepResult
from gridtune.sweep.journal.journal import read_journal
from gridtune.sweep.run import run_space, space_cells
from gridtune.sweep.space.code import SweepCode
from gridtune.sweep.space.schema import parse_space

METRIC = """
    import gridtune as gt
    {imports}

    @gt.metric("cost", unit="1", direction="min", formula="c", source="this test")
    def cost(jobs):
        "A cost."
        return {cost}
"""
SYSTEM = """
    import gridtune as gt
    from gridtune.core.measures import Measure

    class Parameters(gt.SystemParameters):
        x: float = {default}

    class Edited(gt.System):
        name = "edited"
        version = "1"
        Parameters = Parameters
        metrics = {{"loss": Measure("1", "min", "l", source="this test")}}

        def run(self, parameters, *, streams, load, tables):
            return gt.Outcome({{"loss": {loss}}})

    gt.register_system(Edited())
"""


@pytest.fixture(autouse=True)
def registered_here_only(registrations: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget afterwards what a test has registered: a metric would be in all other tests' cells."""
    monkeypatch.setattr(plugins, "_LOADED", {})
    plugins.files_read_in_calls().clear()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def write(path: Path, text: str, **values: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text).format(**values))
    return path


def metric_space(plugins: list[Path] | None = None, **changes: Any) -> dict[str, Any]:
    return {
        "name": "edits",
        "fixed": {"trace": "quickstart", "first": 50},
        "dimensions": {"order": ["fcfs", "sjf"]},
        "replicates": {"seeds": 2},
        "objective": "cost",
        "plugins": [str(path) for path in plugins or ()],
        **changes,
    }


def run(space: dict[str, Any], folder: Path, **options: Any) -> SweepResult:
    return run_space(space, directory=folder / "out", executor="inline", **options)


def costs(results: SweepResult) -> list[float]:
    assert results.complete, results.results[0].error
    return [result.metrics["cost"] for result in results.results]


def test_an_edited_metric_is_computed_again_in_every_cell(folder: Path) -> None:
    plugin = write(folder / "plugin.py", METRIC, imports="", cost="1.0")
    space = metric_space([plugin])
    first = run(space, folder)
    assert (costs(first), first.ran, first.other_code) == ([1.0] * 4, 4, None)
    assert run(space, folder).ran == 0
    write(plugin, METRIC, imports="", cost="2.0")
    second = run(space, folder)
    assert (costs(second), second.ran, second.earlier) == ([2.0] * 4, 4, 0)
    assert second.other_code is not None
    assert second.other_code.message == (
        "4 cells in the journal were made by other code (metric cost in plugin.py has changed); "
        "they are kept and not used"
    )
    assert second.plan.other_code == second.other_code
    # Both are kept: what was edited back is there.
    assert len(read_journal(folder / "out" / "journal.jsonl")) == 8
    write(plugin, METRIC, imports="", cost="1.0")
    third = run(space, folder)
    assert (costs(third), third.ran) == ([1.0] * 4, 0)


@pytest.mark.parametrize(
    ("imports", "helper"),
    [
        ("from helper import value", "helper.py"),
        ("from .helper import value", "helper.py"),
        ("from parts.helper import value", "parts/helper.py"),
        ("from parts.inner import value", "parts/helper.py"),
        ("import os, helper; value = helper.value", "helper.py"),
    ],
)
def test_an_edited_module_of_ones_own_counts(folder: Path, imports: str, helper: str) -> None:
    write(folder / "parts" / "__init__.py", "")
    write(
        folder / "parts" / "inner.py", "def value():\n    from . import helper\n    return helper.value()\n"
    )
    plugin = write(folder / "plugin.py", METRIC, imports=imports, cost="value()")
    space = metric_space([plugin])
    for value in (1.0, 2.0):
        write(folder / helper, "def value():\n    return {value}\n", value=value)
        result = run(space, folder)
        assert (costs(result), result.ran) == ([value] * 4, 4)
    assert result.other_code is not None
    assert "metric cost in plugin.py has changed" in result.other_code.message


@pytest.mark.parametrize(
    ("imports", "cost", "data", "name"),
    [
        ("import json; C = json.load(open(HERE / 'data.json'))", "C[0]", "[{value}]", "data.json"),
        ("exec(open(HERE / 'data.txt').read())", "C", "C = {value}", "data.txt"),
        ("import numpy; C = float(numpy.loadtxt(HERE / 'data.txt'))", "C", "{value}", "data.txt"),
        (
            "C = __import__('own_' + 'part').C",
            "C",
            "C = {value}",
            "own_part.py",
        ),
        (
            "from importlib import import_module; C = import_module(f'own_{{1}}').C",
            "C",
            "C = {value}",
            "own_1.py",
        ),
    ],
)
def test_a_file_that_a_plugin_reads_counts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, imports: str, cost: str, data: str, name: str
) -> None:
    """In this process, and in the next one, with the same ids."""
    monkeypatch.syspath_prepend(str(folder))
    here = f"from pathlib import Path; HERE = Path({str(folder)!r})"
    plugin = write(folder / "plugin.py", METRIC, imports=f"{here}; {imports.format()}", cost=cost)
    space = metric_space([plugin])
    for value in (1.0, 12.5):
        write(folder / name, data, value=value)
        result = run(space, folder)
        assert (costs(result), result.ran) == ([value] * 4, 4)
        # As the next process finds it.
        plugins._LOADED.pop(plugin).unload()
        for module in [module for module in sys.modules if module.startswith("own_")]:
            del sys.modules[module]
        again = run(space, folder)
        assert (costs(again), again.ran) == ([value] * 4, 0)
    assert result.other_code is not None
    assert "metric cost in plugin.py has changed" in result.other_code.message
    assert not any("read_files" in one.notes for one in result.results)
    write(folder / name, data, value=1.0)
    assert run(space, folder).ran == 0


def test_two_plugins_that_import_one_module_by_a_computed_name_both_count(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    files = [
        write(
            folder / f"{number}.py",
            METRIC.replace('"cost"', f'"cost{number}"'),
            imports="C = __import__('own_' + 'shared').C",
            cost="C",
        )
        for number in (1, 2)
    ]
    for value in (1.0, 12.5):
        write(folder / "own_shared.py", "C = {value}", value=value)
        result = run(metric_space(files, objective="cost1"), folder)
        assert {(cell.metrics["cost1"], cell.metrics["cost2"]) for cell in result.results} == {(value, value)}
        assert result.ran == 4


@pytest.mark.parametrize("decorator", ["metric", "queue_order", "policy"])
def test_a_declared_file_counts(folder: Path, decorator: str) -> None:
    """Also where it is read only when the function is called, and in a notebook."""
    text = METRIC.replace('formula="c"', 'formula="c", files=["data.json"]')
    if decorator == "queue_order":
        text = """
            import gridtune as gt

            @gt.queue_order("edited-order", files=["data.json"])
            def edited(job):
                "An order."
                return job.walltime
        """
    if decorator == "policy":
        decorator = "queue_order"
        text = """
            import gridtune as gt

            @gt.queue_order("edited-order", files=["data.json"])
            class Edited(gt.Policy):
                "A policy."
                def decide(self, state):
                    return state.easy(range(len(state.waiting)))
        """
    load = "__import__('json').load(open(__file__.replace('plugin.py', 'data.json')))"
    plugin = write(folder / "plugin.py", text, imports="", cost=load)
    space = metric_space([plugin], objective="cost" if decorator == "metric" else "wait_mean")
    space["dimensions"] = {"order": ["fcfs" if decorator == "metric" else "edited-order"]}
    for value in (1.0, 12.5):
        write(folder / "data.json", "{value}", value=value)
        result = run(space, folder)
        assert result.ran == 2
        assert not any("read_files" in one.notes for one in result.results)
        if decorator == "metric":
            assert costs(result) == [value] * 2
    (folder / "data.json").unlink()
    with pytest.raises((MetricError, PolicyError), match=rf"@{decorator}\('.*'\): .*data.json") as caught:
        run(space, folder)
    assert caught.value.path is not None


@pytest.mark.parametrize(
    "read",
    [
        "__import__('json').load(open(HERE / 'data.json'))",
        "float(__import__('numpy').loadtxt(HERE / 'data.json'))",
        "remembered()",
    ],
)
def test_cells_whose_metric_reads_a_file_when_it_is_called_run_again_after_an_edit(
    folder: Path, read: str
) -> None:
    here = f"""
        import functools
        from pathlib import Path
        HERE = Path({str(folder)!r})

        @functools.cache
        def remembered():
            return float((HERE / "data.json").read_text())
    """
    plugin = write(
        folder / "plugin.py", textwrap.dedent(here) + textwrap.dedent(METRIC), imports="", cost=read
    )
    space = metric_space([plugin])
    for value in (1.0, 12.5):
        write(folder / "data.json", "{value}", value=value)
        if plugin in plugins._LOADED:  # as another process finds it
            plugins._LOADED.pop(plugin).unload()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = run(space, folder)
        assert (costs(result), result.ran) == ([value] * 4, 4)
        assert run(space, folder).ran == 0
    (warning,) = [str(one.message) for one in caught if issubclass(one.category, GridtuneWarning)]
    assert warning == f"{folder / 'data.json'} has changed since 4 cells read it: they run again"
    (line,) = [
        line for line in remark_lines(merged_remarks(one.notes for one in result.results)) if "files" in line
    ]
    assert line.startswith(f"files: {folder / 'data.json'} decided these results")
    # Where the file is not, as on another machine, results stay.
    (folder / "data.json").unlink()
    assert run(space, folder).ran == 0


def test_a_declared_file_of_a_notebook_counts(folder: Path) -> None:
    data = write(folder / "data.json", "1")

    @gt.metric("cost", unit="1", direction="min", formula="c", source="this test", files=[data])
    def cost(jobs: Any) -> float:
        """A cost."""
        return float(data.read_text())

    assert costs(run(LIVE | {"dimensions": {"order": ["fcfs"]}}, folder)) == [1.0] * 2
    write(data, "2")
    assert costs(run(LIVE | {"dimensions": {"order": ["fcfs"]}}, folder)) == [2.0] * 2
    with pytest.raises(MetricError, match=r"@metric\('cost'\): files must be a list of paths"):
        gt.metric("cost", unit="1", direction="min", formula="c", source="s", files="data.json")(cost)


def test_a_plugin_that_reads_nothing_of_its_own_is_its_sources(folder: Path) -> None:
    """Whatever Python, packages and gridtune open on its behalf: ids stay as they were."""
    write(folder / "helper.py", "def value():\n    return 1.0\n")
    imports = "import json, numpy, matplotlib.font_manager, zoneinfo, helper; zoneinfo.ZoneInfo('UTC')"
    plugin = write(folder / "plugin.py", METRIC, imports=imports, cost="helper.value()")
    load_plugins([plugin])
    loaded = plugins.loaded_plugin(plugin)
    assert loaded is not None
    assert (loaded.files, loaded.checksum) == ({}, plugins.read_plugin(plugin).checksum)


def test_a_log_that_has_changed_is_named_and_run_again(folder: Path) -> None:
    row = "{0} {0} -1 10 1 -1 -1 1 20 -1 1 1 1 1 1 1 -1 -1\n"
    log = folder / "log.swf"
    space = metric_space(fixed={"trace": str(log)}, objective="wait_mean")
    for jobs in (8, 9):
        log.write_text("; MaxProcs: 4\n" + "".join(map(row.format, range(1, jobs + 1))))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert (run(space, folder).ran, run(space, folder).ran) == (4, 0)
    texts = [str(one.message) for one in caught if issubclass(one.category, GridtuneWarning)]
    assert texts == [f"{log} has changed since 4 cells read it: they run again"]


def test_an_edited_system_is_run_again(folder: Path) -> None:
    space = {
        "name": "edits",
        "system": "edited",
        "plugins": [str(folder / "system.py")],
        "dimensions": {"x": [1.0, 2.0]},
        "objective": "loss",
    }
    for loss, values in (("parameters.x", [1, 2]), ("-parameters.x", [-1, -2])):
        write(folder / "system.py", SYSTEM, loss=loss, default=0.0)
        result = run(space, folder)
        assert [cell.metrics["loss"] for cell in result.results] == values
        assert result.ran == 2
    assert result.other_code is not None
    assert "system edited in system.py has changed" in result.other_code.message
    # A default is left out of an id, so it counts by the source.
    before = [cell.cell_id for cell in space_cells({**space, "dimensions": {"x": [3.0]}})]
    write(folder / "system.py", SYSTEM, loss="-parameters.x", default=3.0)
    assert [cell.cell_id for cell in space_cells({**space, "dimensions": {"x": [3.0]}})] != before


def test_a_metric_that_comes_or_goes_changes_the_cells(folder: Path) -> None:
    plugin = write(folder / "plugin.py", METRIC, imports="", cost="1.0")
    without = run(metric_space(objective="wait_mean"), folder)
    assert "cost" not in without.results[0].metrics
    with_metric = run(metric_space([plugin]), folder)
    assert (costs(with_metric), with_metric.ran) == ([1.0] * 4, 4)
    assert with_metric.other_code is not None
    assert "metric cost in plugin.py is new" in with_metric.other_code.message


def test_an_order_counts_only_where_it_is_used(folder: Path) -> None:
    text = """
        import gridtune as gt

        @gt.queue_order("edited-order")
        def edited(job, weight=1.0):
            "An order."
            return {score}
    """
    order = write(folder / "orders.py", text, score="job.walltime")
    space = metric_space([order], objective="wait_mean")
    space["dimensions"] = {"order": ["fcfs", "edited-order(weight=2)"], "fill_order": [None, "edited-order"]}
    space["replicates"] = {"seeds": 1}
    first = [cell.cell_id for cell in space_cells(space)]
    write(order, text, score="-job.walltime")
    second = [cell.cell_id for cell in space_cells(space)]
    assert [one == other for one, other in zip(first, second, strict=True)] == [True, False, False, False]


def test_two_plugins_may_each_have_a_helper_of_the_same_name(folder: Path) -> None:
    plugins = []
    for number in (1, 2):
        write(folder / str(number) / "helper.py", "VALUE = {number}.0", number=number)
        text = METRIC.replace('"cost"', f'"cost{number}"')
        plugin = write(folder / str(number) / "p.py", text, imports="import helper", cost="helper.VALUE")
        plugins.append(plugin)
    result = run(metric_space(plugins, objective="cost1"), folder)
    assert [(cell.metrics["cost1"], cell.metrics["cost2"]) for cell in result.results] == [(1.0, 2.0)] * 4


def test_two_files_with_one_name_are_refused_and_named(folder: Path) -> None:
    one = write(folder / "one.py", METRIC, imports="", cost="1.0")
    other = write(folder / "other.py", METRIC, imports="", cost="2.0")
    with pytest.raises(MetricError, match="'cost' is registered already") as caught:
        space_cells(metric_space([one, other]))
    assert str(one) in caught.value.message
    assert caught.value.path == other
    # The first one is as it was.
    assert run(metric_space([one]), folder).complete


def test_faults_name_the_users_file_and_line(folder: Path) -> None:
    helper = write(folder / "helper.py", "def fail():\n    raise ValueError('no luck')\n")
    for text, error, place in (
        ("import helper\n\nhelper.fail()\n", "ValueError: no luck", f"{helper}:2"),
        ("x = 1\nx = = 2\n", "SyntaxError: invalid syntax", f"{folder / 'plugin.py'}:2"),
        ("\nimport no_such_module\n", "No module named 'no_such_module'", f"{folder / 'plugin.py'}:2"),
    ):
        plugin = write(folder / "plugin.py", text)
        with pytest.raises(PolicyError, match=error) as caught:
            load_plugins([plugin])
        assert str(caught.value).startswith(place)
    plugin = write(folder / "plugin.py", METRIC, imports="import helper", cost="helper.fail()")
    failed = run(metric_space([plugin]), folder).results[0]
    assert failed.state == "failed"
    assert "metric 'cost' fails: ValueError: no luck" in str(failed.error)
    assert f"{helper}, line 2" in str(failed.error)


def test_a_plugin_that_fails_after_an_edit_leaves_the_old_one_in_place(folder: Path) -> None:
    plugin = write(folder / "plugin.py", METRIC, imports="", cost="1.0")
    assert costs(run(metric_space([plugin]), folder)) == [1.0] * 4
    write(plugin, METRIC, imports="1 / 0", cost="2.0")
    with pytest.raises(PolicyError, match="ZeroDivisionError"):
        load_plugins([plugin])
    assert gt.evaluate(gt.simulate(gt.generate_workload("poisson", jobs=9, seed=1)))["cost"] == 1.0


def register(cost: float, table: dict[str, float]) -> None:
    """Register a metric and an order as a cell of a notebook does."""

    def weighted(value: float) -> float:
        return value * table["weight"]

    @gt.metric("cost", unit="1", direction="min", formula="c", source="this test")
    def measured(jobs: Any) -> float:
        """A cost."""
        return float(np.float64(weighted(cost)))

    @gt.queue_order("live")
    def live(job: Any, weight: float = 1.0) -> float:
        """An order."""
        return weight * job.walltime


LIVE = metric_space(
    dimensions={"order": ["fcfs", "live", "live(weight=-1)"]}, objective=["cost", "wait_mean"]
)


def test_code_of_a_notebook_counts_with_what_it_refers_to(folder: Path) -> None:
    def ids(cost: float, weight: float) -> list[str]:
        register(cost, {"weight": weight})
        return [cell.cell_id for cell in space_cells(LIVE)]

    assert ids(1.0, 2.0) == ids(1.0, 2.0)
    assert len({tuple(ids(*values)) for values in ((1.0, 2.0), (2.0, 2.0), (1.0, 3.0))}) == 3
    table = {"weight": 1.0}
    register(1.0, table)
    before = run(LIVE, folder)
    table["weight"] = 5.0
    after = run(LIVE, folder)
    assert (costs(before), costs(after)) == ([1.0] * 6, [5.0] * 6)
    assert after.other_code is not None
    assert "metric cost" in after.other_code.message


SCRIPT = """
import threading

import numba
import numpy as np

import gridtune as gt
from gridtune.sweep.run import space_cells

LOCK, TABLE, NAMES = threading.Lock(), np.arange(3.0), {"alpha", "beta", "gamma", "delta"}

class Scale:
    factor = 2.0

    def __call__(self, value):
        return self(value - 1) if value > 1 else self.factor

@numba.njit
def compiled(value):
    return value + 1.0

@gt.metric("cost", unit="1", direction="min", formula="c", source="this test")
def cost(jobs):
    "A cost."
    with LOCK:
        return compiled(TABLE[1]) + Scale()(3) + sum(map(len, NAMES)) + ("x" in {"x", "y", "z"})

space = {"name": "s", "objective": "cost", "fixed": {"trace": "quickstart"}}
print([cell.cell_id for cell in space_cells(space)])
"""


@pytest.mark.slow
def test_code_of_a_script_has_the_same_ids_in_every_process(folder: Path) -> None:
    def ids(place: str, text: str, seed: str) -> str:
        script = write(folder / place / "script.py", "{source}", source=text)
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(
            [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True
        ).stdout

    first = ids("here", SCRIPT, "1")
    assert ids("there", "# Another line.\n" + SCRIPT, "2") == first
    changes = (
        ("factor = 2", "factor = 3"),
        ("arange(3.0)", "arange(4.0)"),
        ("+ 1.0", "+ 2.0"),
        ("gamma", "eta"),
    )
    assert len({ids("here", SCRIPT.replace(*change), "3") for change in changes} | {first}) == 5


def test_ids_are_the_same_from_any_folder_for_any_user_after_a_move(folder: Path) -> None:
    program = """
        from gridtune.sweep.run import space_cells
        space = {{
            "name": "s", "objective": "cost", "fixed": {{"trace": "quickstart"}}, "plugins": [{plugin!r}],
        }}
        print([cell.cell_id for cell in space_cells(space)])
    """

    def ids(project: str, started_in: str, home: str) -> str:
        write(folder / project / "own_costs.py", "C = {value}", value=3.0)
        imports = "import own_costs"
        plugin = write(folder / project / "plugin.py", METRIC, imports=imports, cost="own_costs.C")
        script = write(folder / project / "script.py", program, plugin=str(plugin))
        for place in (started_in, home):
            (folder / place).mkdir(exist_ok=True)
        environment = {**os.environ, "HOME": str(folder / home), "USER": home, "LOGNAME": home}
        ended = subprocess.run(
            [sys.executable, str(script)],
            cwd=folder / started_in,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    first = ids("project", "project", "ada")
    assert ids("project", "elsewhere", "ada") == first
    assert ids("moved", "elsewhere", "bob") == first


@pytest.mark.integration
@pytest.mark.usefixtures("cluster")
@pytest.mark.slow
def test_code_of_a_notebook_reaches_the_workers(folder: Path) -> None:
    register(2.0, {"weight": 3.0})
    here = run(LIVE, folder / "here")
    there = run_space(LIVE, directory=folder / "there", executor="ray")
    assert costs(there) == [6.0] * 6
    # NaN equals itself here.
    np.testing.assert_equal([cell.metrics for cell in there.results], [cell.metrics for cell in here.results])
    assert len({cell.metrics["wait_mean"] for cell in there.results}) == 3
    assert {cell.worker for cell in there.results}.isdisjoint({cell.worker for cell in here.results})


@pytest.mark.integration
@pytest.mark.usefixtures("cluster")
def test_modules_of_ones_own_reach_the_workers(folder: Path) -> None:
    write(folder / "plugins" / "helper.py", "def value():\n    return 4.0\n")
    plugin = write(folder / "plugins" / "p.py", METRIC, imports="from helper import value", cost="value()")
    result = run_space(metric_space([plugin]), directory=folder / "out", executor="ray")
    assert costs(result) == [4.0] * 4
    # They come along: a worker on another machine has no such folder.
    sent = pickle.dumps(SweepCode(parse_space(metric_space([plugin])), get_system("batch")).sent)
    shutil.rmtree(folder / "plugins")
    code = (
        "import pickle, sys, gridtune as gt\n"
        "system = pickle.load(sys.stdin.buffer).load()\n"
        "schedule = gt.simulate(gt.generate_workload('poisson', jobs=9, seed=1))\n"
        "print(gt.evaluate(schedule)['cost'])"
    )
    done = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, check=True)
    assert done.stdout == b"4.0\n"


def test_a_worker_with_other_code_says_so(folder: Path) -> None:
    plugin = write(folder / "plugin.py", METRIC, imports="", cost="1.0")
    space = parse_space(metric_space([plugin]))
    load_plugins([plugin])
    sent = SweepCode(space, get_system("batch")).sent
    assert sent.load() is get_system("batch")
    for change, reason in (
        ({"version": "0"}, f"the system is of version {get_system('batch').version}, not 0"),
        ({"used": {"metric cost": "0" * 64}}, "metric cost is another"),
        ({"used": {}}, "metric cost is only there"),
        ({"used": {**sent.used, "metric other": None}}, "metric other is missing"),
    ):
        with pytest.raises(SweepError, match=f"other code than the driver: {reason}"):
            replace(sent, **change).load()


def test_an_installed_package_counts_with_its_own_modules(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A metric that a package announces is in every cell, so its source is in every cell's id."""
    write(folder / "announced" / "__init__.py", "")
    write(folder / "announced" / "metrics.py", METRIC, imports="from .helper import value", cost="value()")
    helper = write(folder / "announced" / "helper.py", "def value():\n    return 1.0\n")
    monkeypatch.syspath_prepend(str(folder))
    point = EntryPoint("cost", "announced.metrics", "gridtune.metrics")
    monkeypatch.setitem(METRICS.entry_points, "cost", point)

    def code() -> dict[str, str]:
        checksums._package_content.cache_clear()
        (cell, *_) = space_cells(metric_space(replicates={"seeds": 1}))
        found: dict[str, str] = json.loads(cell.identity)["code"]
        return found

    try:
        before = code()
        assert list(before) == ["metric cost"]
        assert code() == before
        write(helper, "def value():\n    return 2.0\n")
        assert code() != before
        sent = SweepCode(parse_space(metric_space()), get_system("batch")).sent
        assert (sent.modules, sent.plugins, sent.pickled) == (("announced.metrics",), (), b"")
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "announced"]:
            del sys.modules[name]


def test_code_that_was_edited_after_its_import_counts_as_it_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook goes on with the module that it has imported, whatever is in the file by now."""
    monkeypatch.syspath_prepend(str(folder))
    file = write(folder / "imported_once.py", METRIC, imports="", cost="1.0")
    importlib.import_module("imported_once")
    try:
        first = run(metric_space(), folder)
        # Of another length: Python takes a file of the same second and size for the one it has compiled.
        write(file, METRIC, imports="", cost="2.00")
        second = run(metric_space(), folder / "again")
        assert (costs(first), costs(second)) == ([1.0] * 4, [1.0] * 4)
        importlib.reload(sys.modules["imported_once"])
        third = run(metric_space(), folder)
        assert (costs(third), third.ran) == ([2.0] * 4, 4)
    finally:
        del sys.modules["imported_once"]


def test_what_cannot_be_sent_is_refused_before_ray_starts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_ray(*arguments: Any, **options: Any) -> Iterator[None]:
        pytest.fail("Ray was started")

    monkeypatch.setattr("gridtune.sweep.execution.executors.RaySession", no_ray)
    with (folder / "log").open("w") as log:
        register(1.0, {"weight": 1.0, "log": log})  # type: ignore[dict-item]
        with pytest.raises(SweepError, match=r"the metric cost is defined in .* cannot be sent") as caught:
            gt.run_sweep(LIVE, directory=folder / "out", executor="ray", output="quiet", tracking=False)
    assert "`plugins`" in str(caught.value.hint)
    assert not (folder / "out" / "journal.jsonl").exists()
