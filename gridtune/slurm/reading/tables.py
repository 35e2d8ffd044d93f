"""Tables and commands of sacctmgr and sshare that lie beside a `slurm.conf`.

Source: https://slurm.schedmd.com/sacctmgr.html
"""

from __future__ import annotations

import re
from pathlib import Path

from gridtune.errors import WorkloadError
from gridtune.workload.slurm import SlurmAccounts, read_slurm_accounts

__all__ = ["accounts_of", "qos_priorities", "read_table"]


def qos_priorities(folder: Path) -> dict[str, int]:
    """Read the priority of each QOS.

    It stands in sacctmgr_qos.txt (`sacctmgr show qos -P`) or sacctmgr.script (sacctmgr's commands).
    """
    path = folder / "sacctmgr_qos.txt"
    if path.is_file():
        rows = read_table(path, "Name", "Priority")
        return {row["Name"]: _priority(row["Priority"], path, line) for line, row in rows if row["Name"]}
    script = folder / "sacctmgr.script"
    text = script.read_text(encoding="utf-8", errors="replace") if script.is_file() else ""
    found = re.findall(r"^\s*(?:add|create) qos\s+(?:name=)?(\S+)(.*)$", text, re.IGNORECASE | re.MULTILINE)
    priority = {name: re.search(r"priority=(\d+)", rest, re.IGNORECASE) for name, rest in found}
    return {name: int(match[1]) if match else 0 for name, match in priority.items()}


def accounts_of(folder: Path) -> SlurmAccounts:
    """Read accounts from a table of sacctmgr or sshare, or from sacctmgr's commands; none without a file."""
    for name, shares in (("sacctmgr_assoc.txt", "Share"), ("sshare.txt", "RawShares")):
        if (folder / name).is_file():
            accounts = SlurmAccounts()
            for _, row in read_table(folder / name, "Account", "User", shares):
                account, user = row["Account"].strip(), row["User"].strip()
                number = int(row[shares]) if row[shares].isdecimal() else 1
                if user:
                    accounts.users[account, user] = number
                elif account != "root":
                    accounts.parent_of[account] = row.get("ParentName", "") or "root"
                    accounts.shares_of[account] = number
            return accounts
    script = folder / "sacctmgr.script"
    return read_slurm_accounts(script) if script.is_file() else SlurmAccounts()


def _priority(text: str, path: Path, line: int) -> int:
    if text and not text.isdecimal():
        raise WorkloadError(f"{text[:40]!r} is no whole number", path=path, line=line, field="Priority")
    return int(text or 0)


def read_table(path: Path, *needed: str) -> list[tuple[int, dict[str, str]]]:
    """Read the lines of a table with bars between its columns, as `sacctmgr -P` and `sshare -P` write it.

    Raises
    ------
    WorkloadError
        If the table has not all columns that are needed, or a line is cut off.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    head = lines[0].split("|") if lines else []
    hint = "write it again with sacctmgr"
    missing = [name for name in needed if name not in head]
    if missing:
        raise WorkloadError(f"has no column {missing[0]}", path=path, line=1, hint=hint)
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        values = line.split("|")
        if line.strip() and len(values) != len(head):
            message = f"has {len(values)} of {len(head)} columns: the file is cut off or damaged"
            raise WorkloadError(message, path=path, line=number, hint=hint)
        if line.strip():
            rows.append((number, dict(zip(head, values, strict=True))))
    return rows
