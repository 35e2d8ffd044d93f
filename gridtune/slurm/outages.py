"""Tables of Slurm's commands beside slurm.conf: their lines, QOS, accounts, and outages.

Reservations are read from `scontrol show res`, times of nodes that were down or drained from
`sacctmgr show event -P`.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Mapping
from pathlib import Path

from gridtune.errors import WorkloadError
from gridtune.slurm.cluster import UNLIMITED, Outage, Qos
from gridtune.workload.slurm import SlurmAccounts, host_list, read_slurm_accounts, text_of


def read_table(
    path: Path, *needed: str, hint: str = "write it again with sacctmgr"
) -> list[tuple[int, dict[str, str]]]:
    """Read the lines of a table with bars between its columns, as `sacctmgr -P` and `squeue -o` write it.

    Raises
    ------
    WorkloadError
        If the table cannot be read or lacks a needed column, or a line is cut off.
    """
    lines = text_of(path).splitlines()
    head = lines[0].split("|") if lines else []
    missing = [name for name in needed if name not in head]
    if missing:
        raise WorkloadError(f"has no column {missing[0]}", path=path, line=1, hint=hint)
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        values = line.split("|")
        if not line.strip():
            continue
        if len(values) != len(head):
            message = f"has {len(values)} of {len(head)} columns: the file is cut off or damaged"
            raise WorkloadError(message, path=path, line=number, hint=hint)
        rows.append((number, dict(zip(head, values, strict=True))))
    return rows


class PlacedReader:
    """Reads values at a place in a file, which faults name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.place: tuple[Path | str, int] = (path, 1)

    def fault(self, message: str, field: str, hint: str | None = None) -> WorkloadError:
        """Return the error of a value at the place."""
        path, line = self.place
        return WorkloadError(message, path=path, line=line, field=field, hint=hint)

    def whole(self, text: str, field: str) -> int:
        """Return a whole number from 0 on."""
        if not text.isdecimal() or len(text) > 15:
            raise self.fault(f"{text[:40]!r} is no whole number", field)
        return int(text)

    def seconds(self, text: str, field: str) -> int:
        """Return seconds of `minutes[:seconds]`, `hours:minutes:seconds` or `days-hours[:minutes…]`."""
        if text.upper() in {"INFINITE", "UNLIMITED"}:
            return UNLIMITED
        match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text)
        if match is None:
            raise self.fault(f"{text[:40]!r} is no time", field, "such as 1-02:00:00")
        days, *rest = match.groups()
        numbers = [int(number) for number in rest if number is not None]
        units = [3600, 60, 1] if days is not None or len(numbers) == 3 else [60, 1]
        pairs = zip(numbers, units, strict=False)
        return int(days or 0) * 86400 + sum(number * unit for number, unit in pairs)


def read_qos(folder: Path) -> dict[str, Qos]:
    """Read the priority of each QOS, and its factor of usage.

    It stands in sacctmgr_qos.txt (`sacctmgr show qos -P`) or sacctmgr.script (sacctmgr's commands).
    """
    path = folder / "sacctmgr_qos.txt"
    if path.is_file():
        reader, found = PlacedReader(path), {}
        for line, row in read_table(path, "Name", "Priority"):
            reader.place = (path, line)
            factor = row.get("UsageFactor") or "1"
            if not re.fullmatch(r"[0-9.]+", factor):
                raise reader.fault(f"{factor!r} is no number", "UsageFactor")
            if name := row["Name"]:
                priority, flags = reader.whole(row["Priority"] or "0", "Priority"), row.get("Flags", "")
                found[name] = Qos(name, priority, float(factor), "OverPartQOS" in flags)
        return found
    script = folder / "sacctmgr.script"
    text = text_of(script) if script.is_file() else ""
    lines = re.findall(r"^\s*(?:add|create) qos\s+(?:name=)?(\S+)(.*)$", text, re.IGNORECASE | re.MULTILINE)
    matches = {name: re.search(r"priority=(\d+)", rest, re.IGNORECASE) for name, rest in lines}
    return {name: Qos(name, int(match[1]) if match else 0) for name, match in matches.items()}


