"""`gridtune`, `gridtune run` and `gridtune sweep --dry-run`, as a user meets them."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest

from gridtune import __version__
from gridtune.core.system import SYSTEMS, Outcome
from gridtune.systems.batch.system import BatchSystem
from gridtune.tracking.runs import clean_name
from gridtune.tracking.store import connect
from tests.sweep.spaces import TOY

QUICKSTART = Path(__file__).resolve().parents[2] / "search_spaces" / "quickstart.yaml"


def test_help_names_every_command(gridtune) -> None:
    printed = gridtune("--help")[1]
    for command in ("simulate", "run", "sweep", "traces", "ui", "report"):
        assert f"  {command} " in printed


def test_every_command_has_help(gridtune) -> None:
    for command in ("simulate", "run", "sweep", "traces", "ui", "report"):
        code, out, _ = gridtune(command, "--help")
        assert code == 0
        assert "Example" in out, command


def test_version(gridtune) -> None:
    assert gridtune("--version")[1].strip().endswith(__version__)


def test_a_misspelt_command_is_guessed(gridtune) -> None:
    code, _, err = gridtune("swep")
    assert code == 2
    assert "did you mean 'sweep'?" in err


def test_run_prints_one_json_object(gridtune) -> None:
    code, out, err = gridtune(
        "run", "batch", "trace=quickstart", "first=100", "order=sjf", "--seed", "3", "--json"
    )
    assert (code, err) == (0, "")
    printed = json.loads(out)
    assert {"system", "parameters", "seed", "cell_id", "metrics", "notes", "seconds"} <= set(printed)
    assert printed["parameters"]["order"] == "sjf"
    assert printed["parameters"]["backfill"] == "easy"
    assert printed["seed"] == 3
    assert printed["metrics"]["jobs"] == 100
    assert gridtune("run", "batch", "order=sjf", "first=100", "trace=quickstart", "--seed=3", "--json")[1]


def test_what_is_not_defined_is_null(gridtune) -> None:
    out = gridtune("run", "batch", "trace=quickstart", "first=1", "--json")[1]
    printed = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert printed["metrics"]["jobs"] == 1
    assert None in printed["metrics"].values()


def test_run_prints_a_table_for_people(gridtune) -> None:
    code, out, _ = gridtune("run", "batch", "trace=quickstart", "first=50")
    assert code == 0
    assert all(f" wait_mean{of} " in out for of in ("", "[narrow]", "[wide]", "[long]"))


def test_run_writes_the_schedule(gridtune, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "schedule.parquet"
    code, _, _ = gridtune("run", "batch", "trace=quickstart", "first=50", "--out", str(out), "--json")
    assert code == 0
    assert pq.read_table(out).num_rows == 50


@pytest.mark.usefixtures("registrations")
@pytest.mark.integration
def test_run_and_simulate_keep_a_cell_in_mlflow(gridtune, tmp_path: Path, store_uri: str) -> None:
    out = tmp_path / "schedule.parquet"
    cell = ("batch", "trace=quickstart", "first=300", "order=sjf", "--out", str(out))
    code, printed, told = gridtune("run", *cell, "--json", "--tracking-uri", store_uri)
    assert code == 0
    assert "tracked in sqlite:///" in told
    client = connect(store_uri)
    experiment = client.get_experiment_by_name("run batch").experiment_id
    (stored,) = client.search_runs([experiment])
    metrics = json.loads(printed)["metrics"]
    kept = {clean_name(name): value for name, value in metrics.items() if value is not None}
    assert stored.data.metrics == kept
    assert stored.data.params == {"trace": "quickstart", "first": "300", "order": "sjf", "seed": "0"}
    assert stored.info.status == "FINISHED"
    assert [file.path for file in client.list_artifacts(stored.info.run_id)] == [out.name]
    # The same cell is the same run; another command's log is another.
    assert gridtune("run", *cell, "--tracking-uri", store_uri)[0] == 0
    assert len(client.search_runs([experiment])) == 1
    options = ("--first", "300", "--plot", str(tmp_path / "load.png"), "--tracking-uri", store_uri)
    code, _, told = gridtune("simulate", "quickstart", *options)
    assert code == 0, told
    simulated = client.search_runs([experiment])[0]
    assert simulated.data.metrics["wait_mean"] > 0
    assert [file.path for file in client.list_artifacts(simulated.info.run_id)] == ["load.png"]
    assert len(client.search_runs([experiment])) == 2


def test_notes_are_short_for_people_and_whole_in_json(gridtune) -> None:
    front = [[1 / 3 + number, 2e6 / 3] for number in range(1, 44)]
    notes = {"front": front, "share": 2 / 3, "cleaning": {"a": 1, "b": 2}, "jobs": 123456, "none": {}}

    class Noted(BatchSystem):
        name = "noted"
        reproductions: ClassVar[dict[str, Any]] = {}

        def run(self, *args: Any, **options: Any) -> Outcome:
            return replace(super().run(*args, **options), notes=notes)

    SYSTEMS.put("noted", Noted())
    args = ("run", "noted", "trace=quickstart", "first=20")
    printed = gridtune(*args)[1]
    shown = ", ".join(f"[{number}.333, 666667]" for number in range(1, 6))
    assert f"front: [{shown}, … and 38 more]\n" in printed
    assert "share: 0.6667\ncleaning: a 1, b 2\njobs: 123456\nnone: none\n" in printed
    assert json.loads(gridtune(*args, "--json")[1])["notes"] == notes


def test_several_tables_go_into_a_folder(gridtune, tmp_path: Path) -> None:
    args = ("run", "shutdown", "trace=quickstart", "policy=timeout", "--json")
    for name in ("tables", "tables.parquet"):
        code, out, err = gridtune(*args, "--out", str(tmp_path / name))
        assert code == 0, err
        assert json.loads(out)["metrics"]
        files = {path.stem for path in (tmp_path / "tables").iterdir()}
        assert len(files) > 1
        assert f"tables in {tmp_path / 'tables'}/: " in err
        assert not (tmp_path / "tables.parquet").exists()
        shutil.rmtree(tmp_path / "tables")


def test_one_table_goes_into_a_folder_too(gridtune, tmp_path: Path) -> None:
    code, _, _ = gridtune("run", "batch", "trace=quickstart", "first=50", "--out", str(tmp_path / "tables"))
    assert code == 0
    assert pq.read_table(tmp_path / "tables" / "schedule.parquet").num_rows == 50


def test_where_tables_go_is_checked_before_the_run(gridtune, tmp_path: Path) -> None:
    (tmp_path / "folder.parquet").mkdir()
    (tmp_path / "file").write_text("")
    for name in ("folder.parquet", "file", "file/below", "file/below.parquet"):
        code, out, err = gridtune("run", "batch", "trace=no-such-log", "--out", str(tmp_path / name))
        assert (code, out) == (2, "")
        assert "no-such-log" not in err
        assert str(tmp_path / name.split("/")[0]) in err


def test_a_table_that_cannot_be_written_does_not_cost_the_metrics(
    gridtune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "schedule.parquet")

    monkeypatch.setattr("gridtune.sweep.journal.results.write_table", full)
    out = str(tmp_path / "schedule.parquet")
    code, printed, err = gridtune("run", "batch", "trace=quickstart", "first=50", "--out", out, "--json")
    assert code == 2
    assert json.loads(printed)["metrics"]["jobs"] == 50
    assert "schedule.parquet: no space left on device" in err


def test_a_parameter_can_be_left_out_by_name(gridtune) -> None:
    code, out, _ = gridtune(
        "run", "batch", "trace=quickstart", "first=20", "user=none", "backfill=none", "--json"
    )
    assert code == 0
    printed = json.loads(out)["parameters"]
    assert (printed["user"], printed["backfill"]) == (None, "none")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["bach", "trace=quickstart"], "did you mean 'batch'?"),
        (["batch", "trace=quickstart", "ordr=sjf"], "did you mean 'order'?"),
        (["batch", "trace=quickstart", "order=sjff"], "did you mean 'sjf'?"),
        (["batch", "trace=quickstart", "order=sfj"], "did you mean 'sjf'?"),
        (["batch", "trace=quickstart", "walltime=exat"], "did you mean 'exact'?"),
        (["shutdown", "trace=quickstart", "policy=timout"], "did you mean 'timeout'?"),
        (["batch", "trace=quickstart", "noise=1"], "parameters: noise=1.0 has no effect"),
        (["batch", "trace=quickstart", "partition=99"], "this log has no partitions"),
        (["batch", "trace=quickstart", "partition=main"], "this log has no partitions"),
        (["batch", "trace=quickstart", "warmup=0.6", "cooldown=0.6"], "warmup=0.6 and cooldown=0.6"),
        (["batch", "trace=quickstrat"], "quickstart"),
        (["batch", "order=sjf"], "needs trace"),
        (["batch", "trace"], "KEY=VALUE"),
        (["batch", "trace=quickstart", "trace=mm4"], "given twice"),
        (["batch", "trace=quickstart", "load=fast"], "load"),
        (["batch", "trace=quickstart", "--plugin", "nowhere.py"], "nowhere.py"),
    ],
)
def test_bad_input_is_told_and_guessed(gridtune, args: list[str], words: str) -> None:
    code, out, err = gridtune("run", *args)
    assert (code, out) == (2, "")
    assert words in err
    assert "Traceback" not in err


def test_a_systems_help_teaches_its_parameters(gridtune) -> None:
    code, out, _ = gridtune("run", "batch", "--help", "--all")
    assert code == 0
    for words in ("processors  (whole number; default none)", "such as", "bounded_slowdown_mean", "window"):
        assert words in out
    assert "wait_mean  (s; less is better)\n      mean over i of wᵢ" in out


@pytest.mark.parametrize(
    "system", ["batch", "dispatch", "provisioning", "responsive", "shutdown", "shutdown/ppo"]
)
def test_a_systems_help_speaks_of_no_python_types(gridtune, system: str) -> None:
    code, out, _ = gridtune("run", system, "--help", "--all")
    assert code == 0
    parameters = out.partition("Metrics:")[0]
    lines = re.findall(r"^  \w+  \(.*$", parameters, re.MULTILINE)
    assert len(lines) > 15
    for line in lines:
        assert not [word for word in ("typing", "Annotated", "FieldInfo", "|", "[", "<") if word in line], (
            line
        )
        assert "default )" not in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["toy", "--plugin", str(TOY), "--help"], "Usage: gridtune run toy"),
        (["--help", "--plugin", str(TOY), "toy"], "Usage: gridtune run toy"),
        (["--seed", "3", "batch", "-h"], "Usage: gridtune run batch"),
        (["--out", "somewhere", "batch", "trace=quickstart", "--help"], "Usage: gridtune run batch"),
        (["--seed", "3", "--help"], "Run one cell of SYSTEM"),
    ],
)
def test_a_systems_help_is_found_among_options(gridtune, arguments: list[str], words: str) -> None:
    code, out, err = gridtune("run", *arguments)
    assert (code, err) == (0, "")
    assert words in out


def test_a_systems_help_names_types_in_words(gridtune) -> None:
    printed = gridtune("run", "dispatch", "--help", "--all")[1]
    assert "changed_factors  (numbers, comma-separated; default none)" in printed
    assert "speeds  (known or learned or nominal; default none)" in printed
    assert "clean  (words, comma-separated; default default)" in printed
    assert "partition  (number or name; default none)" in gridtune("run", "responsive", "--help", "--all")[1]


def test_a_systems_help_explains_the_common_parameters_and_names_the_others(gridtune) -> None:
    code, out, _ = gridtune("run", "batch", "--help")
    assert code == 0
    common, _, rest = out.partition("\nJobs:\n")
    assert "order  (text; default fcfs)\n      queue order" in common
    assert "  clean, first, partition, user" in rest
    assert "cleaning rules in order" not in out
    assert "gridtune run batch --help --all" in out
    everything = gridtune("run", "batch", "--all", "--help")[1]
    for name in BatchSystem().Parameters.model_fields:
        assert f"\n  {name}  (" in everything


def test_help_of_a_system_without_groups_explains_everything(gridtune) -> None:
    out = gridtune("run", "toy", "--plugin", str(TOY), "--help")[1]
    assert "\nParameters:\n" in out
    assert "--all" not in out


def test_a_plugins_order_runs(gridtune, tmp_path: Path) -> None:
    plugin = tmp_path / "cli_test_orders.py"
    plugin.write_text(
        'from gridtune.batch.policies import queue_order\n@queue_order("cli-test-widest")\n'
        'def score(job):\n    """Widest first."""\n    return -job.processors\n'
    )
    options = ["trace=quickstart", "first=300", "order=cli-test-widest", "--plugin", str(plugin), "--json"]
    code, out, err = gridtune("run", "batch", *options)
    assert code == 0, err
    same = json.loads(gridtune("run", "batch", "trace=quickstart", "first=300", "order=widest", "--json")[1])
    assert json.loads(out)["metrics"] == same["metrics"]


def test_a_dry_run_counts_cells(gridtune) -> None:
    code, out, _ = gridtune("sweep", str(QUICKSTART), "--dry-run")
    assert code == 0
    assert "120 cells: 12 configurations, each with 10 replicates" in out
    printed = json.loads(gridtune("sweep", str(QUICKSTART), "--dry-run", "--json")[1])
    assert printed["cells"] == 120


ADAPTIVE = """\
name: adaptive
fixed: {trace: quickstart, first: 100}
dimensions:
  load: {uniform: [0.5, 1.5]}
