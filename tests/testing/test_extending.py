"""The pages on adding things hold a small package that passes the conformance suites."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

BLOCK = re.compile(r"```python\n# (\w+\.py)\n(.*?)```", re.DOTALL)


@pytest.mark.slow
def test_the_code_on_the_pages_passes_the_suites(repository: Path, tmp_path: Path) -> None:
    names = ("extending.md", "extending_agents.md")
    page = "\n".join((repository / "docs" / name).read_text(encoding="utf-8") for name in names)
    blocks = BLOCK.findall(page)
    assert len(blocks) == page.count("```python") == 6
    for name, code in blocks:
        (tmp_path / name).write_text(code, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    path = os.pathsep.join([str(tmp_path), str(repository)])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path]
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=500, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:]
