"""`import gridtune` registers its environments with Gymnasium, in any order, and imports neither."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gridtune.core.system import SYSTEMS
from gridtune.gymnasium_registration import ENVIRONMENTS

MADE = "assert gymnasium.make('gridtune/Batch-v0', jobs=40).spec.id == 'gridtune/Batch-v0'"


def test_the_table_is_that_of_the_systems():
    declared = {}
    for system in SYSTEMS.values():
        for name, spec in system.environments.items():
            module, _, kind = spec.entry_point.partition(":")
            assert spec.vector_entry_point == f"{module}:{kind.removesuffix('Env')}VectorEnv"
            assert kind == f"{name.partition('-')[0]}Env"
            declared[name] = module
    assert declared == ENVIRONMENTS


@pytest.mark.parametrize(
    "program",
    [
        f"import gridtune, gymnasium; {MADE}",
        f"import gymnasium, gridtune; {MADE}",
        f"import gridtune, gymnasium, gridtune.environments; {MADE}",
        "import gridtune, sys; assert 'gymnasium' not in sys.modules and 'numpy' not in sys.modules",
    ],
)
def test_importing_gridtune_is_enough(program):
    subprocess.run([sys.executable, "-c", program], check=True)
