"""Policies of batch whose weights are searched for by whole replays (CMA-ES), compiled.

    python -m benchmarks.batch_search network  --out FILE --log kth-sp2:1/2 [--generations N] [--seed N]
    python -m benchmarks.batch_search rollout --out FILE --log kth-sp2:1/2 [--generations N] [--seed N]

`network` scores each waiting job: numbers of the batch environment, six of the machine and those of the job,
go through a layer of tanh units. `rollout` is the recommended rollout with learned weights of its cost and a
learned value of the state behind the horizon. Searched for is the least mean logarithm of `delay_index` in
replays of the first 70 % of the logs at several loads, under a guard of four days. The policy that is best on
the other 30 % is kept. No run time of a job that has not ended is used.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np

import gridtune as gt
from benchmarks.lookahead import log_of
from gridtune.batch.environment import BatchVectorEnv
from gridtune.batch.simulator.decisions import _choose, _next_decision, _observe, _reset
from gridtune.batch.simulator.events import read_requests
from gridtune.batch.simulator.machines import STATE, machine_at, row_width
from gridtune.batch.simulator.portfolio import (
    _begin,
    _complete,
    _empty_window,
    _reservation,
    _Window,
    note_running,
)
from gridtune.core.compiled import kernel
from gridtune.core.rows import sort_rows

DAY, GUARD = 86_400, 4 * 86_400
HIDDEN, OF_STATE = 6, 6
#: A log is learned on in this many versions, and each generation on some of them: other loads, and begins
#: up to a fifth later. The held-out part is played at three loads.
VERSIONS, LOADS = 12, (0.9, 1.0, 1.1)

# --- a network -------------------------------------------------------------------------------------------


def network_size(width: int) -> int:
    """Return the number of weights: hidden units, their outputs, and a linear part."""
    return HIDDEN * (1 + OF_STATE + width - 1) + HIDDEN + width - 1


@kernel()
def _scores(machine, target, mask, weights, scores):
    """Write the network's scores of the shown jobs; the largest is the best."""
    _observe(machine, target, mask)
    width = (target.size - STATE) // mask.size
    unit = OF_STATE + width
    situation = np.empty(HIDDEN)
    for k in range(HIDDEN):
        total = weights[k * unit]
        for i in range(OF_STATE):
            total += weights[k * unit + 1 + i] * target[i]
        situation[k] = total
    for slot in range(machine.state.shown):
        begin, score = STATE + slot * width, 0.0
        for k in range(HIDDEN):
            total = situation[k]
            for i in range(1, width):
                total += weights[k * unit + OF_STATE + i] * target[begin + i]
            score += weights[HIDDEN * unit + k] * math.tanh(total)
        for i in range(1, width):
            score += weights[HIDDEN * unit + HIDDEN + i - 1] * target[begin + i]
        scores[slot] = score


@kernel()
def play_network(machines, weights, guard, extended, scores):
    """Play a window: the oldest job first once it has waited beyond the guard, else the one of best score.

    An extended guard is at least the time that the machine needs for all requests, waiting and running.
    """
    machine = machine_at(machines, 0)
    target, mask = machines.observed[0], machines.mask[0]
    decisions = 0
    _reset(machine)
    while _next_decision(machine):
        decisions += 1
        state, waiting, best = machine.state, machine.queue.waiting, 0
        _scores(machine, target, mask, weights, scores)
        limit = float(guard)
        if extended:
            limit = max(limit, DAY * (target[3] / (1.0 - target[3]) + target[4] / (1.0 - target[4])))
        for place in range(state.waiting):
            if state.now - machine.log.submit[waiting[place]] <= limit:
                break
            machine.queue.rank[waiting[place]] = waiting[place] - machine.jobs  # backfilled first, too
        if machine.queue.rank[waiting[0]] >= 0:
            for slot in range(1, state.shown):
                if scores[slot] > scores[best]:
                    best = slot
        _choose(machine, best)
    return decisions


