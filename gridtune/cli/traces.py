"""`gridtune traces`: list, describe, import, convert, generate and download workloads."""

from __future__ import annotations

import dataclasses
import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gridtune.cli.parameters import check_new, command
from gridtune.cli.tables import new_table, print_json, print_tables

if TYPE_CHECKING:
    from rich.table import Table

    from gridtune.workload.catalogue import CatalogueEntry
    from gridtune.workload.describe import WorkloadStatistics
    from gridtune.workload.formats.recognition import Recognition
    from gridtune.workload.slurm import Unit
    from gridtune.workload.workload import Workload


@click.group()
def traces() -> None:
    """List, describe, import, convert, generate and download workloads.

    A trace is a path, the name of a bundled trace (quickstart), or the name of a public log that was
    downloaded (kth-sp2).

    \b
    Examples:
      gridtune traces list
      gridtune traces describe quickstart
      gridtune traces fetch kth-sp2
      gridtune traces import sacct.txt cluster.parquet
      gridtune traces generate lublin my.swf.gz jobs=20000 seed=1 load=0.9
    """


@command(group=traces)
def _list(*, as_json: bool = False) -> None:
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
    print_tables(_catalogue_tables(listing))


def _given(
    *,
    columns: str | None = None,
    unit: str | None = None,
    timezone: str | None = None,
    processors_per_job: int | None = None,
    cluster: str | None = None,
) -> dict[str, Any]:
    """Return the options of tables that were given, by their names in Python."""
    return {name: value for name, value in locals().items() if value is not None}


@command(_given, group=traces)
def _describe(
    trace: str,
    *,
    format_name: str | None = None,
    processors: int | None = None,
    as_json: bool = False,
    **options: Any,
) -> None:
    """Describe a TRACE: sizes, times, load, arrivals, users, and what is missing.

    The format is recognised by the content, and the output says which and why. The log is read without
    cleaning. Jobs that lack a quantity are left out of its figures and counted
    under "missing". A workflow (DAX, WfFormat) is described by its tasks.

    \b
    Examples:
      gridtune traces describe kth-sp2
      gridtune traces describe logs/mine.swf.gz --processors 512
      gridtune traces describe Montage_100.dax.xml.gz
    """
    from gridtune.workload import read_workload
    from gridtune.workload.catalogue import resolve_trace
    from gridtune.workload.describe import describe_workload
    from gridtune.workload.formats.compression import open_log
    from gridtune.workload.formats.recognition import WORKFLOW, recognise

    path = resolve_trace(trace)
    with open_log(path) as stream:
        recognised = recognise(stream.peek(), path.name)
    if format_name is None and recognised is not None and recognised.name == WORKFLOW:
        if processors is not None:
            raise click.UsageError("--processors is for logs, not for a workflow.")
        from gridtune.workload.workflows import WORKFLOW_RULES, read_workflow

        # A faulty workflow can still be described: its faults are counted.
        description = read_workflow(path, clean=WORKFLOW_RULES).describe()
        if as_json:
            print_json(description | {"recognised": recognised._asdict()}, indent=2)
        else:
            _print_recognition(path, recognised)
            print_tables([_workflow_table(description)])
        return
    workload = read_workload(path, format=format_name, **_given(**options))
    statistics = describe_workload(workload, processors=processors)
    if as_json:
        described = {**dataclasses.asdict(statistics), "recognised": recognised and recognised._asdict()}
        print_json(described | {"notes": workload.contents.notes}, indent=2)
        return
    if recognised is not None and format_name is None:
        _print_recognition(path, recognised)
    for note in workload.contents.notes:
        click.echo(f"note: {note}")
    print_tables([_figures(statistics), _spreads(statistics)])


@command(group=traces)
def _convert(source: str, target: Path, *, format_name: str | None = None, force: bool = False) -> None:
    """Write the SOURCE trace to TARGET in the format of its suffix.

    `gridtune traces list` shows the formats and their suffixes; .gz or .xz may follow. The jobs stay as they
    are; fields that the format does not have are lost.

    \b
    Examples:
      gridtune traces convert kth-sp2 kth.parquet
      gridtune traces convert mine.csv mine.swf.gz
    """
    from gridtune.workload import read_workload, write_workload
    from gridtune.workload.catalogue import resolve_trace

    check_new(target, force=force)
    workload = read_workload(resolve_trace(source), format=format_name)
    write_workload(workload, target)
    click.echo(f"{target}: {len(workload):,} jobs")


