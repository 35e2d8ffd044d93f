"""`gridtune export`: the best configuration of a sweep, as a file to use it from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import click

from gridtune.cli.completing import complete_sweeps

__all__ = ["export"]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", type=click.Path(path_type=Path), shell_complete=complete_sweeps)
@click.option(
    "--format",
    "form",
    type=click.Choice(["yaml", "json"]),
    help="[default: that of --out's suffix, else yaml]",
)
@click.option("--workload", metavar="NAME", help="A workload of the ranking. [default: the ranking over all]")
@click.option("--rank", type=click.IntRange(min=1), default=1, show_default=True, help="Its place.")
@click.option("--objective", metavar="METRIC", help="Rank by another metric than the sweep's own.")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="The file. [default: standard output]"
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def export(
    folder: Path,
    form: Literal["yaml", "json"] | None,
    workload: str | None,
    rank: int,
    objective: str | None,
    out: Path | None,
    force: bool,
) -> None:
    """Write the best configuration of the sweep in FOLDER, ready to be used.

    The file has its parameters, the objective with its interval, the comparison with the baseline and its
    verdict, and where all that comes from: checksums of the logs, ids of the cells, the search space,
    versions. `gridtune run SYSTEM --parameters FILE` takes its parameters.

    Of several workloads, the best is that of the ranking over all of them. Its parameters do not have what
    depends on the workload: give the log to `gridtune run`.

    \b
    Examples:
      gridtune export results/quickstart
      gridtune export results/quickstart --out best.yaml
      gridtune run batch --parameters best.yaml
      gridtune run batch --parameters best.yaml trace=my.swf.gz processors=128
      gridtune export results/queue_orders --workload kth-sp2 --rank 2 --format json
    """
    from gridtune.study.export import exported_configuration
    from gridtune.study.stored import read_sweep

    if out is not None and out.exists() and not force:
        raise click.UsageError(f"{out} exists; --force replaces it.")
    content = exported_configuration(read_sweep(folder), workload=workload, rank=rank, objective=objective)
    as_json = form == "json" or (form is None and out is not None and out.suffix == ".json")
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n" if as_json else _yaml(content, out)
    if out is None:
        click.echo(text, nl=False)
        return
    out.write_text(text, encoding="utf-8")
    click.echo(f"{out}: {_command(content, out)}")


def _yaml(content: Mapping[str, Any], out: Path | None) -> str:
    import yaml

    head = f"# Rank {content['rank']} of {content['of']} on {content['workload']}. To run it:\n"
    head += f"#   {_command(content, out)}\n"
    return head + yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True, width=100)


def _command(content: Mapping[str, Any], out: Path | None) -> str:
    log = "" if "trace" in content["parameters"] or not content["provenance"]["traces"] else " trace=LOG"
    plugins = "".join(f" --plugin {path}" for path in content["provenance"]["plugins"])
    return f"gridtune run {content['system']} --parameters {out or 'FILE'}{log}{plugins}"