# --- a rollout -------------------------------------------------------------------------------------------

#: The learned numbers: logarithms of the factors of slowdown, area and response; the share of linear cost;
#: then, of the state when the last job of the window starts, in average jobs that wait so long: for its time,
#: the square of its time in days, running work left, the time until half of the machine is free; factors by
#: arrivals: the last hours' rate, the rate at this time of day; logarithm of the exponent of widths.
THETA = 13
WINDOW, MOVES, ORDERS, HEAD = 64, 60, 10, 8
START = np.array([0.0, 0.0, 0.0, -4.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])


@kernel()
def _score(order, submit, length, width, now):  # noqa: PLR0911
    """Return a job's score by an order of the portfolio of `gridtune.batch.policies.rollout`."""
    wait, long = float(now - submit), float(max(length, 1))
    if order == 0:
        return float(length) * width
    if order == 1:
        return float(length) / width
    if order == 2:
        return float(length)
    if order == 3:
        return float(submit)
    if order == 4:
        return math.log10(long) * width + 870.0 * math.log10(max(submit, 1))
    if order == 5:
        return length * math.sqrt(width) + 530000.0 * math.log10(max(submit, 1))
    if order == 6:
        return -width * (wait / long) ** 3
    if order == 7:
        return -wait / (max(math.log2(width), 1.0) * long)
    if order == 8:
        return -(wait + length) / long
    return -float(width)


@kernel()
def _sort(machine, order, jobs, count, now, guard, score, rows, learned):
    log = machine.log
    for row in range(count):
        job, rows[row] = jobs[row], row
        score[row] = (
            -learned[job]
            if order == ORDERS
            else _score(order, log.submit[job], log.walltime[job], log.processors[job], now)
        )
        if now - log.submit[job] > guard:
            score[row] = -1e300
    sort_rows(score, rows, count)


@kernel()
def _set_costs(machine, window, theta, now):
    slowdowns = areas = responses = 0.0
    state, log = window.state, machine.log
    for place in range(state.count):
        width, length = float(window.width[place]), float(window.length[place])
        age = float(now - log.submit[window.job[place]]) + length
        slowdowns += age / max(length, 60.0)
        areas += width * length * age
        responses += age
    mean, linear = responses / state.count, 1.0 / (1.0 + math.exp(-theta[3]))
    state.delay = 0.0
    for place in range(state.count):
        width, length = float(window.width[place]), float(window.length[place])
        age = float(now - log.submit[window.job[place]]) + length
        weight = math.exp(theta[0]) / max(length, 60.0) / slowdowns
        weight += math.exp(theta[1]) * width * length / areas + math.exp(theta[2]) / responses
        weight *= (width / machine.queue.settings.processors) ** theta[11]
        window.c0[place] = weight * ((1.0 - linear) * age * age + 2.0 * linear * mean * age)
        window.c1[place] = 2.0 * weight * ((1.0 - linear) * age + linear * mean)
        window.c2[place] = weight * (1.0 - linear)
        state.delay += window.c1[place] / state.count


@kernel()
def _value(window, machine, value, now, free, base, first, last):
    """Return the value of the state when the last job starts, in seconds of an average job's wait."""
    work, half = 0.0, 0.0
    size = machine.queue.settings.processors
    while base < window.state.ends or first < last:
        if first == last or (base < window.state.ends and window.end[base] <= window.started_end[first]):
            end, width = window.end[base], window.released[base]
            base += 1
        else:
            end, width = window.started_end[first], window.started_width[first]
            first += 1
        work += width * float(end - now)
        if free * 2 < size:
            free += width
            half = float(end - now)
    return value[0] * now + value[1] * now * (now / DAY) + value[2] * work / size + value[3] * half


