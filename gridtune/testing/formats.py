"""`FormatConformance`: what every trace format must do."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from gridtune.errors import GridtuneWarning, WorkloadError
from gridtune.registry import Registry
from gridtune.testing.registered import RegistryConformance
from gridtune.testing.samples import sample_workload, with_columns
from gridtune.workload import read_workload, write_workload
from gridtune.workload.fields import SWF_FIELDS
from gridtune.workload.formats import Format, find_format, get_format
from gridtune.workload.formats.registry import FORMATS
from gridtune.workload.workload import Workload

__all__ = ["FormatConformance"]

#: A run time that stands out in a text.
_RUN_TIME = 987_654


def _write(name: str, workload: Workload, folder: Path, packed: str = "") -> Path:
    if get_format(name).write is None:
        pytest.skip("the format is only read")
    path = folder / f"log{get_format(name).suffix}{packed}"
    with warnings.catch_warnings():
        # Some formats hold less than a workload, and say so.
        warnings.simplefilter("ignore", GridtuneWarning)
        write_workload(workload, path)
    return path


def _lost(name: str, workload: Workload) -> set[str]:
    return set(get_format(name).cannot_hold(workload))


def _text(path: Path) -> str | None:
    """Return what a file holds, or None where it is no text."""
    content = path.read_bytes()
    try:
        return None if b"\0" in content else content.decode("utf-8")
    except UnicodeDecodeError:
        return None


class FormatConformance(RegistryConformance):
    """The rules of a trace format."""

    registry: ClassVar[Registry[Format]] = FORMATS

    def test_suffix(self, name: str) -> None:
        """The suffix is in lower case, begins with a dot, and is that of no other format."""
        suffix = get_format(name).suffix
        assert re.fullmatch(r"(\.[a-z0-9_-]+)+", suffix)
        assert not suffix.endswith((".gz", ".xz", ".tar"))
        assert [other.name for other in FORMATS.values() if other.suffix == suffix] == [name]

    def test_is_found_by_its_suffix(self, name: str) -> None:
        """A file's suffix names the format, in small letters or in capitals, compressed or not."""
        form = get_format(name)
        for suffix in (form.suffix, form.suffix.upper(), f"{form.suffix}.gz", f"{form.suffix}.xz"):
            assert find_format(f"log{suffix}") == (form, "log")

    def test_says_what_it_holds(self, name: str) -> None:
        """The summary is a line for people."""
        summary = get_format(name).summary
        assert summary.strip()
        assert "\n" not in summary

    @pytest.mark.parametrize("packed", ["", ".gz", ".xz"])
    def test_what_is_written_is_read_back(self, name: str, packed: str, tmp_path: Path) -> None:
        """Every column that the format can hold comes back as it was, compressed or not."""
        workload = sample_workload()
        read = read_workload(_write(name, workload, tmp_path, packed))
        assert len(read) == len(workload)
        for field in set(SWF_FIELDS) - _lost(name, workload):
            np.testing.assert_array_equal(read.column(field), workload.column(field), err_msg=field)

    def test_checksums_survive(self, name: str, tmp_path: Path) -> None:
        """Jobs that the format can hold whole have the same checksum when they are read back."""
        workload = sample_workload()
        lost = _lost(name, workload)
        columns = {key: column for key, column in workload.columns.items() if key not in lost}
        bare = replace(workload, columns=columns, machine_processors=None)
        read = read_workload(_write(name, bare, tmp_path))
        assert read.checksum == bare.checksum
        assert read_workload(_write(name, read, tmp_path)).checksum == read.checksum

    def test_equal_workloads_give_equal_bytes(self, name: str, tmp_path: Path) -> None:
        """Written twice, a workload gives the same file: no date, no name of a machine is in it."""
        first = _write(name, sample_workload(), tmp_path).read_bytes()
        assert _write(name, sample_workload(), tmp_path).read_bytes() == first

    def test_jobs_keep_their_order(self, name: str, tmp_path: Path) -> None:
        """A log whose jobs do not stand by submit time is read in the order of the file."""
        workload = sample_workload().take(np.arange(60)[::-1])
        read = read_workload(_write(name, workload, tmp_path))
        np.testing.assert_array_equal(read.submit_time, workload.submit_time)

    @pytest.mark.parametrize("content", [b"", b"\xff\x00 no log\n"], ids=["empty", "noise"])
    def test_what_is_no_log_is_refused(self, name: str, content: bytes, tmp_path: Path) -> None:
        """An empty file and one of noise are refused, naming the file."""
        path = tmp_path / f"log{get_format(name).suffix}"
        path.write_bytes(content)
        with pytest.raises(WorkloadError) as refused:
            read_workload(path)
        assert refused.value.path == path

    def test_a_file_that_was_cut_short_is_refused(self, name: str, tmp_path: Path) -> None:
        """Half of a compressed file gives an error, not half of the jobs."""
        path = _write(name, sample_workload(), tmp_path, ".gz")
        path.write_bytes(path.read_bytes()[:-100])
        with pytest.raises(WorkloadError):
            read_workload(path)

    def test_a_malformed_line_is_refused_with_its_number(self, name: str, tmp_path: Path) -> None:
        """In a text, a line that is no job is an error that names file and line."""
        path = _write(name, sample_workload(), tmp_path)
        text = _text(path)
        if text is None:
            return
        path.write_text(f"{text.rstrip()}\nthis is no job\n", encoding="utf-8")
        with pytest.raises(WorkloadError) as refused:
            read_workload(path)
        assert refused.value.path == path
        assert refused.value.line == len(text.rstrip().splitlines()) + 1

    def test_an_impossible_value_is_refused_with_its_line(self, name: str, tmp_path: Path) -> None:
        """In a text, a job of negative run time is an error that names its line."""
        workload = sample_workload()
        run = workload.run_time.copy()
        run[-1] = _RUN_TIME
        path = _write(name, with_columns(workload, {"run_time": run}), tmp_path)
        text = _text(path)
        if text is None:
            return
        assert str(_RUN_TIME) in text
        path.write_text(text.replace(str(_RUN_TIME), f"-{_RUN_TIME}"), encoding="utf-8")
        with pytest.raises(WorkloadError) as refused:
            read_workload(path)
        assert refused.value.line is not None
        assert str(_RUN_TIME) in text.splitlines()[refused.value.line - 1]
