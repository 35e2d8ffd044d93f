"""`gridtune traces`: list, describe, import, convert, generate and download workloads."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gridtune.cli.parameters import FILE, JSON, check_new
from gridtune.cli.tables import catalogue_tables, print_json, print_tables, statistics_tables, workflow_tables

if TYPE_CHECKING:
    from gridtune.workload.catalogue import CatalogueEntry
    from gridtune.workload.slurm import Unit
    from gridtune.workload.workload import Workload

__all__ = ["list_traces", "traces"]


@click.group()
def traces() -> None:
    """List, describe, import, convert, generate and download workloads.

    A trace is a path, the name of a bundled trace (quickstart), or the name of a public log that was
    downloaded (kth-sp2).

    \b
    Examples:
      gridtune traces list
      gridtune traces describe quickstart --plot quickstart.png
      gridtune traces fetch kth-sp2
      gridtune traces import sacct.txt cluster.parquet
      gridtune traces generate lublin my.swf.gz jobs=20000 seed=1 load=0.9
    """


@traces.command("list")
@JSON
def list_traces(as_json: bool) -> None:
    """List bundled traces, public logs, generators and formats.

    The column "here" says whether a public log is on this machine: in the cache, or in the folder that
    GRIDTUNE_TRACE_DIR names.
    """
    from gridtune.workload.catalogue import CATALOGUE, bundled_traces
    from gridtune.workload.formats import FORMATS
    from gridtune.workload.generators import GENERATORS, generator_names

    formats = [FORMATS.find(name) for name in FORMATS.names()]
    listing = {
        "bundled": {name: str(path) for name, path in bundled_traces().items()},
        "logs": [_log(entry) for entry in CATALOGUE.values()],
        "generators": {name: GENERATORS.find(name).summary for name in generator_names()},
        "formats": {format.name: {"suffix": format.suffix, "summary": format.summary} for format in formats},
    }
    if as_json:
        print_json(listing, indent=2)
        return
    print_tables(catalogue_tables(listing))


_FORMAT = click.option("--format", "format_name", help="What the file is, such as sacct, pbs or csv.")


@traces.command()
@click.argument("trace")
@_FORMAT
@click.option(
    "--processors", type=click.IntRange(1), help="The machine's size, if the log's is missing or wrong."
)
@click.option("--plot", type=FILE, help="Draw a page of plots: .png, .svg, .pdf.")
@JSON
def describe(
    trace: str, format_name: str | None, processors: int | None, plot: Path | None, as_json: bool
) -> None:
    """Describe a TRACE: sizes, times, load, arrivals, users, and what is missing.

    The log is read without cleaning. Jobs that lack a quantity are left out of its figures and counted
    under "missing". A workflow (DAX, WfFormat) is described by its tasks.

    \b
    Examples:
      gridtune traces describe kth-sp2
      gridtune traces describe logs/mine.swf.gz --processors 512 --plot mine.png
      gridtune traces describe Montage_100.dax.xml.gz
    """
    from gridtune.workload.catalogue import resolve_trace
    from gridtune.workload.describe import describe_workload
    from gridtune.workload.workflows.files import holds_workflow

    if format_name is None and holds_workflow(resolve_trace(trace)):
        if plot is not None or processors is not None:
            raise click.UsageError("--plot and --processors are for logs, not for a workflow.")
        _describe_workflow(resolve_trace(trace), as_json)
        return
    workload = _read(trace, format_name)
    statistics = describe_workload(workload, processors=processors)
    if plot is not None:
        from gridtune.workload.figure import plot_workload

        plot_workload(workload, plot, processors=processors)
    if as_json:
        print_json(dataclasses.asdict(statistics), indent=2)
        return
    print_tables(statistics_tables(statistics))
    if plot is not None:
        click.echo(f"plots: {plot}")


@traces.command()
@click.argument("source")
@click.argument("target", type=FILE)
@_FORMAT
@click.option("--force", is_flag=True, help="Replace TARGET if it exists.")
def convert(source: str, target: Path, format_name: str | None, force: bool) -> None:
    """Write the SOURCE trace to TARGET in the format of its suffix.

    `gridtune traces list` shows the formats and their suffixes; .gz or .xz may follow. The jobs stay as they
    are; fields that the format does not have are lost.

    \b
    Examples:
      gridtune traces convert kth-sp2 kth.parquet
      gridtune traces convert mine.csv mine.swf.gz
    """
    from gridtune.workload import write_workload

    check_new(target, force=force)
    workload = _read(source, format_name)
    write_workload(workload, target)
    click.echo(f"{target}: {len(workload):,} jobs")


@traces.command()
@click.argument("name")
@click.argument("target", type=FILE, required=False)
@click.argument("parameters", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--show", is_flag=True, help="Explain the generator and its parameters, and exit.")
@click.option("--force", is_flag=True, help="Replace TARGET if it exists.")
def generate(name: str, target: Path | None, parameters: tuple[str, ...], show: bool, force: bool) -> None:
    """Generate a synthetic workload with the generator NAME and write it to TARGET.

    jobs=N and seed=N set its length and its seed (10000 and 1 by default); the same values give the same
    jobs, bit for bit. --show explains the generator's other parameters.

    \b
    Examples:
      gridtune traces generate lublin --show
      gridtune traces generate lublin my.swf.gz jobs=20000 seed=7 processors=512 load=0.9
      gridtune traces generate poisson mm1.swf jobs=100000 processors=1 load=0.7
    """
    from gridtune.workload.generators import GENERATORS, generate_workload, parse_parameters

    if show:
        import inspect

        click.echo(inspect.getdoc(GENERATORS.find(name).make))
        click.echo("\nDefaults: " + " ".join(f"{k}={v}" for k, v in GENERATORS.find(name).defaults.items()))
        return
    if target is None:
        raise click.UsageError("Missing argument 'TARGET' (or give --show).")
    values: dict[str, Any] = {"jobs": 10_000, "seed": 1, **parse_parameters(name, parameters)}
    from gridtune.workload import write_workload

    check_new(target, force=force)
    workload = generate_workload(name, **values)
    write_workload(workload, target)
    click.echo(f"{target}: {len(workload):,} jobs, content {workload.checksum[:16]}")


@traces.command()
@click.argument("name")
@click.option("--mirror", help="A folder or URL that holds the file, instead of where it is published.")
@click.option("--sha256", help="The expected checksum, where the catalogue has none.")
@click.option("--unverified", is_flag=True, help="Accept a log that the catalogue has no checksum for.")
def fetch(name: str, mirror: str | None, sha256: str | None, unverified: bool) -> None:
    """Download the public log NAME into the cache and check its SHA-256.

    The cache is $GRIDTUNE_CACHE_DIR, else gridtune/traces in your cache folder.

    \b
    Examples:
      gridtune traces fetch kth-sp2
      gridtune traces fetch ctc-sp2-reconstructed --mirror ~/logs
      gridtune traces fetch sdsc-sp2 --unverified
    """
    from gridtune.workload.catalogue import ARCHIVE_CITATION, file_checksum, find_log
    from gridtune.workload.catalogue import fetch as fetch_log

    entry = find_log(name)
    path = fetch_log(name, mirror=mirror, sha256=sha256, unverified=unverified, progress=sys.stderr.isatty())
    click.echo(str(path))
    if entry.sha256 is None and sha256 is None:
        click.echo(
            f"NOT VERIFIED: the catalogue has no checksum. SHA-256:\n  {file_checksum(path)}", err=True
        )
    click.echo(f"Thanks to {entry.thanks}. Please cite {ARCHIVE_CITATION}.", err=True)
    click.echo(f"Note: {entry.caveat}.", err=True)


def _describe_workflow(path: Path, as_json: bool) -> None:
    from gridtune.workload.workflows import WORKFLOW_RULES, read_workflow
    from gridtune.workload.workflows.files import describe_workflow

    # A faulty workflow can still be described: its faults are counted.
    description = describe_workflow(read_workflow(path, clean=WORKFLOW_RULES))
    if as_json:
        print_json(description, indent=2)
        return
    print_tables(workflow_tables(description))


def _read(trace: str, format_name: str | None) -> Workload:
    from gridtune.workload import read_workload
    from gridtune.workload.catalogue import resolve_trace

    return read_workload(resolve_trace(trace), format=format_name)


def _log(entry: CatalogueEntry) -> dict[str, Any]:
    """Return a public log's entry with where it is on this machine."""
    from gridtune.errors import TraceError
    from gridtune.workload.catalogue import resolve_trace

    try:
        path: str | None = str(resolve_trace(entry.name))
    except TraceError:
        path = None
    return {**dataclasses.asdict(entry), "path": path}


