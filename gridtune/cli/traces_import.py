"""`gridtune traces import`: what a resource manager recorded, as one file that everything reads."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from gridtune.workload.slurm import Unit
    from gridtune.workload.workload import Workload

__all__ = ["import_trace"]


@click.command("import")
@click.argument("source")
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--format", "format_name", help="What SOURCE is, such as sacct, pbs or csv, if nothing tells.")
@click.option("--columns", help="What a table's columns are, such as submit=Submitted,processors=Cores.")
@click.option("--timezone", help="The zone of SOURCE's times, such as Europe/Berlin.  [default: UTC]")
@click.option("--processors", type=click.IntRange(1), help="The machine's size.")
@click.option(
    "--slurm-conf",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The slurm.conf of the machine: gives its size and that of each partition.",
)
@click.option(
    "--gres-conf",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The machine's gres.conf: how many GPUs its nodes have.  [default: that beside slurm.conf]",
)
@click.option(
    "--accounts",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="What `sacctmgr dump` wrote: accounts, users and shares are kept in TARGET's header.",
)
@click.option("--anonymise", is_flag=True, help="Take out who was who.")
@click.option("--force", is_flag=True, help="Replace TARGET if it exists.")
def import_trace(source: str, target: Path, format_name: str | None, **options: Any) -> None:
    """Read what a resource manager recorded and write TARGET, which every command reads.

    SOURCE is the output of Slurm's "sacct --allusers --parsable2 --format=ALL" (or fewer columns), an
    accounting log of PBS or Torque, a CSV or Parquet table with a job a row, or a log in any other format.
    A TARGET with the suffix .parquet keeps everything. What was left out or looks odd is listed.

    \b
    Examples:
      gridtune traces import sacct.txt cluster.parquet --slurm-conf slurm.conf --timezone Europe/Paris
      gridtune traces import jobs.csv cluster.parquet --columns submit=Submitted,processors=Cores
      gridtune traces import 20240501 may.parquet --format pbs --processors 4096 --anonymise
    """
    from gridtune.workload import write_workload
    from gridtune.workload.catalogue import resolve_trace
    from gridtune.workload.cleaning import anonymised
    from gridtune.workload.files import read_workload

    if target.exists() and not options["force"]:
        raise click.UsageError(f"{target} exists; --force replaces it.")
    given = {name: options[name] for name in ("columns", "timezone") if options[name] is not None}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        workload = read_workload(resolve_trace(source), format=format_name, **given)
        workload = _with_machine(workload, options["slurm_conf"], options["gres_conf"])
        if options["processors"] is not None:
            workload = replace(workload, machine_processors=options["processors"])
        workload = _with_accounts(workload, options["accounts"])
        if options["anonymise"]:
            workload = anonymised(workload)
        write_workload(workload, target)
    _print_report(workload, target, [str(warning.message) for warning in caught])


def _with_machine(workload: Workload, slurm_conf: Path | None, gres_conf: Path | None) -> Workload:
    """Return the log with the size of the machine and of each partition, in what the log counts."""
    from gridtune.workload.slurm import read_slurm_conf

    if slurm_conf is None:
        if gres_conf is not None:
            raise click.UsageError("--gres-conf goes with --slurm-conf.")
        return workload
    machine = read_slurm_conf(slurm_conf, gres_conf)
    unit = _unit(workload)
    number_of = {name: number for number, name in workload.partition_names.items()}
    sizes = {name: machine.size(nodes, unit) for name, nodes in machine.nodes_of_partition.items()}
    header = {
        "PartitionProcs": tuple(
            f"{number_of[name]} {size}" for name, size in sizes.items() if name in number_of
        ),
        "GPUs": tuple(f"{count} {kind}".strip() for kind, count in sorted(machine.gpus.items())),
    }
    header = {**workload.header, **{name: lines for name, lines in header.items() if lines}}
    return replace(workload, machine_processors=machine.size(machine.nodes, unit) or None, header=header)


def _unit(workload: Workload) -> Unit:
    """Return what the jobs of a log count as their processors."""
    counted = " ".join(note for note in workload.header.get("Import", ()) if "the log counts" in note)
    return "GPUs" if "counts GPUs" in counted else "nodes" if "counts nodes" in counted else "processors"


def _with_accounts(workload: Workload, path: Path | None) -> Workload:
    """Return the log with the tree of accounts in its header."""
    from gridtune.workload.slurm import read_slurm_accounts

    if path is None:
        return workload
    accounts = read_slurm_accounts(path)
    unknown = sorted(set(workload.names.get("account", {}).values()) - accounts.parent_of.keys() - {"root"})
    if unknown:
        shown = ", ".join(unknown[:5]) + (", …" if len(unknown) > 5 else "")
        warnings.warn(f"{path.name} does not name {len(unknown)} accounts of jobs: {shown}", stacklevel=2)
    return replace(workload, header={**workload.header, "Accounts": accounts.lines})


def _print_report(workload: Workload, target: Path, troubles: list[str]) -> None:
    """Say what was read, what was left out, and what the log does not say."""
    size = workload.machine_processors
    machine = f"{size:,} processors" if size else "unknown; --processors or --slurm-conf gives it"
    click.echo(f"{target}: {len(workload):,} jobs, content {workload.checksum[:16]}")
    click.echo(f"  machine: {machine}")
    click.echo(f"  fields: {', '.join(workload.columns)}")
    for field, names in workload.names.items():
        shown = ", ".join(list(names.values())[:5]) + (", …" if len(names) > 5 else "")
        click.echo(f"  {field}: {len(names)} ({shown})")
    if gpus := workload.header.get("GPUs"):
        click.echo(f"  GPUs: {', '.join(gpus)}")
    if lines := workload.header.get("Accounts"):
        users = sum(line.startswith("user ") for line in lines)
        click.echo(f"  shares: {len(lines) - users} accounts, {users} users")
    for note in workload.header.get("Import", ()):
        click.echo(f"  note: {note}")
    if (workload.column("requested_time") <= 0).all():
        click.echo("  note: no job has a walltime: orders and backfilling cannot tell jobs apart")
    for trouble in troubles:
        click.echo(f"  warning: {trouble}", err=True)
