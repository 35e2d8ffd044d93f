"""What a format can hold comes back as it was, plain and compressed."""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtune.errors import GridtuneWarning, WorkloadError
from gridtune.workload import Workload, read_workload, write_workload
from gridtune.workload.formats import FORMATS, format_names
from tests.conftest import examples

from .sample_logs import assert_same_content, make_workload, workloads

EXAMPLES = examples(50)
#: Each xz file costs its writer 100 MB of memory: one per format is enough, below.
PACKED = st.sampled_from(["", ".gz"])


def through_file(workload: Workload, suffix: str) -> Workload:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"log{suffix}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GridtuneWarning)
            write_workload(workload, path)
        assert [file.name for file in Path(folder).iterdir()] == [path.name]
        return read_workload(path)


def assert_same_header(read: Workload, written: Workload) -> None:
    """The written header, but for the two keys that follow the workload itself."""

    def own(workload: Workload) -> list[tuple[str, tuple[str, ...]]]:
        return [item for item in workload.header.items() if item[0] not in ("MaxProcs", "Partition")]

    assert own(read) == own(written)
    assert read.partition_names == written.partition_names


@EXAMPLES
@given(workloads(), PACKED)
def test_swf_holds_everything(workload, packed):
    read = through_file(workload, f".swf{packed}")
    assert_same_content(read, workload)
    assert_same_header(read, workload)


@EXAMPLES
@given(workloads(), PACKED)
def test_parquet_holds_everything(workload, packed):
    workload = replace(workload, cleaning={"sort_submits": 3})
    read = through_file(workload, f".parquet{packed}")
    assert_same_content(read, workload)
    assert list(read.header.items()) == list(workload.header.items())
    assert read.partition_names == workload.partition_names
    assert read.cleaning == workload.cleaning
    assert list(read.columns) == list(workload.columns)


@EXAMPLES
@given(workloads(ran=True), PACKED)
def test_batsim_holds_everything_of_jobs_that_ran(workload, packed):
    read = through_file(workload, f".json{packed}")
    assert_same_content(read, workload)
    assert list(read.header.items()) == list(workload.header.items())
    assert read.partition_names == workload.partition_names


@EXAMPLES
@given(workloads(), PACKED)
def test_gwf_holds_all_but_two_fields(workload, packed):
    columns = {k: v for k, v in workload.columns.items() if k not in ("preceding_job", "think_time")}
    read = through_file(workload, f".gwf{packed}")
    assert_same_content(read, replace(workload, columns=columns))
    assert_same_header(read, workload)


@EXAMPLES
@given(workloads(bare=True), PACKED)
def test_csv_holds_the_columns(workload, packed):
    read = through_file(workload, f".csv{packed}")
    assert_same_content(read, workload)
    assert list(read.columns) == list(workload.columns)


def test_gwf_says_what_it_has_no_place_for(tmp_path):
    workload = make_workload(submit_time=[0, 1], think_time=[-1, 5])
    with pytest.warns(GridtuneWarning, match="gwf has no place for think_time"):
        write_workload(workload, tmp_path / "log.gwf")


def test_batsim_refuses_jobs_it_has_no_words_for(tmp_path):
    workload = make_workload(run_time=[5, -1])
    with pytest.raises(WorkloadError, match="job 2 has none"):
        write_workload(workload, tmp_path / "log.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [name for name in format_names() if FORMATS.find(name).write])
@pytest.mark.parametrize("packed", ["", ".gz", ".xz"])
def test_equal_workloads_give_equal_bytes_and_big_ones_survive(tmp_path, name, packed):
    rng = np.random.default_rng(1)
    # Plain text tables: more than a block of the parser and of the writer. GWF's names make it slow.
    jobs = 60_000 if name in ("swf", "csv") and not packed else 2_000
    workload = Workload(
        {
            "job_id": np.arange(jobs),
            "submit_time": np.cumsum(rng.integers(0, 50, jobs)),
            "run_time": rng.integers(0, 10**5, jobs),
            "average_cpu_time": np.round(rng.random(jobs) * 100, 3),
            "requested_processors": rng.integers(1, 64, jobs),
            "user": rng.integers(0, 99, jobs),
        }
    )
    suffix = FORMATS.find(name).suffix + packed
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    write_workload(workload, first)
    write_workload(workload, second)
    assert first.read_bytes() == second.read_bytes()
    assert_same_content(read_workload(first), workload)


def test_gzip_holds_no_time(tmp_path):
    path = tmp_path / "log.swf.gz"
    write_workload(make_workload(run_time=[1]), path)
    # Bytes 3 to 7 of a gzip file: flags (no name inside) and the time.
    assert path.read_bytes()[3:8] == bytes(5)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "log.json"
    path.write_text("old")
    with pytest.raises(WorkloadError):
        write_workload(make_workload(run_time=[-1]), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_name_is_the_files_without_suffixes(tmp_path):
    write_workload(make_workload(run_time=[3]), tmp_path / "KTH-2.1-cln.swf.gz")
    assert read_workload(tmp_path / "KTH-2.1-cln.swf.gz").name == "KTH-2.1-cln"


def test_a_format_can_be_named(tmp_path):
    write_workload(make_workload(run_time=[3]), tmp_path / "log.txt", format="swf")
    read = read_workload(tmp_path / "log.txt", format="swf")
    assert (read.run_time.tolist(), read.name) == ([3], "log.txt")