@traces.command("import")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.argument("target", type=FILE)
@click.option("--format", "format_name", help="What SOURCE is, such as sacct, pbs or csv, if nothing tells.")
@click.option("--columns", help="What a table's columns are, such as submit=Submitted,processors=Cores.")
@click.option("--timezone", help="The zone of SOURCE's times, such as Europe/Berlin.  [default: UTC]")
@click.option("--processors", type=click.IntRange(1), help="The machine's size.")
@click.option(
    "--requested",
    is_flag=True,
    help="Take the processors that jobs asked for.  [default: those they got, where they are known]",
)
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
def _import(sources: tuple[str, ...], target: Path, format_name: str | None, **options: Any) -> None:
    """Read the records of a resource manager and write TARGET, which every command reads.

    SOURCE is the output of Slurm's "sacct --allusers --parsable2 --format=ALL" (or fewer columns, or --json),
    an accounting log of PBS, Torque or LSF, a CSV or Parquet table with a job a row, or a log in any other
    format. Several SOURCEs, or a pattern of names in quotes, become one log; a job that is in two of them
    counts once. A TARGET with the suffix .parquet keeps everything. What was left out or looks odd is listed.

    \b
    Examples:
      gridtune traces import sacct.txt cluster.parquet --slurm-conf slurm.conf --timezone Europe/Paris
      gridtune traces import jobs.csv cluster.parquet --columns submit=Submitted,processors=Cores
      gridtune traces import "accounting/202405*" may.parquet --format pbs --processors 4096 --anonymise
    """
    from gridtune.workload import write_workload
    from gridtune.workload.catalogue import resolve_trace
    from gridtune.workload.cleaning import anonymised
    from gridtune.workload.files import read_dumps

    check_new(target, force=options["force"])
    given = {name: options[name] for name in ("columns", "timezone", "requested") if options[name]}
    files = [resolve_trace(name) for source in sources for name in _matching(source)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        workload = read_dumps(files, format=format_name, **given)
        workload = _with_machine(workload, options["slurm_conf"], options["gres_conf"])
        if options["processors"] is not None:
            workload = replace(workload, machine_processors=options["processors"])
        workload = _with_accounts(workload, options["accounts"])
        if options["anonymise"]:
            workload = anonymised(workload)
        write_workload(workload, target)
    _print_report(workload, target, [str(warning.message) for warning in caught])


def _matching(source: str) -> list[str]:
    """Return the files that a pattern stands for, in order of their names; a name stands for itself."""
    from glob import has_magic

    if not has_magic(source) or Path(source).exists():
        return [source]
    start = Path(Path(source).anchor)
    names = sorted(str(file) for file in start.glob(str(Path(source).relative_to(start))) if file.is_file())
    if not names:
        raise click.BadParameter(f"no file matches {source!r}", param_hint="SOURCE")
    return names


def _with_machine(workload: Workload, slurm_conf: Path | None, gres_conf: Path | None) -> Workload:
    """Return the log with the size of the machine and of each partition, in what the log counts."""
    from gridtune.workload.slurm import read_slurm_conf

    if slurm_conf is None:
        if gres_conf is not None:
            raise click.UsageError("--gres-conf goes with --slurm-conf.")
        return workload
    machine = read_slurm_conf(slurm_conf, gres_conf)
    # What the jobs of the log count as their processors.
    counted = " ".join(note for note in workload.header.get("Import", ()) if "the log counts" in note)
    nodes: Unit = "nodes" if "counts nodes" in counted else "processors"
    unit: Unit = "GPUs" if "counts GPUs" in counted else nodes
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
    """Print the jobs and fields that were read, and notes on all that is missing."""
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