def parents_of(parents: Mapping[str, str], account: str) -> list[str]:
    """Return the accounts above one, the nearest first."""
    above: list[str] = []
    while account in parents and parents[account] not in above:
        account = parents[account]
        above.append(account)
    return above


def read_accounts(folder: Path) -> tuple[SlurmAccounts, list[str]]:
    """Read accounts from a table of sacctmgr or sshare, or from commands; return what is doubtful too."""
    remarks: list[str] = []
    for name, shares in (("sacctmgr_assoc.txt", "Share"), ("sshare.txt", "RawShares")):
        if (folder / name).is_file():
            accounts, indented, row = SlurmAccounts(), False, dict[str, str]()
            # From root down to the last account: sacctmgr's tree has one blank more at each level.
            above: list[tuple[int, str]] = []
            for line, row in read_table(folder / name, "Account", "User", shares):
                account, user = row["Account"].strip(), row["User"].strip()
                number = int(row[shares]) if row[shares].isdecimal() else 1
                if row[shares].lower() == "parent":
                    remarks.append(f"{name}:{line}: {shares}=parent of {user or account}: taken as 1")
                if user:
                    accounts.users[account, user] = number
                    continue
                depth = len(row["Account"]) - len(row["Account"].lstrip())
                indented = indented or depth > 0
                above = [one for one in above if one[0] < depth]
                if account != "root":
                    parent = above[-1][1] if above else "root"
                    accounts.parent_of[account] = row.get("ParentName", "") or parent
                    accounts.shares_of[account] = number
                above.append((depth, account))
            for account in accounts.parent_of:
                if account in parents_of(accounts.parent_of, account):
                    message = f"account {account!r} is below itself"
                    raise WorkloadError(message, path=folder / name, field="ParentName")
            nested = any(parent != "root" for parent in accounts.parent_of.values())
            if len(accounts.parent_of) > 1 and not nested and not indented and "ParentName" not in row:
                hint = f"sacctmgr show assoc tree -P > {folder / 'sacctmgr_assoc.txt'}"
                remarks.append(f"{name}: accounts are taken as all below root: to know, run {hint}")
            return accounts, remarks
    script = folder / "sacctmgr.script"
    return read_slurm_accounts(script) if script.is_file() else SlurmAccounts(), remarks


def read_outages(folder: Path, number_of: Mapping[str, int]) -> tuple[tuple[Outage, ...], list[str]]:
    """Read reservations and node events, in seconds of local time since 1970, and remarks on them."""
    found, remarks = [], []
    path = folder / "scontrol_show_res.txt"
    text = text_of(path) if path.is_file() else ""
    for match in re.finditer(r"^ReservationName=(\S+)(?:.|\n(?!ReservationName=))*", text, re.MULTILINE):
        words, line = dict(re.findall(r"(\w+)=(\S*)", match[0])), text.count("\n", 0, match.start()) + 1
        begin, end = (_instant(words.get(name, ""), path, line, name) for name in ("StartTime", "EndTime"))
        names = words.get("Nodes", "").replace("(null)", "")
        nodes = tuple(number_of[name] for name in host_list(names, path, line, "Nodes") if name in number_of)
        found.append(Outage(begin, end, nodes, planned=True))
        remarks.append(f"{path.name}:{line}: reservation {match[1]}: its own jobs wait for its end too")
    path = folder / "sacctmgr_show_event.txt"
    for line, row in read_table(path, "NodeName", "TimeStart", "TimeEnd") if path.is_file() else []:
        begin, end = (_instant(row[name], path, line, name) for name in ("TimeStart", "TimeEnd"))
        if row["NodeName"] in number_of:
            found.append(Outage(begin, end, (number_of[row["NodeName"]],)))
    return tuple(found), remarks


def _instant(text: str, path: Path, line: int, field: str) -> int:
    """Return the second of a local time; one that is unknown has not come."""
    if text == "Unknown":
        return 100 * UNLIMITED
    try:
        return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        raise WorkloadError(f"{text[:40]!r} is no time", path=path, line=line, field=field) from None
