"""Releases of Slurm, and the rules of scheduling that each one brought.

Source: the tags of https://github.com/SchedMD/slurm from 22.05 to 26.05. A rule holds from its release on.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from gridtune.errors import WorkloadError
from gridtune.workload.workload import Workload

#: Releases whose rules recorded runs confirm; rules of those between are from the source alone.
VERIFIED = ("22.05", "24.11", "26.05")

#: The file beside slurm.conf in which Slurm states its release.
_STATED = "scontrol_show_config.txt"

#: The processors of a node that a job is shown are at most those of its tasks there, unless it asks for GPUs
#: or the whole node. A plan takes one slice of backfill's table at least.
SHOWN_CPUS = 23_02_00
#: A partition that takes an account takes those below it.
SUBACCOUNTS = 23_02_00
#: Nodes of equal settings are one record; before, those of a line of slurm.conf are.
MERGED_NODES = 23_02_00
#: The processors of a switch count where switches are compared. A job of several numbers of nodes looks for
#: the most, and takes fewer to be on as many switches as it asks for.
SWITCH_CPUS = 23_02_00
#: Plans of an array are at most as many as tasks may still run at a time; before, as tasks are left.
ARRAY_PLANS = 23_02_04
#: Jobs share nodes where no `SelectType` is set; before, each had whole nodes.
SHARED_NODES = 23_11_00
#: Each test of backfill weighs the nodes afresh, and takes those that are completing last.
FRESH_WEIGHTS = 23_11_00
#: sbatch sends as many nodes as the tasks need.
NEEDED_NODES = 23_11_02
#: Full passes cancel all jobs that are too late for their deadlines; before, those that a pass comes to.
PURGED_LATE = 23_11_04
#: The priority of a requeued job is computed again at once; before, the next tick did so.
REQUEUED_PRIORITY = 24_05_05
#: Backfill's table and its plans end on its grid. A test for a later instant looks at that instant only, and
#: only at jobs that end before others come; overlaps with plans are looked at first.
DATED_TESTS = 24_11_00
#: A component of a heterogeneous job whose partition is blocked already ends a main pass, by a fault.
ENDED_PASSES = 24_11_00
#: Each node gets tasks until all have a place; before and again later, as many as `--ntasks-per-node`,
#: whatever `-n`.
COUNTED_TASKS, TASKS_PER_NODE = 24_11_01, 25_11_00
#: A job that waits for switches looks at free processors alone, unless jobs are suspended. Before, the choice
#: among all processors of the nodes that have the memory had to do too.
FREE_SWITCHES = 24_11_00
#: A plan under a limit on nodes counts those that others under it have once.
PLANNED_NODES = 24_11_04
#: Jobs that end at the instant of a test have ended.
ENDED_AT = 25_05_00
#: With `--spread-job` tasks go round the nodes. By a fault each class of weights gives one node at least, and
#: one without a task keeps all its idle cores: only nodes of one weight are modelled.
OTHER_SPREAD = 25_05_00
#: A predicted start is the end of a job on the nodes chosen, not that of the last one looked at.
OWN_ENDS = 25_05_01
#: A job that backfill starts with `--time-min` gets the longest limit that plans leave; before, the shortest.
LONGEST_LIMITS = 25_05_03
#: Components of heterogeneous jobs count no processors as usage; before, those of their last test.
FREE_COMPONENTS = 26_05_00
#: A job that can use one node only takes the first by weight and name, wherever its switch is.
FIRST_NODE = 26_05_00


@lru_cache
def release_of(version: str) -> int:
    """Return a release as a number, 24_11_05 for "24.11.5"; its latest where the text is "24.11".

    Raises
    ------
    WorkloadError
        If it is no release from 22.05 to 26.05.
    """
    match = re.fullmatch(r"(\d\d)\.(\d\d)(?:\.(\d{1,2})(?:[-.~]\S*)?)?", version)
    number = 100 * int(match[1] + match[2]) + int(match[3] or 99) if match else 0
    if not 22_05_00 <= number <= 26_05_99:
        hint = f"a release from 22.05 to 26.05, such as 24.11.5; {', '.join(VERIFIED)} are verified"
        raise WorkloadError(f"no rules for Slurm {version!r}", hint=hint)
    return number


def version_of(given: str | None, folder: Path, log: Workload | None, default: str = "") -> str:
    """Return the release that was given, else that of a slurm.conf's folder, of a log, or the default.

    Raises
    ------
    WorkloadError
        If none of them states it: releases differ in their rules.
    """
    path = (folder if folder.is_dir() else folder.parent) / _STATED
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    stated = re.findall(r"^SLURM_VERSION\s*=\s*(\S+)", text, re.MULTILINE)
    of_log = () if log is None else log.header.get("SlurmVersion", ())
    version = next(filter(None, (given, *stated, *of_log, default)), None)
    if version is None:
        raise WorkloadError(
            "the release of Slurm is unknown, and releases schedule by different rules",
            path=folder,
            hint=f"give --slurm-version, such as 24.11.5, or write it: scontrol show config > {path}",
        )
    release_of(version)
    return version
