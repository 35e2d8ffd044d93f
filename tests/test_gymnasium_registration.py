"""`import gridtune` registers its environments with Gymnasium, in any order, and imports neither."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from gridtune.core.system import SYSTEMS

MADE = "assert gymnasium.make('gridtune/Batch-v0', jobs=40).spec.id == 'gridtune/Batch-v0'"


def test_the_entry_points_are_those_of_the_systems():
    announced = {found.name: found.value for found in entry_points(group="gridtune.environments")}
    for system in SYSTEMS.values():
        for name, place in system.environments.items():
            if name in announced:
                assert place == announced.pop(name)
    assert not announced


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
