"""Fair share: decayed usage, and each user's factor from it, by the Fair Tree or the classic formula.

Sources: https://slurm.schedmd.com/fair_tree.html, https://slurm.schedmd.com/classic_fair_share.html, and
`src/plugins/priority/multifactor/fair_tree.c` of Slurm 22.05: accounts that tie are not merged there.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from gridtune.slurm.cluster import Priorities
from gridtune.slurm.requests import Request
from gridtune.types import FloatArray
from gridtune.workload.slurm import SlurmAccounts


def decayed_usage(
    priorities: Priorities, now: int, ran: Iterable[tuple[Request, int, int]]
) -> dict[tuple[str, str], float]:
    """Return processor-seconds of each (account, user), those long ago counting less.

    Parameters
    ----------
    priorities
        Their half-life is how fast usage decays; 0 is never.
    now
        The instant, seconds.
    ran
        Jobs with start and end, in seconds, none after now.
    """
    usage: dict[tuple[str, str], float] = defaultdict(float)
    rate = math.log(2) / priorities.half_life if priorities.half_life else 0.0
    for request, start, end in ran:
        if rate:
            seconds = (math.exp(rate * (end - now)) - math.exp(rate * (start - now))) / rate
        else:
            seconds = end - start
        usage[request.account, request.user] += request.cpus * seconds
    return dict(usage)


class ShareTree:
    """The tree of accounts; users that no file names get one share of their account, and it one of root's.

    Parameters
    ----------
    accounts
        Those of the cluster.
    users
        (account, user) of the jobs.
    """

    def __init__(self, accounts: SlurmAccounts, users: Iterable[tuple[str, str]]) -> None:
        shares = dict(accounts.users)
        parent_of, account_shares = dict(accounts.parent_of), dict(accounts.shares_of)
        for account, user in users:
            shares.setdefault((account, user), 1)
            if account != "root" and account not in parent_of:
                parent_of[account], account_shares[account] = "root", 1
        self.users = list(shares)
        below: dict[str, list[tuple[int, str | None, int]]] = defaultdict(list)
        for account, parent in parent_of.items():
            below[parent].append((account_shares[account], account, -1))
        for number, (account, user) in enumerate(self.users):
            below[account].append((shares[account, user], None, number))
        #: Below each account: (part of its shares, name or None, number of the user).
        self.below: dict[str, list[tuple[float, str | None, int]]] = defaultdict(list)
        for account, members in below.items():
            total = sum(one for one, _, _ in members)
            self.below[account] = [(one / total if total else 0.0, name, at) for one, name, at in members]

    def factors(self, usage: FloatArray, rules: Priorities, before: FloatArray) -> FloatArray:
        """Return the factor of each of `users`, from 0 to 1, by their decayed usage.

        The classic formula takes that of accounts from `before` it was last decayed.
        """
        # Arithmetic is faster with Python's numbers than with numpy's.
        values, factors = usage.tolist(), [0.0] * len(self.users)
        used: dict[str, float] = {}
        self._add("root", values, used)
        if rules.fair_tree:
            self._rank("root", values, used, factors, [len(self.users)] * 2, False)
        else:
            earlier: dict[str, float] = {}
            self._add("root", before.tolist(), earlier)
            self._classic("root", values, used["root"], earlier, factors, rules, 1.0, 0.0)
        return np.array(factors)

    def _add(self, account: str, usage: Sequence[float], used: dict[str, float]) -> float:
        # `sum` rounds in another way from Python 3.12 on.
        total = 0.0
        for _, name, number in self.below[account]:
            total += usage[number] if name is None else self._add(name, usage, used)
        used[account] = total
        return total

    def _rank(
        self,
        account: str,
        usage: Sequence[float],
        used: Mapping[str, float],
        factors: list[float],
        ranks: list[int],
        from_tie: bool,
    ) -> None:
        all_used = used[account]
        levels = []
        for place, (part, name, number) in enumerate(self.below[account]):
            own = usage[number] if name is None else used[name]
            share = own / all_used if all_used else 0.0
            level = part / share if share else math.inf
            levels.append((-level if part else 0.0, name is not None, place, name, number))
        levels.sort()
        before: float | None = None
        for first, (value, _, _, name, number) in enumerate(levels):
            tied = from_tie if first == 0 and from_tie else value == before
            if name is None:
                if not tied:
                    ranks[0] = ranks[1]
                factors[number] = ranks[0] / len(self.users)
                ranks[1] -= 1
            else:
                self._rank(name, usage, used, factors, ranks, tied)
            before = value

    def _classic(
        self,
        account: str,
        usage: Sequence[float],
        everything: float,
        earlier: Mapping[str, float],
        factors: list[float],
        rules: Priorities,
        share: float,
        effective: float,
    ) -> None:
        # The decay thread looks at accounts before it adds usage, and at users after.
        for part, name, number in self.below[account]:
            own, whole = (usage[number], everything) if name is None else (earlier[name], earlier["root"])
            used = own / whole if whole else 0.0
            actual = used if account == "root" else used + (effective - used) * part
            if name is not None:
                self._classic(name, usage, everything, earlier, factors, rules, share * part, actual)
            elif share * part:
                factors[number] = 2.0 ** (-actual / (share * part) / max(1, rules.dampening))
