"""Nothing that comes from outside is unpickled: neither by us nor on the way."""

from __future__ import annotations

import ast
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import yaml

from gridtune.core.array_files import check_unpacked_size, read_arrays
from gridtune.errors import GridtuneError, PolicyError, SpaceError
from gridtune.sweep.space.schema import parse_space
from gridtune.workload import read_workload
from tests.security.evil import Evil

PACKAGE = Path(__file__).resolve().parents[2] / "gridtune"
#: Where unpickling, or restoring what is pickled, is allowed, and why.
TRUSTED = {
    "core/machine_code.py": "machine code in the installation or the user's own folder, which runs anyway",
    "sweep/space/code.py": "what the driver of a sweep sends to its own workers",
    "tracking/outbox.py": "what a sweep and its own process for tracking send each other",
    "training/system.py": "the checkpoint in the folder of one's own training, to go on with it",
    "testing/systems.py": "parameters that it has just pickled itself",
}
_LOADERS = {"loads", "load", "Unpickler", "restore_from_path", "from_checkpoint", "unsafe_load", "full_load"}
_MODULES = {"pickle", "cloudpickle", "dill", "joblib", "torch", "np", "numpy", "yaml", "marshal", "shelve"}


def _calls(tree: ast.AST) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _loads(call: ast.Call) -> bool:
    """Return whether a call may unpickle."""
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in _LOADERS:
        return False
    options = {option.arg: getattr(option.value, "value", None) for option in call.keywords}
    if options.get("weights_only") is True or options.get("allow_pickle") is False:
        return False
    named = isinstance(function.value, ast.Name) and function.value.id in _MODULES
    return named or function.attr in {"restore_from_path", "from_checkpoint"}


def test_the_package_unpickles_in_known_places_alone() -> None:
    found = {
        file.relative_to(PACKAGE).as_posix()
        for file in PACKAGE.rglob("*.py")
        if any(map(_loads, _calls(ast.parse(file.read_text(encoding="utf-8")))))
    }
    assert found == set(TRUSTED)


@pytest.mark.parametrize(
    "code", ["pickle.load(f)", "torch.load(f)", "np.load(f, allow_pickle=True)", "yaml.load(f)"]
)
def test_the_search_sees_what_it_looks_for(code: str) -> None:
    assert any(map(_loads, _calls(ast.parse(code))))


def test_arrays_are_read_without_objects(tmp_path: Path) -> None:
    evil, file = np.array([Evil(tmp_path / "made")], dtype=object), tmp_path / "policy.npz"
    np.savez(file, weights=evil)
    with pytest.raises(PolicyError, match="holds no policy"):
        read_arrays(file, "policy", error=PolicyError)
    file.write_bytes(pickle.dumps(Evil(tmp_path / "made")))
    with pytest.raises(PolicyError, match="holds no policy"):
        read_arrays(file, "policy", error=PolicyError)
    assert not (tmp_path / "made").exists()


def test_arrays_that_would_fill_the_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gridtune.core.array_files._MOST_BYTES", 1 << 20)
    file = tmp_path / "bomb.npz"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.npy", "w") as member:
        member.write(bytes(2 << 20))
    assert file.stat().st_size < 10_000
    with pytest.raises(PolicyError, match="bytes once decompressed"):
        read_arrays(file, "policy", error=PolicyError)
    with pytest.raises(GridtuneError, match="bytes once decompressed"):
        check_unpacked_size(file, error=GridtuneError)


def test_yaml_makes_plain_values_alone(tmp_path: Path) -> None:
    text = f"name: !!python/object/apply:os.mkdir ['{tmp_path}/made']"
    with pytest.raises(SpaceError, match="is not read"):
        parse_space(text)
    with pytest.raises(yaml.YAMLError):
        yaml.safe_load(text)
    assert not (tmp_path / "made").exists()


def test_parquet_files_of_python_objects_are_not_unpickled(tmp_path: Path) -> None:
    file = tmp_path / "log.parquet"
    file.write_bytes(pickle.dumps(Evil(tmp_path / "made")))
    with pytest.raises(GridtuneError):
        read_workload(file)
    assert not (tmp_path / "made").exists()
