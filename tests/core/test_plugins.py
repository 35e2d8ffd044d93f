"""Plug-ins in a process: what travels, what is imported, what has no file here."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gridtune.core.user_code.plugins import Plugin, read_plugin
from gridtune.errors import PolicyError

KERNEL = """
import numba
from gridtune.core.compiled import kernel
from helper import FACTOR

@kernel()
def ours(x):
    return FACTOR * x

@numba.njit(cache=True)
def theirs(x):
    return FACTOR + x

print(ours(4), theirs(4), *(sum(f.stats.cache_hits.values()) for f in (ours, theirs)))
"""
#: Loads the plug-in that it is given.
WORKER = """
import pickle, sys
from gridtune.core.user_code.plugins import load_plugins

load_plugins([pickle.load(sys.stdin.buffer)])
"""


def test_a_plugin_is_its_file_and_the_modules_of_ones_own_that_it_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "plug-in.py": "import numpy\nfrom helper import x\nimport queue, on_path\ndef f(): import late\n",
        "helper.py": "from package import inner\n",
        "late.py": "",
        "unused.py": "",
        "queue.py": "",  # a module of Python's has this name
        "package/__init__.py": "",
        "package/inner.py": "from . import other\nimport gridtune.core.cells\n",
        "package/other.py": "",
        "path/on_path.py": "",
        "path/helper.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path / "path"))
    plugin = read_plugin(tmp_path / "plug-in.py")
    assert set(plugin.modules) == {
        *("plug_in", "helper", "late", "package", "package.inner", "package.other", "on_path"),
    }
    assert plugin.modules["helper"].file == str(tmp_path / "helper.py")
    before = plugin.checksum
    (tmp_path / "unused.py").write_text("x = 1\n")
    assert read_plugin(plugin.path).checksum == before
    (tmp_path / "package" / "other.py").write_text("x = 1\n")
    assert read_plugin(plugin.path).checksum != before


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="no such plug-in file"):
        read_plugin(tmp_path / "absent.py")


@pytest.mark.slow
def test_kernels_are_cached_with_the_file_here_or_on_another_machine(tmp_path: Path) -> None:
    """And compiled again when a helper is edited."""
    file, helper = tmp_path / "p.py", tmp_path / "helper.py"
    file.write_text(KERNEL)
    helper.write_text("FACTOR = 10\n")

    def run(plugin: Plugin) -> list[str]:
        data = pickle.dumps(plugin)
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        command = [sys.executable, "-B", "-c", WORKER]
        done = subprocess.run(command, input=data, env=environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().split()

    plugin = read_plugin(file)
    assert run(plugin) == ["40", "14", "0", "0"]
    assert run(plugin) == ["40", "14", "1", "1"]
    helper.write_text("FACTOR = 11\n")
    assert run(read_plugin(file)) == ["44", "15", "0", "0"]
    file.unlink()
    helper.unlink()
    assert run(plugin) == ["40", "14", "1", "1"]
    shutil.rmtree(tmp_path / "cache")
    assert run(plugin) == ["40", "14", "0", "0"]