@kernel()
def _cost_of(window, machine, value, order, limit):
    """As in `gridtune.batch.simulator.portfolio`, with a value of the last state."""
    queue, width, length = window.queue, window.width, window.length
    c0, c1, c2, rest0, rest1, rest2 = window.c0, window.c1, window.c2, 0.0, 0.0, 0.0
    count, free, now, cost = window.state.count, window.state.free, np.int64(0), 0.0
    head, base, first, last = 0, 0, 0, 0
    for rank in range(count):
        place = order[rank]
        queue[rank] = place
        rest0, rest1, rest2 = rest0 + c0[place], rest1 + c1[place], rest2 + c2[place]
    while True:
        while head < count and width[queue[head]] <= free:
            place = queue[head]
            free -= width[place]
            cost += _begin(window, place, now, first, last)
            rest0, rest1, rest2 = rest0 - c0[place], rest1 - c1[place], rest2 - c2[place]
            last, head = last + 1, head + 1
        if head == count:
            return cost + window.state.delay * _value(window, machine, value, now, free, base, first, last)
        shadow, spare = _reservation(window, width[queue[head]], free, now, base, first, last)
        while now < shadow:
            kept, narrowest = head + 1, np.int64(1) << 60
            for rank in range(head + 1, count):
                place = queue[rank]
                late = now + length[place] > shadow
                if width[place] > free or (late and width[place] > spare):
                    queue[kept], kept = place, kept + 1
                    narrowest = min(narrowest, width[place])
                    continue
                free -= width[place]
                spare -= width[place] if late else 0
                cost += _begin(window, place, now, first, last)
                rest0, rest1, rest2 = rest0 - c0[place], rest1 - c1[place], rest2 - c2[place]
                last += 1
            count = kept
            freed = np.int64(0)
            while now < shadow and (freed == 0 or narrowest > free):
                now, freed, base, first = _complete(window, base, first, last)
                free += freed
            if cost + (rest2 * now + rest1) * now + rest0 > limit:
                return math.inf


@kernel()
def _try(window, machine, value, order, bounded):
    limit = window.state.cost
    limit -= 1e-9 * abs(limit) if limit < math.inf else 0.0
    cost = _cost_of(window, machine, value, order, limit if bounded else math.inf)
    if cost >= limit:
        return False
    window.state.cost = cost
    for rank in range(window.state.count):
        window.best[rank] = order[rank]
    return True


@kernel()
def _improve(window, machine, value, bounded):
    first, count, moves = window.state.guarded, window.state.count, MOVES
    beyond, before = min(count, first + HEAD), math.inf
    while window.state.cost < before:
        before = window.state.cost
        for target in range(first, max(beyond - 1, first + 1)):
            for source in range(target + 1, count if target == beyond - 2 else beyond):
                goal = first if source >= beyond else target
                if moves == 0:
                    return
                moves -= 1
                for rank in range(count):
                    window.trial[rank] = window.best[rank]
                for rank in range(source, goal, -1):
                    window.trial[rank] = window.best[rank - 1]
                window.trial[goal] = window.best[source]
                _try(window, machine, value, window.trial, bounded)