@command(group=traces)
def _generate(
    name: str,
    target: Path | None = None,
    parameters: Sequence[str] = (),
    *,
    show: bool = False,
    force: bool = False,
) -> None:
    """Generate a synthetic workload with the generator NAME and write it to TARGET.

    jobs=N and seed=N set its length and its seed (10000 and 1 by default); the same values give the same
    jobs, bit for bit. --show explains the generator's other parameters.

    \b
    Examples:
      gridtune traces generate lublin --show
      gridtune traces generate lublin my.swf.gz jobs=20000 seed=7 processors=512 load=0.9
      gridtune traces generate poisson mm1.swf jobs=100000 processors=1 load=0.7

    Parameters
    ----------
    show
        Explain the generator and its parameters, and exit.
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


@command(group=traces)
def _fetch(
    name: str, *, mirror: str | None = None, sha256: str | None = None, unverified: bool = False
) -> None:
    """Download the public log NAME into the cache and check its SHA-256.

    The cache is $GRIDTUNE_CACHE_DIR, else gridtune/traces in your cache folder.

    \b
    Examples:
      gridtune traces fetch kth-sp2
      gridtune traces fetch ctc-sp2-reconstructed --mirror ~/logs
      gridtune traces fetch sdsc-sp2 --unverified

    Parameters
    ----------
    mirror
        Folder or URL of the file, instead of the place where it is published.
    sha256
        The expected checksum, if the catalogue has none.
    unverified
        Accept a log without a checksum in the catalogue.
    """
    from gridtune.workload.catalogue import ARCHIVE_CITATION, fetch, file_checksum, find_log

    entry = find_log(name)
    path = fetch(name, mirror=mirror, sha256=sha256, unverified=unverified, progress=sys.stderr.isatty())
    click.echo(str(path))
    if entry.sha256 is None and sha256 is None:
        click.echo(
            f"NOT VERIFIED: the catalogue has no checksum. SHA-256:\n  {file_checksum(path)}", err=True
        )
    click.echo(f"Thanks to {entry.thanks}. Please cite {ARCHIVE_CITATION}.", err=True)
    click.echo(f"Note: {entry.caveat}.", err=True)


def _print_recognition(path: Path, found: Recognition) -> None:
    click.echo(f"{path.name} is {found.name} ({found.confidence:.0%}): {found.why}")


def _log(entry: CatalogueEntry) -> dict[str, Any]:
    """Return a public log's entry with where it is on this machine."""
    from gridtune.errors import TraceError
    from gridtune.workload.catalogue import resolve_trace

    try:
        path: str | None = str(resolve_trace(entry.name))
    except TraceError:
        path = None
    return {**dataclasses.asdict(entry), "path": path}


@command(_given, group=traces)
def _import(
    sources: Sequence[str],
    target: Path,
    *,
    format_name: str | None = None,
    processors: int | None = None,
    requested: bool = False,
    slurm_conf: Path | None = None,
    gres_conf: Path | None = None,
    anonymise: bool = False,
    unread: bool = False,
    force: bool = False,
    **options: Any,
) -> None:
    """Read the records of a resource manager and write TARGET, which every command reads.

    SOURCE is the output of Slurm's "sacct --allusers --parsable2 --format=ALL" (or fewer columns, or --json),
    an accounting log of PBS, Torque or LSF, a CSV or Parquet table with a job a row, or a log in any other
    format. Several SOURCEs become one log; a job that is in two of them counts once. A TARGET with the
    suffix .parquet keeps everything. What was left out or looks odd is listed.

    \b
    Examples:
      gridtune traces import sacct.txt cluster.parquet --slurm-conf slurm.conf --timezone Europe/Paris
      gridtune traces import jobs.csv cluster.parquet --columns submit=Submitted,processors=Cores
      gridtune traces import accounting/202405* may.parquet --format pbs --processors 4096 --anonymise

    Parameters
    ----------
    requested
        Read the requested processors; by default the allocated ones, where they are known.
    slurm_conf
        The slurm.conf of the machine: gives its size and that of each partition.
    gres_conf
        The gres.conf of the machine, for the GPUs of its nodes; by default that beside slurm.conf.
    anonymise
        Remove names of users and groups.
    unread
        List the columns that are not read.
    """
    from gridtune.workload import write_workload
    from gridtune.workload.catalogue import resolve_trace
    from gridtune.workload.cleaning import anonymised
    from gridtune.workload.files import read_dumps

    check_new(target, force=force)
    given = _given(**options) | ({"requested": True} if requested else {})
    files = [resolve_trace(source) for source in sources]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        workload: Workload = read_dumps(files, format=format_name, **given)
        workload = _with_machine(workload, slurm_conf, gres_conf)
        if processors is not None:
            workload = replace(workload, machine_processors=processors)
        if anonymise:
            workload = anonymised(workload)
        write_workload(workload, target)
    _print_report(workload, target, [str(warning.message) for warning in caught], unread=unread)


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


def _print_report(workload: Workload, target: Path, troubles: list[str], *, unread: bool) -> None:
    """Print the jobs and fields that were read, and notes on all that is missing."""
    from gridtune.workload.formats.accounting import UNREAD

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
    for note in workload.header.get("Import", ()):
        click.echo(f"  note: {note}")
    for name in workload.header.get(UNREAD, ()) if unread else ():
        click.echo(f"  not read: {name}")
    if (workload.column("requested_time") <= 0).all():
        click.echo("  note: no job has a walltime: orders and backfilling cannot tell jobs apart")
    for trouble in troubles:
        click.echo(f"  warning: {trouble}", err=True)


