"""`gridtune export`: the best configuration of a sweep as a file to use it from, or all for Optuna."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import click

from gridtune.cli.completion import complete_sweeps
from gridtune.cli.parameters import read_place

__all__ = ["export"]

#: The format of a file by its suffix.
_FORMS: Mapping[str, Literal["json", "optuna"]] = {".json": "json", ".db": "optuna"}


@click.command()
@click.argument("folder", type=read_place, shell_complete=complete_sweeps)
@click.option(
    "--format",
    "form",
    type=click.Choice(["yaml", "json", "optuna"]),
    help="[default: that of --out's suffix (.db: optuna), else yaml]",
)
@click.option("--workload", metavar="NAME", help="A workload of the ranking. [default: the ranking over all]")
@click.option("--rank", type=click.IntRange(min=1), help="Its place.  [default: 1]")
@click.option("--objective", metavar="METRIC", help="Rank by another metric than the sweep's own.")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="The file. [default: standard output]"
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def export(
    folder: str | Path,
    form: Literal["yaml", "json", "optuna"] | None,
    workload: str | None,
    rank: int | None,
    objective: str | None,
    out: Path | None,
    force: bool,
) -> None:
    """Write the best configuration of the sweep in FOLDER, ready to be used; or the whole sweep for Optuna.

    FOLDER may also be a URL. The file has its parameters, the objective with its interval, the comparison
    with the baseline and its verdict, and where all that comes from: checksums of the logs, ids of the cells,
    the search space, versions. `gridtune run SYSTEM --parameters FILE` takes its parameters.

    Of several workloads, the best is that of the ranking over all of them. Its parameters do not have what
    depends on the workload: give the log to `gridtune run`.

    With `--format optuna`, the file is an Optuna storage in SQLite with a study of all configurations, which
    `optuna-dashboard` and `optuna.load_study` open.

    \b
    Examples:
      gridtune export results/quickstart
      gridtune export results/quickstart --out best.yaml
      gridtune run batch --parameters best.yaml
      gridtune run batch --parameters best.yaml trace=my.swf.gz processors=128
      gridtune export results/queue_orders --workload kth-sp2 --rank 2 --format json
      gridtune export results/searched --format optuna --out study.db
    """
    from gridtune.study.export import exported_configuration
    from gridtune.study.stored import read_sweep
    from gridtune.sweep.journal.journal import check_writable

    if out is not None and out.exists() and not force:
        raise click.UsageError(f"{out} exists; --force replaces it.")
    if out is not None:
        check_writable(out.parent)
    form = form or _FORMS.get("" if out is None else out.suffix, "yaml")
    if form == "optuna":
        _export_study(folder, out, objective, narrowed=workload is not None or rank is not None)
        return
    content = exported_configuration(
        read_sweep(folder), workload=workload, rank=rank or 1, objective=objective
    )
    text = _yaml(content, out) if form == "yaml" else json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    if out is None:
        click.echo(text, nl=False)
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    click.echo(f"{out}: {_command(content, out)}")


def _export_study(folder: str | Path, out: Path | None, objective: str | None, *, narrowed: bool) -> None:
    from gridtune.study.export import write_optuna_study
    from gridtune.study.stored import read_sweep

    if out is None:
        raise click.UsageError("--format optuna needs a file: add --out study.db")
    if narrowed:
        raise click.UsageError("--format optuna takes all configurations: leave out --workload and --rank.")
    sweep = read_sweep(folder)
    draft = out.with_suffix(f"{out.suffix}.draft")
    draft.write_bytes(b"")  # here it is refused where nothing can be written
    trials = write_optuna_study(sweep, draft, objective=objective)
    draft.replace(out)
    click.echo(f"{out}: {trials} trials; to look at them: optuna-dashboard sqlite:///{out}")


def _yaml(content: Mapping[str, Any], out: Path | None) -> str:
    import yaml

    head = f"# Rank {content['rank']} of {content['of']} on {content['workload']}. To run it:\n"
    head += f"#   {_command(content, out)}\n"
    return head + yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True, width=100)


def _command(content: Mapping[str, Any], out: Path | None) -> str:
    log = "" if "trace" in content["parameters"] or not content["provenance"]["traces"] else " trace=LOG"
    plugins = "".join(f" --plugin {path}" for path in content["provenance"]["plugins"])
    return f"gridtune run {content['system']} --parameters {out or 'FILE'}{log}{plugins}"
