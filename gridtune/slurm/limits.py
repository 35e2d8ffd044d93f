"""Limits of QOS and accounts on what runs at a time, and on the minutes that are left to it.

Source: https://slurm.schedmd.com/resource_limits.html
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

from gridtune.workload.slurm import SlurmAccounts

#: After the name of a resource: what runs has so much of it, times the minutes that its time limit leaves it.
_MINUTES = " minutes"
#: More than there ever is.
_NO_LIMIT = 1 << 50
_RESOURCES = ("cpu", "mem", "node", "gres/gpu", "billing")
#: What limits count: jobs, processors, MB, nodes, GPUs and billing, and the last five times minutes.
AMOUNTS = ("jobs", *_RESOURCES, *(name + _MINUTES for name in _RESOURCES))

#: Columns of sacctmgr's tables: what is counted ("" for a list of TRES), and for whom each.
_QOS = {
    "GrpTRES": ("", ""),
    "GrpJobs": ("jobs", ""),
    "MaxTRESPU": ("", "user"),
    "MaxJobsPU": ("jobs", "user"),
    "MaxTRESPA": ("", "account"),
    "MaxJobsPA": ("jobs", "account"),
    "GrpTRESRunMins": (_MINUTES, ""),
    "MaxTRESRunMinsPU": (_MINUTES, "user"),
    "MaxTRESRunMinsPA": (_MINUTES, "account"),
}
_ASSOCIATION = {
    "GrpTRES": ("", ""),
    "GrpJobs": ("jobs", ""),
    "MaxJobs": ("jobs", "user"),
    "GrpTRESRunMins": (_MINUTES, ""),
}
#: The names of what one job may have, in both tables.
_JOB = dict.fromkeys(("MaxTRES", "MaxTRESPJ", "MaxTRESPerJob"), ("", "job")) | dict.fromkeys(
    ("MaxTRESMins", "MaxTRESMinsPJ", "MaxTRESMinsPerJob"), (_MINUTES, "job")
)


@dataclass(frozen=True)
class Limit:
    """At most so much at a time for the jobs of a QOS, an account with all below it, or one of its users.

    Attributes
    ----------
    of, most
        One of `AMOUNTS`, and how much of it.
    qos, account, user
        Whose jobs count: a QOS, or an account and, where not "", a user in it.
    each
        "user", "account" or "job" if each of them may have so much, "" if all together.
    """

    of: str
    most: int
    qos: str = ""
    account: str = ""
    user: str = ""
    each: str = ""


def limits_of_row(row: Mapping[str, str]) -> tuple[list[Limit], list[str]]:
    """Return the limits in a row of `sacctmgr show qos -P` or `show assoc -P`, and the columns not modelled.

    Raises
    ------
    ValueError
        If a limit is no whole number.
    """
    qos, account, user = row.get("Name", ""), row.get("Account", "").strip(), row.get("User", "").strip()
    columns = _JOB | (_QOS if qos else _ASSOCIATION)
    limits, others = [], []
    for name, text in row.items():
        if not text or not name.startswith(("Grp", "Max", "Min", "LimitFactor")) or "Submit" in name:
            continue
        if name not in columns:
            others.append(f"{name}={text}")
            continue
        of, each = columns[name]
        for item in [f"jobs={text}"] if of == "jobs" else text.split(","):
            resource, _, number = item.partition("=")
            counted = resource + of if of == _MINUTES else resource
            if counted not in AMOUNTS:
                others.append(f"{name}={item}")
                continue
            limits.append(Limit(counted, _amount(number, name), qos, "" if qos else account, user, each))
    return limits, others


def _amount(text: str, name: str) -> int:
    """Return a whole number, or MB of one with a unit."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "M")
    if not number.isdecimal() or unit not in "MGT":
        raise ValueError(f"{name}: {text!r} is no limit; a whole number from 0 on is one")
    return int(number) * {"M": 1, "G": 1024, "T": 1024**2}[unit]


def limits_on(
    limits: tuple[Limit, ...], accounts: SlurmAccounts, qos: tuple[str, ...], account: str, user: str
) -> Iterator[tuple[Hashable, str, int]]:
    """Yield the limits that hold for a job: the key of its sum, the resource, and the most.

    A limit of the first QOS holds instead of the second's, and both instead of those of accounts on the same.
    Of `MaxJobs` and `MaxTRES` the nearest account's holds. Use is not summed up, None, where each job may
    have so much.
    """
    hidden, set_before = set(), set[tuple[str, str]]()
    for name in filter(None, qos):
        own = [limit for limit in limits if limit.qos == name]
        for limit in own:
            holds = (limit.of, limit.each) not in set_before
            hidden.add(_kind(limit))
            whose = {"user": user, "account": account}.get(limit.each, "")
            if limit.each != "job":
                yield (limit, whose), limit.of, limit.most if holds else _NO_LIMIT
            elif holds:
                yield None, limit.of, limit.most
        set_before |= {(limit.of, limit.each) for limit in own}
    scopes = [(account, user), (account, "")]
    while account and account != "root":
        account = accounts.parent_of.get(account, "root")
        scopes.append((account, ""))
    for scope in scopes:
        here = [limit for limit in limits if not limit.qos and (limit.account, limit.user) == scope]
        held = [limit for limit in here if _kind(limit) not in hidden]
        for limit in here:
            each = scopes[0] if limit.each else ""
            if limit.each != "job":
                # A job that a limit of its QOS holds instead still counts here.
                yield (limit, each), limit.of, limit.most if limit in held else _NO_LIMIT
            elif limit in held:
                yield None, limit.of, limit.most
        hidden |= {_kind(limit) for limit in held if limit.each}


def _kind(limit: Limit) -> tuple[str, str]:
    """Return what a limit has in common with those that it hides."""
    return limit.of, limit.each if limit.each in {"", "job"} else "each"
