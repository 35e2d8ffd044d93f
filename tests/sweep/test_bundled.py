"""Search spaces that come with a system are found by SYSTEM/NAME."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridtune.core.system import get_system
from gridtune.errors import SpaceError
from gridtune.sweep.space.schema import find_space, read_space

SPACE = """
name: tiny
system: batch
fixed: {trace: quickstart}
dimensions: {order: [fcfs]}
objective: wait_mean
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(type(get_system("batch")), "search_spaces", tmp_path)
    (tmp_path / "tiny.yaml").write_text(SPACE)
    return tmp_path


def test_a_space_is_found_by_system_and_name(folder: Path) -> None:
    assert get_system("batch").bundled_spaces == [folder / "tiny.yaml"]
    assert find_space("batch/tiny") == folder / "tiny.yaml"
    assert read_space("batch/tiny").name == "tiny"


def test_a_file_of_that_name_comes_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "batch").mkdir()
    (folder / "batch" / "tiny").write_text(SPACE.replace("name: tiny", "name: other"))
    monkeypatch.chdir(folder)
    assert read_space("batch/tiny").name == "other"


@pytest.mark.parametrize("name", ["batch/tony", "no_system/tiny", "tiny"])
def test_other_names_are_files(folder: Path, name: str) -> None:
    assert find_space(name) == Path(name)
    with pytest.raises(SpaceError, match="no such file"):
        read_space(name)
