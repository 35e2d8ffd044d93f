"""Rollouts in plain Python: slow, short, and the specification of the kernel, with which it shares no code.

Every forward simulation goes to its end, and computes the head's reservation anew at every completion.
"""

from __future__ import annotations

import math

__all__ = ["RolloutTwin"]

#: Costs that differ by less than this fraction are equal.
EQUAL = 1e-9
HEAD = 8


class RolloutTwin:
    """The order of the waiting jobs under a rollout, for the reference simulator."""

    def __init__(self, policy, guard=None):
        self.policy, self.guard = policy, guard

    def keys(self, machine, now):
        """Return the place of each waiting job, by its number."""
        waiting = list(machine.waiting)
        if len(waiting) == 1 or sum(job.processors for job in waiting) <= machine.free:
            return {job.number: job.number for job in waiting}
        return {job.number: place for place, job in enumerate(self.sequence(machine, now))}

    def sequence(self, machine, now):
        """Return the waiting jobs in the best order."""
        waiting = list(machine.waiting)
        self.now_guard = self.guard
        if self.guard is not None and self.policy.backlog:
            work = sum(job.processors * job.walltime for job in waiting)
            running = [job for job in machine.running if job.number not in machine.released]
            ends = [
                (job.processors, max(job.start + self.expected(job, machine) - now, 1)) for job in running
            ]
            work += sum(width * left for width, left in ends)
            total = machine.free + sum(width for width, _ in ends)
            self.now_guard = max(self.guard, int(self.policy.backlog / 100 * work / total))
        window, size = waiting, self.policy.window
        if len(waiting) > size:
            window = self.windowed(waiting, size, machine, now)
        self.weights = self.index_weights(window, machine, now)
        best, cost, chosen = None, math.inf, 0
        for number in range(len(self.policy.portfolio)):
            trial = self.ranked(number, window, machine, now)
            trial_cost = self.cost(trial, machine, now)
            if trial_cost < cost * (1 - EQUAL):
                best, cost, chosen = trial, trial_cost, number
        best = self.improved(best, cost, machine, now)
        rest = [job for job in waiting if job not in window]
        return best + self.ranked(chosen, rest, machine, now)

    def windowed(self, waiting, size, machine, now):
        """Return the jobs that are played, by submission."""
        if self.policy.window_by == "oldest":
            first = self.ranked(0, waiting, machine, now)[: size // 2]
            others = [job for job in waiting if job not in first]
            return sorted(first + others[: size - size // 2], key=lambda job: job.number)
        taken, orders = [], len(self.policy.portfolio)
        for number in range(orders):
            ranked = [job for job in self.ranked(number, waiting, machine, now) if job not in taken]
            taken += ranked[: (number + 1) * size // orders - len(taken)]
        return sorted(taken, key=lambda job: job.number)

    def index_weights(self, window, machine, now):
        """Return the sums over the window that the objective `index` divides by."""
        jobs = [(job.processors, self.length(job, machine), now - job.submit) for job in window]
        return (
            sum((age + length) / max(length, 60) for _, length, age in jobs),
            sum(width * length * (age + length) for width, length, age in jobs),
            sum(age + length for _, length, age in jobs),
        )

    def ranked(self, number, jobs, machine, now):
        """Return jobs in an order of the portfolio; guarded ones first, the oldest first."""
        order = self.policy.portfolio[number]

        def key(job):
            if self.is_guarded(job, now):
                return -math.inf, job.number
            return order(machine.accounts.view(job, now)), job.number

        return sorted(jobs, key=key)

    def is_guarded(self, job, now):
        return self.guard is not None and now - job.submit > self.now_guard

    def improved(self, best, cost, machine, now):
        """Return the order after the moves."""
        first = sum(self.is_guarded(job, now) for job in best)
        beyond = min(len(best), first + HEAD)
        moves = [
            (source, target) for target in range(first, beyond - 1) for source in range(target + 1, beyond)
        ]
        moves += [(source, first) for source in range(beyond, len(best))]
        left, improving = self.policy.moves, True
        while improving and left > 0:
            improving = False
            for source, target in moves[:left]:
                trial = list(best)
                trial.insert(target, trial.pop(source))
                trial_cost = self.cost(trial, machine, now)
                if trial_cost < cost * (1 - EQUAL):
                    best, cost, improving = trial, trial_cost, True
            left -= len(moves)
        return best

    def cost(self, order, machine, now):
        """Return the summed cost of jobs that start in this order, under EASY."""
        running = [
            (max(job.start + self.expected(job, machine), now + 1), job.processors)
            for job in machine.running
            if job.number not in machine.released
        ]
        waiting, free, time, total = list(order), machine.free, now, 0.0
        while True:
            for job in self.startable(waiting, running, free, time, machine):
                waiting.remove(job)
                free -= job.processors
                running.append((time + self.length(job, machine), job.processors))
                total += self.cost_of(job, time, machine)
            if not waiting:
                return total + self.delay_cost(order, machine, now) * (time - now)
            time = min(end for end, _ in running)
            free += sum(width for end, width in running if end == time)
            running = [(end, width) for end, width in running if end != time]

    def delay_cost(self, window, machine, now):
        """Return the cost of a second until the last job starts, for the jobs to come."""
        square = self.policy.objective not in ("wait", "area")
        slopes = []
        for job in window:
            response = now - job.submit + self.length(job, machine)
            cost = self.cost_of(job, now, machine)
            slopes.append(2 * cost / response if square else cost / response)
        return self.policy.arrivals * sum(slopes) / len(slopes)

    def expected(self, job, machine):
        """Return how long a job is expected to run, in seconds."""
        if self.policy.durations == "walltime":
            return job.walltime
        return math.ceil(machine.accounts.view(job, 0).prediction)

    def length(self, job, machine):
        """Return how long a waiting job is played."""
        return max(self.expected(job, machine), 1)

    def startable(self, waiting, running, free, time, machine):
        """Return the jobs that EASY starts now."""
        starts, running = [], list(running)
        for place, head in enumerate(waiting):
            if head.processors <= free:
                starts.append(head)
                free -= head.processors
                running.append((time + self.length(head, machine), head.processors))
                continue
            at = {end: free + sum(w for other, w in running if other <= end) for end, _ in running}
            shadow = min(end for end, available in at.items() if available >= head.processors)
            spare = at[shadow] - head.processors
            for job in waiting[place + 1 :]:
                in_time = time + self.length(job, machine) <= shadow
                if job.processors <= free and (in_time or job.processors <= spare):
                    starts.append(job)
                    free -= job.processors
                    spare -= 0 if in_time else job.processors
            break
        return starts

    def cost_of(self, job, start, machine):
        length = self.length(job, machine)
        response = start - job.submit + length
        slowdowns, areas, responses = self.weights
        shares = 1 / max(length, 60) / slowdowns + job.processors * length / areas + 1 / responses
        return {
            "wait": response,
            "area": job.processors * length * response,
            "balanced": math.sqrt(job.processors / max(length, 60)) * response**2,
            "safe": job.processors * response**2,
            "index": shares * response**2,
        }[self.policy.objective]
