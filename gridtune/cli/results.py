"""`gridtune results`: compare, export, merge, repair and rerun the results of sweeps."""

from __future__ import annotations

import click

from gridtune.cli.report import compare, export
from gridtune.cli.run import rerun
from gridtune.cli.status import repair
from gridtune.cli.sweep import merge

__all__ = ["results"]


@click.group(commands=[compare, export, merge, repair, rerun])
def results() -> None:
    """Compare, export, merge, repair and rerun the results of sweeps.

    \b
    Examples:
      gridtune results compare results/before results/after
      gridtune results export results/quickstart --out best.yaml
      gridtune results merge results/my_space/shards --out results/my_space
      gridtune results rerun 3f9c02 results/quickstart
    """