replicates: {windows: 5}
objective: wait_mean
baseline: {load: 1.0}
strategy: {optuna: {trials: 300}}
"""


def dry_run(gridtune, tmp_path: Path, text: str) -> tuple[int, str, str]:
    (tmp_path / "space.yaml").write_text(text)
    return gridtune("sweep", str(tmp_path / "space.yaml"), "--dry-run")


def test_a_dry_run_says_what_an_adaptive_strategy_comes_to(gridtune, tmp_path: Path) -> None:
    printed = dry_run(gridtune, tmp_path, ADAPTIVE)[1]
    assert (
        "up to 1,505 cells: the baseline and 300 configurations that optuna chooses, 5 replicates each; "
        "workloads quickstart" in printed
    )
    alone = ADAPTIVE.replace("baseline: {load: 1.0}\n", "").replace("trials: 300", "trials: 1")
    printed = dry_run(gridtune, tmp_path, alone)[1]
    assert (
        "up to 5 cells: 1 configuration that optuna chooses, 5 replicates each; workloads quickst" in printed
    )
    asha = ADAPTIVE.replace(", first: 100", "").replace("1.5]}", "1.5]}\n  first: [100, 200, 400]")
    asha = asha.replace("baseline: {load: 1.0}\n", "").replace("optuna: {tr", "asha: {resource: first, tr")
    printed = dry_run(gridtune, tmp_path, asha)[1]
    assert "up to 4,500 cells: 300 configurations that asha chooses, 5 replicates each; most are" in printed


def test_a_dry_run_counts_one_as_one(gridtune, tmp_path: Path) -> None:
    text = "name: one\nfixed: {trace: quickstart}\nobjective: wait_mean\n"
    assert (
        "1 cell: 1 configuration with 1 replicate; workloads quickstart"
        in dry_run(gridtune, tmp_path, text)[1]
    )


def test_more_windows_than_jobs_are_refused(gridtune, tmp_path: Path) -> None:
    text = "name: one\nfixed: {trace: quickstart}\nreplicates:\n  windows: 99999\nobjective: wait_mean\n"
    code, _, err = dry_run(gridtune, tmp_path, text)
    assert code == 2
    assert "space.yaml:4, field replicates.windows: quickstart has 5,000 jobs, too few for 99,999" in err


def test_a_faulty_space_is_told_with_its_line(gridtune, tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(QUICKSTART.read_text().replace("objective:", "objectve:"))
    code, _, err = gridtune("sweep", str(path))
    assert code == 2
    assert f"{path}:" in err
    assert "did you mean 'objective'?" in err
