"""Accounts, users and their shares, as `sacctmgr dump` writes them or a script of `sacctmgr` adds them.

Source: https://slurm.schedmd.com/sacctmgr.html, "FLAT FILE DUMP"
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from gridtune.errors import WorkloadError

__all__ = ["SlurmAccounts", "read_slurm_accounts"]

_DUMPED = re.compile(r"\s*(Cluster|Parent|Account|User)\s*-\s*('[^']*'|[^:\s]+)(.*)", re.IGNORECASE)
_OPTION = re.compile(r":(\w+)\+?=('[^']*'|[^:]*)")


@dataclass
class SlurmAccounts:
    """The tree of accounts.

    Attributes
    ----------
    parent_of, shares_of
        The parent of each account ("root" at the top), and its shares (Fairshare), 1 where none are said.
    users
        (account, user) to the user's shares in it.
    """

    parent_of: dict[str, str] = field(default_factory=dict)
    shares_of: dict[str, int] = field(default_factory=dict)
    users: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def lines(self) -> tuple[str, ...]:
        """The tree for a log's header: `account NAME of PARENT SHARES`, `user NAME of ACCOUNT SHARES`."""
        accounts = (
            f"account {name} of {parent} {self.shares_of[name]}" for name, parent in self.parent_of.items()
        )
        users = (f"user {user} of {account} {shares}" for (account, user), shares in self.users.items())
        return (*accounts, *users)


def read_slurm_accounts(path: Path) -> SlurmAccounts:
    """Read accounts, users and shares; anything else in the file is passed over.

    Raises
    ------
    WorkloadError
        If it cannot be read, has no accounts, or a line has shares that are no number; the message names it.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise WorkloadError(f"cannot be read: {error.strerror}", path=path) from error
    accounts, parent = SlurmAccounts(), "root"
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        kind, name, options = _entry(line, path, number)
        if kind == "parent":
            parent = name
        elif kind in {"account", "user"}:
            shares = _shares(options.get("fairshare", "1"), path, number)
            if kind == "account":
                accounts.parent_of[name] = options.get("parent", parent)
                accounts.shares_of[name] = shares
            else:
                of = options.get("account", options.get("defaultaccount", parent))
                accounts.users[of if parent == "root" else parent, name] = shares
    if not accounts.parent_of:
        hint = "`sacctmgr dump CLUSTER file=FILE` writes one"
        raise WorkloadError("names no accounts", path=path, hint=hint)
    return accounts


def _entry(line: str, path: Path, number: int) -> tuple[str, str, dict[str, str]]:
    """Return kind, name and options of a line of either form; an empty kind for any other line."""
    if dumped := _DUMPED.fullmatch(line):
        kind, name, rest = dumped.groups()
        options = {key.lower(): value.strip("'") for key, value in _OPTION.findall(rest)}
        return kind.lower(), name.strip("'"), options
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        raise WorkloadError(f"cannot be read: {error}", path=path, line=number) from None
    words = [word for word in words if word not in {"sacctmgr", "-i", "--immediate"}]
    if len(words) < 2 or words[0].lower() not in {"add", "create"}:
        return "", "", {}
    options = {key.lower(): value for key, sign, value in (word.partition("=") for word in words[2:]) if sign}
    bare = next((word for word in words[2:] if "=" not in word), "")
    return words[1].lower(), options.get("name", bare), options


def _shares(text: str, path: Path, number: int) -> int:
    if text.lower() == "parent":
        return 1
    if not text.isdecimal():
        raise WorkloadError(f"{text!r} is no number of shares", path=path, line=number, field="Fairshare")
    return int(text)
