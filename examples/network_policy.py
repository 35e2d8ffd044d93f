"""A learned policy: a small network scores the waiting jobs. `benchmarks/batch_search.py` found its weights.

    gridtune simulate kth-sp2 --plugin examples/network_policy.py --order network --guard 345600

The numbers that it reads are those of the batch environment (`docs/batch_environment.md`).
"""

# ruff: noqa: ANN001, ANN201, D103

from pathlib import Path

import numpy as np

import gridtune as gt

HOUR, DAY, HIDDEN, SHOWN = 3600, 86_400, 6, 128
WEIGHTS = Path(__file__).with_name("network_policy.csv")


def bent(value, half):
    return value / (value + half)


def on_log_scale(value, largest):
    return np.minimum(np.log1p(value) / np.log1p(largest), 1)


@gt.queue_order("network")
class Network(gt.Policy):
    """The job of the best score first; the shortest are backfilled behind one that does not fit."""

    weights = np.loadtxt(WEIGHTS)

    def decide(self, state):
        """Choose one job after another, each with the machine as the last one left it."""
        jobs, starting, left = state.waiting, [], list(range(len(state.waiting)))
        shortest = np.argsort(jobs.walltime, kind="stable").tolist()
        while left:
            free = state.free - jobs.processors[starting].sum()
            width = jobs.processors[left]
            if width.sum() <= free:
                return starting + left
            if width.min() > free:
                return starting
            guarded = left[0] < state.guarded
            row = (
                left[0] if guarded else left[self.scores(state, starting, left[:SHOWN], left, free).argmax()]
            )
            if jobs.processors[row] > free:
                return state.easy([*starting, row, *(one for one in shortest if one in left and one != row)])
            starting.append(row)
            left.remove(row)
        return starting

    def scores(self, state, starting, shown, waiting, free):
        """Return the scores of the jobs in the rows `shown`; those of `starting` run already."""
        jobs, total = state.waiting, state.total
        ends = np.concatenate([state.running.requested_end, state.now + jobs.walltime[starting]]) - state.now
        widths = np.concatenate([state.running.processors, jobs.processors[starting]])
        by_end = np.argsort(ends, kind="stable")
        ends, widths = np.maximum(ends[by_end], 0), widths[by_end]
        width, walltime, wait = jobs.processors[shown], jobs.walltime[shown], jobs.wait[shown]
        fits = width <= free
        place = np.searchsorted(free + np.cumsum(widths), width)
        delay = np.where(fits, 0, ends[np.minimum(place, len(ends) - 1)] if len(ends) else 0)
        mean = np.minimum(jobs.prediction[shown], walltime)
        longest = 30 * DAY
        rows = np.column_stack(
            [
                width / total, on_log_scale(walltime, longest),
                on_log_scale(walltime * width, total * longest),
                bent(wait, HOUR), bent(wait, DAY), bent(wait, np.maximum(walltime, 1)), fits,
                bent(delay, HOUR), np.maximum(free - width, 0) / total,
                on_log_scale(mean, longest), (mean + 1) / (walltime + 1), jobs.early_end[shown],
            ]
        )  # fmt: skip
        queued = (jobs.processors[waiting] * jobs.walltime[waiting]).sum()
        machine = np.array(
            [
                free / total, bent(len(waiting), 16),
                1 - len(shown) / len(waiting), bent(queued / total, DAY),
                bent((widths * ends).sum() / total, DAY), bent(ends[0], HOUR) if len(ends) else 0,
            ]
        )  # fmt: skip
        cut = HIDDEN * (1 + len(machine) + rows.shape[1])
        layer = self.weights[:cut].reshape(HIDDEN, -1)
        outputs, linear = self.weights[cut : cut + HIDDEN], self.weights[cut + HIDDEN :]
        situation = layer[:, 0] + layer[:, 1 : 1 + len(machine)] @ machine
        return np.tanh(situation + rows @ layer[:, 1 + len(machine) :].T) @ outputs + rows @ linear
