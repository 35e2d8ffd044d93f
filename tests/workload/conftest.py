"""What tests of workloads may ask for."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from gzip import compress as gzip_compress
from pathlib import Path

import pytest


@pytest.fixture
def write_file(tmp_path: Path) -> Callable[[str, bytes | str], Path]:
    """Write content under a name, compressed as the name says."""

    def write(name: str, content: bytes | str) -> Path:
        data = content.encode() if isinstance(content, str) else content
        if name.endswith(".gz"):
            data = gzip_compress(data)
        elif name.endswith(".xz"):
            data = lzma.compress(data)
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    return write