@kernel()
def _plan(machine, window, theta, value, guard, room, orders):
    """Set the ranks of the waiting jobs to the best order found."""
    state, log, waiting = machine.state, machine.log, machine.queue.waiting
    score, rows, chosen, learned = room
    now, count, size = state.now, state.waiting, machine.queue.settings.processors
    read_requests(machine.running, log)
    note_running(window, machine.running, state.free, now)
    work = float(state.queued)
    for place in range(window.state.ends):
        work += float(window.released[place]) * float(window.end[place])
    guard = max(guard, np.int64(work / size))
    for row in range(count):
        chosen[row] = count <= WINDOW
    taken = 0
    for order in range(orders if count > WINDOW else 0):
        rank = 0
        _sort(machine, order, waiting, count, now, guard, score, rows, learned)
        while taken < (order + 1) * WINDOW // orders:
            taken += 0 if chosen[rows[rank]] else 1
            chosen[rows[rank]] = 1
            rank += 1
    place = guarded = 0
    for row in range(count):
        if chosen[row]:
            job = waiting[row]
            window.job[place], window.width[place] = job, log.processors[job]
            window.length[place] = max(log.walltime[job], 1)
            guarded += 1 if now - log.submit[job] > guard else 0
            place += 1
    window.state.count, window.state.guarded = place, guarded
    _set_costs(machine, window, theta, now)
    window.state.cost = math.inf
    bounded, best = min(value[0], value[1], value[2], value[3]) >= 0.0, 0
    for order in range(orders):
        _sort(machine, order, window.job, place, now, guard, score, rows, learned)
        different = order == 0
        for rank in range(place):
            window.trial[rank] = rows[rank]
            different |= window.trial[rank] != window.best[rank]
        if different and _try(window, machine, value, window.trial, bounded):
            best = order
    _improve(window, machine, value, bounded)
    for rank in range(place):
        machine.queue.rank[window.job[window.best[rank]]] = rank
    if place < count:
        _sort(machine, best, waiting, count, now, guard, score, rows, learned)
        for rank in range(count):
            if not chosen[rows[rank]]:
                machine.queue.rank[waiting[rows[rank]]] = place
                place += 1


