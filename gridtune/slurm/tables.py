"""Tables and commands of sacctmgr and sshare that lie beside a `slurm.conf`.

Source: https://slurm.schedmd.com/sacctmgr.html
"""

from __future__ import annotations

import re
from pathlib import Path

from gridtune.workload.slurm import SlurmAccounts, read_slurm_accounts

__all__ = ["accounts_of", "qos_priorities", "read_table"]


def qos_priorities(folder: Path) -> dict[str, int]:
    """Read the priority of each QOS.

    It stands in sacctmgr_qos.txt (`sacctmgr show qos -P`) or sacctmgr.script (sacctmgr's commands).
    """
    path = folder / "sacctmgr_qos.txt"
    if path.is_file():
        rows = read_table(path)
        return {row["Name"]: int(row["Priority"] or 0) for row in rows if row.get("Name")}
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
            for row in read_table(folder / name):
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


def read_table(path: Path) -> list[dict[str, str]]:
    """Read a table with bars between its columns, as `sacctmgr -P` and `sshare -P` write it."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    head = lines[0].split("|") if lines else []
    return [dict(zip(head, line.split("|"), strict=False)) for line in lines[1:] if line.strip()]
