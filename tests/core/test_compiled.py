"""Machine code is cached until the sources that it was made of change."""

from __future__ import annotations

from pathlib import Path

from gridtune.batch import compiled
from gridtune.core.compiled import source_stamp
from gridtune.systems.dispatch.learners import kernels


def test_a_stamp_tells_any_edit_of_a_folder_and_of_those_within(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    sources = [tmp_path / "outer.py", tmp_path / "inner" / "helper.py"]
    for source in sources:
        source.write_text("x = 1\n")
    stamps = {source_stamp(tmp_path)}
    for source in sources:
        source.write_text("x = 2\n")
        source_stamp.cache_clear()
        stamps.add(source_stamp(tmp_path))
    source_stamp.cache_clear()
    assert len(stamps) == 3


def test_kernels_of_agents_mind_the_simulators_that_they_call() -> None:
    stamp = kernels.next_question._cache._cache_file._source_stamp
    assert source_stamp(Path(compiled.__file__).parent) in stamp
    assert source_stamp(Path(kernels.__file__).parent) in stamp