def _facts_table(title: str, facts: Mapping[str, str]) -> Table:
    """Return a table without a head that has a name and a text in each row."""
    table = new_table(title, "", "", rows=facts.items())
    table.show_header = False
    return table


def _catalogue_tables(listing: Mapping[str, Any]) -> list[Table]:
    """Return tables of the bundled traces, the public logs, the generators and the formats."""
    logs = []
    for log in listing["logs"]:
        absent = "no: --mirror" if log["url"] is None else "no" if log["sha256"] else "no: unverified"
        here = "yes" if log["path"] else absent
        what = f"{log['title']}\n[dim]{log['caveat']}[/dim]"
        logs.append((log["name"], f"{log['jobs']:,}", f"{log['processors']:,}", here, what))
    formats = [(name, values["suffix"], values["summary"]) for name, values in listing["formats"].items()]
    return [
        new_table("Bundled traces", "name", "file", rows=listing["bundled"].items()),
        new_table(
            "Public logs: gridtune traces fetch NAME",
            *("name", "jobs", "processors", "here", "what"),
            right=("jobs", "processors"),
            rows=logs,
        ),
        new_table(
            "Generators: gridtune traces generate NAME --show",
            *("name", "what"),
            rows=listing["generators"].items(),
        ),
        new_table("Formats", "name", "suffix", "holds", rows=formats),
    ]


def _figures(statistics: WorkloadStatistics) -> Table:
    machine = "unknown" if statistics.processors is None else f"{statistics.processors:,} processors"
    rows = {
        "jobs": f"{statistics.jobs:,}",
        "users, groups": f"{_count(statistics.users)}, {_count(statistics.groups)}",
        "queues, partitions": f"{_count(statistics.queues)}, {_count(statistics.partitions)}",
        "machine": machine,
        "submissions": f"{statistics.first_submit or '?'} to {statistics.last_submit or '?'}",
        "span": f"{statistics.span_seconds / 86_400:,.1f} days",
        "work": f"{statistics.area_processor_seconds / 3600:,.0f} processor-hours",
        "offered load": _number(statistics.offered_load, 3),
        "recorded utilisation": _number(statistics.recorded_utilisation, 3),
        "serial jobs": _percent(statistics.serial_share),
        "sizes 2, 4, 8, …": _percent(statistics.power_of_two_share),
        "at their limit": _percent(statistics.at_limit_share),
        "of the busiest user": _percent(statistics.busiest_user_share),
        "to be cleaned": f"{statistics.zero_run_time:,} with run time 0, "
        f"{statistics.wider_than_machine:,} wider than the machine, {statistics.unsorted:,} out of order",
        "missing": ", ".join(
            f"{field} ({'all' if count == statistics.jobs else f'{count:,}'})"
            for field, count in statistics.unknown.items()
        )
        or "nothing",
        "content": statistics.checksum,
    }
    return _facts_table(statistics.name, rows)


def _spreads(statistics: WorkloadStatistics) -> Table:
    columns = ("mean", "min", "10 %", "25 %", "median", "75 %", "90 %", "99 %", "max")
    table = new_table("Spread over the jobs", "", "jobs", *columns, right=("jobs", *columns))
    rows = (
        ("run time, s", statistics.run_time, 0),
        ("requested time, s", statistics.requested_time, 0),
        ("run / requested time", statistics.estimate_accuracy, 3),
        ("processors", statistics.size, 0),
        ("between submissions, s", statistics.inter_arrival, 0),
        ("recorded wait, s", statistics.wait_time, 0),
    )
    for name, spread, digits in rows:
        count, mean, *values = astuple(spread)
        numbers = (_number(mean, max(digits, 1)), *(_number(value, digits) for value in values))
        table.add_row(name, *((f"{count:,}", *numbers) if count else ("none",)))
    return table


def _workflow_table(description: Mapping[str, Any]) -> Table:
    """Return a table of a workflow's figures."""
    levels = ", ".join(f"{tasks:,}" for tasks in description["levels"])
    rows = {
        "tasks, edges": f"{description['tasks']:,}, {description['edges']:,}",
        "levels": f"{len(description['levels'])}: {levels} tasks",
        "work": f"{description['work_processor_seconds'] / 3600:,.1f} processor-hours",
        "longest path": f"{description['critical_path_seconds']:,.1f} s",
        "widest task": f"{description['widest_task']:,} processors",
        "sent between tasks": f"{description['bytes_sent'] / 1e9:,.3f} GB",
        "to be cleaned": ", ".join(f"{count:,} by {rule}" for rule, count in description["cleaning"].items()),
        "content": description["content"],
    }
    return _facts_table(description["name"], rows)


def _count(count: int) -> str:
    return f"{count:,}" if count else "unknown"


def _number(value: float, digits: int) -> str:
    return "unknown" if math.isnan(value) else f"{value:,.{digits}f}"


def _percent(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{100 * value:.1f} %"