@kernel()
def play_rollout(machines, state, columns, theta, guard, room, hourly, network):
    """Play a window under the rollout. `hourly` is scratch: arrivals of each hour of the day so far."""
    machine, window = machine_at(machines, 0), _Window(state[0], *columns)
    value = np.empty(4)
    planned, decisions, seen, recent, since = np.int64(-1), 0, 0, 0.0, np.int64(0)
    hourly[:] = 0.0
    _reset(machine)
    while _next_decision(machine):
        state, waiting, log = machine.state, machine.queue.waiting, machine.log
        now = state.now
        if now != planned:
            while seen < state.arrived:
                hourly[(log.submit[seen] // 3600) % 24] += 1.0
                recent = recent * math.exp(-(log.submit[seen] - since) / 10_800.0) + 1.0
                since, seen = log.submit[seen], seen + 1
            mean = seen / max(now / 10_800.0, 8.0)
            rate = min(recent * math.exp(-(now - since) / 10_800.0) / max(mean, 1e-9), 4.0) - 1.0
            soon = 0.0
            for hour in range(4):
                soon += hourly[(now // 3600 + hour) % 24]
            daily = (soon / max(seen / 6.0, 1.0) if now > 7 * DAY else 1.0) - 1.0
            factor = max(1.0 + theta[8] * rate + theta[9] * daily, 0.0)
            for place in range(4):
                value[place] = theta[4 + place] * factor
            decisions += 1
            planned = now
            if network.size > 0:
                _scores(machine, machines.observed[0], machines.mask[0], network, room[0])
                for slot in range(state.shown):
                    room[3][waiting[machine.queue.shown[slot]]] = room[0][slot]
            _plan(machine, window, theta, value, guard, room, ORDERS + (network.size > 0))
        best = 0
        for place in range(1, state.waiting):
            if machine.queue.rank[waiting[place]] < machine.queue.rank[waiting[best]]:
                best = place
        _choose(machine, best)
    return decisions


# --- the search ------------------------------------------------------------------------------------------


_NONE = np.empty(0)


class Player:
    """A log, replayed again and again under weights."""

    def __init__(self, kind: str, log: gt.Workload, network: np.ndarray = _NONE) -> None:
        self.kind, self.log, self.network, self.extended = kind, log, network, False
        # A rollout chooses among all that wait, and backfills in the order that it has planned.
        slots = 128 if kind == "network" else len(log)
        self.env = BatchVectorEnv(
            1, log, jobs=len(log), candidates=slots, predict=True, order="sjf", copy=False
        )
        self.env.begin(np.ones(1, np.bool_), np.zeros(1, np.int64))
        self.ranks = self.env._column(0, 1).copy()
        self.width = row_width(self.env._machines.settings.flags)
        jobs, running = len(log), self.env._machines.settings.room
        empty = _empty_window(min(WINDOW, jobs), running)
        self.window = empty.state.reshape(1), tuple(empty)[1:]
        self.room = (np.empty(jobs), np.empty(jobs, np.int64), np.empty(jobs, np.int8), np.empty(jobs))
        self.hourly = np.zeros(24)

    def play(self, weights: np.ndarray, guard: int = GUARD) -> None:
        """Replay the log, and count the decisions."""
        machines = self.env._machines
        self.env._column(0, 1)[:] = self.ranks
        if self.kind == "network":
            self.decisions = int(play_network(machines, weights, guard, self.extended, self.room[0]))
        else:
            scratch = self.room, self.hourly, self.network
            self.decisions = int(play_rollout(machines, *self.window, weights, guard, *scratch))

    def schedule(self, weights: np.ndarray, guard: int = GUARD) -> gt.Schedule:
        """Replay the log; return the schedule."""
        self.play(weights, guard)
        return self.env.schedule()

    def cost(self, weights: np.ndarray) -> float:
        """Return ln `delay_index`."""
        self.play(weights)
        log, columns = self.log, self.env._machines.columns
        wait = self.env._column(0, 0) - columns.submit
        run, area = columns.run, columns.run * log.processors
        slowdown = np.maximum((wait + run) / np.maximum(run, 10), 1).mean()
        return float(np.log(slowdown * ((wait + run) * area).sum() / area.sum() * wait.mean())) / 3


class Search:
    """CMA-ES with a full covariance matrix (Hansen 2016, arXiv:1604.00772)."""

    def __init__(self, mean: np.ndarray, sigma: float, population: int, seed: int) -> None:
        self.mean, self.sigma, self.rng = mean.copy(), sigma, np.random.default_rng(seed)
        n, self.population = len(mean), population
        raw = math.log(population / 2 + 0.5) - np.log(np.arange(1, population // 2 + 1))
        self.weights = raw / raw.sum()
        mu = self.mu = 1 / (self.weights**2).sum()
        self.c_path = (4 + mu / n) / (n + 4 + 2 * mu / n)
        self.c_sigma = (mu + 2) / (n + mu + 5)
        self.c_one = 2 / ((n + 1.3) ** 2 + mu)
        self.c_mu = min(1 - self.c_one, 2 * (mu - 2 + 1 / mu) / ((n + 2) ** 2 + mu))
        self.damping = 1 + 2 * max(0, math.sqrt((mu - 1) / (n + 1)) - 1) + self.c_sigma
        self.expected = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
        self.path, self.path_sigma, self.covariance = np.zeros(n), np.zeros(n), np.eye(n)
        self.generation = 0

    def ask(self) -> np.ndarray:
        """Return candidates, shape (population, n)."""
        if self.generation % 5 == 0:
            values, self.basis = np.linalg.eigh(self.covariance)
            self.scale = np.sqrt(np.maximum(values, 1e-12))
        drawn = self.rng.standard_normal((self.population, len(self.mean)))
        self.steps = drawn * self.scale @ self.basis.T
        return self.mean + self.sigma * self.steps

    def tell(self, costs: np.ndarray) -> None:
        """Take their costs."""
        best = self.steps[np.argsort(costs, kind="stable")[: len(self.weights)]]
        step = self.weights @ best
        self.mean = self.mean + self.sigma * step
        white = self.basis @ ((self.basis.T @ step) / self.scale)
        self.path_sigma = (1 - self.c_sigma) * self.path_sigma + math.sqrt(
            self.c_sigma * (2 - self.c_sigma) * self.mu
        ) * white
        self.generation += 1
        norm = np.linalg.norm(self.path_sigma)
        steady = (
            norm / math.sqrt(1 - (1 - self.c_sigma) ** (2 * self.generation))
            < (1.4 + 2 / (len(self.mean) + 1)) * self.expected
        )
        self.path = (1 - self.c_path) * self.path + steady * math.sqrt(
            self.c_path * (2 - self.c_path) * self.mu
        ) * step
        self.covariance = (
            (1 - self.c_one - self.c_mu) * self.covariance
            + self.c_one * np.outer(self.path, self.path)
            + self.c_mu * (best.T * self.weights) @ best
        )
        self.sigma *= math.exp(self.c_sigma / self.damping * (norm / self.expected - 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kind", choices=("network", "rollout"))
    parser.add_argument("--log", nargs="+", default=["kth-sp2:1/2"], help="logs, with a part")
    parser.add_argument("--out", type=Path, required=True, help="file of the weights")
    parser.add_argument("--generations", type=int, default=300)
    parser.add_argument("--population", type=int, default=24)
    parser.add_argument("--sigma", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--network", type=Path, help="with rollout: one more order, a network of benchmarks/networks"
    )
    parser.add_argument("--draws", type=int, default=3, help="versions of each log in a generation")
    parser.add_argument("--every", type=int, default=10, help="generations between evaluations")
    parser.add_argument("--seconds", type=float, default=math.inf, help="CPU seconds")
    options = parser.parse_args()
    network = _NONE if options.network is None else np.loadtxt(options.network)
    learned, held_out, rng = [], [], np.random.default_rng([options.seed, 1])
    for text in options.log:
        _, log = log_of(text)
        cut = round(0.7 * len(log))
        begins = rng.integers(cut // 5, size=VERSIONS)
        loads = np.exp(rng.uniform(math.log(0.85), math.log(1.2), VERSIONS))
        learned.append(
            [
                Player(options.kind, log.take(slice(begin, cut)).scale_load(load), network)
                for begin, load in zip(begins.tolist(), loads.tolist(), strict=True)
            ]
        )
        held_out += [
            Player(options.kind, log.take(slice(cut, None)).scale_load(load), network) for load in LOADS
        ]
    if options.kind == "rollout":
        start = START
    else:
        width = held_out[0].width
        start = np.zeros(network_size(width))
        start[-(width - 1) + 1] = -3.0  # the shortest walltime first
        hidden = np.random.default_rng(options.seed).standard_normal(HIDDEN * (OF_STATE + width))
        start[: len(hidden)] = 0.5 * hidden
    search = Search(start, options.sigma, options.population, options.seed)
    base = {one: one.cost(start) for versions in learned for one in versions}
    first = [one.cost(start) for one in held_out]
    best, decisions, began, curve, mine = math.inf, 0, time.process_time(), [], 0.0
    for generation in range(options.generations + 1):
        seconds = time.process_time() - began
        last = generation == options.generations or seconds > options.seconds
        if generation % options.every == 0 or last:
            costs = [one.cost(search.mean) for one in held_out]
            held = float(np.mean(costs) - np.mean(first))
            curve.append((generation, decisions, mine, held))
            line = f"{generation}: {decisions:,} decisions, {seconds:.0f} s, ln J to the first policy "
            line += f"{mine:+.3f}, held out {held:+.3f} ({math.exp(costs[1]):,.0f} at the log's load)"
            print(f"{line}, step {search.sigma:.3f}", flush=True)
            if held < best:
                best = held
                found = {"weights": search.mean, "network": network, "curve": np.array(curve)}
                np.savez(options.out, kind=options.kind, **found)
        if last:
            break
        drawn = [some[i] for some in learned for i in rng.permutation(VERSIONS)[: options.draws]]
        costs = []
        for weights in search.ask():
            costs.append(np.mean([one.cost(weights) - base[one] for one in drawn]))
            decisions += sum(one.decisions for one in drawn)
        search.tell(np.array(costs))
        mine = float(np.mean(costs))


if __name__ == "__main__":
    main()
