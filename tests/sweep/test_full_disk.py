"""Full disks: what is written waits, is complete afterwards, and says so once."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gridtune.sweep.journal.disk import AppendOnlyFile, when_there_is_room


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridtune.sweep.journal.disk._RETRY_SECONDS", 0.01)


def test_what_is_appended_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one\n")
    file = AppendOnlyFile(path)
    file.append(b"two\n")
    file.sync()
    assert file.size == 8
    file.truncate(4)
    file.append(b"three\n")
    file.close()
    file.close()
    assert path.read_bytes() == b"one\nthree\n"


def test_a_write_goes_on_where_the_full_disk_stopped_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, messages = tmp_path / "file", list[str]()
    real, tries = os.write, iter(["some", "full", "full"])

    def write(descriptor: int, content: Any) -> int:
        match next(tries, "all"):
            case "some":
                return real(descriptor, content[:3])
            case "full":
                raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, content)

    file = AppendOnlyFile(path, messages.append)
    monkeypatch.setattr(os, "write", write)
    file.append(b"a whole line\n")
    monkeypatch.undo()
    file.close()
    assert path.read_bytes() == b"a whole line\n"
    assert len(messages) == 1
    assert str(path) in messages[0]


def test_other_faults_are_raised(tmp_path: Path) -> None:
    def forbidden() -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with pytest.raises(PermissionError):
        when_there_is_room(forbidden, tmp_path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 64 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_really_full(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(bytes(60 * 1024))
    full = threading.Event()
    file = AppendOnlyFile(small_disk / "file", lambda message: full.set())
    lines = [f"{number:0999}\n".encode() for number in range(20)]
    writer = threading.Thread(target=lambda: [file.append(line) for line in lines])
    writer.start()
    assert full.wait(60)
    (small_disk / "ballast").unlink()
    writer.join(60)
    file.close()
    assert (small_disk / "file").read_bytes() == b"".join(lines)


def test_half_a_line_does_not_stay_where_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real = tmp_path / "file", os.write
    steps = iter([6, None])

    def write(descriptor: int, content: Any) -> int:
        size = next(steps)
        if size is None:
            raise OSError(errno.EIO, "Input/output error")
        return real(descriptor, content[:size])

    file = AppendOnlyFile(path)
    file.append(b"zero\n")
    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match="Input/output"):
        file.append(b"one\ntwo\n")
    monkeypatch.undo()
    file.append(b"three\n")
    file.close()
    assert path.read_bytes() == b"zero\none\nthree\n"
