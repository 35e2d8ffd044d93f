"""Living through jobs and noting what there is to learn from: samples, as learners take them.

A sampler lives sweeps: sweep 0 under a simple rule, before there is anything to decide by, the later ones by
the values it is given. Its random numbers depend on the seed, the sweep and the sampler's own number alone,
so that a training that goes on from a sweep's end goes on as if it had never stopped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gridtune.systems.responsive.learners.arrays import Floats, ReservoirArrays
from gridtune.systems.responsive.learners.branching import live_and_branch, live_and_weigh
from gridtune.systems.responsive.learners.inputs import as_seen, new_diary, new_mind
from gridtune.systems.responsive.learners.loop import BY_VALUE, Mind, list_candidates, live, rewards_of
from gridtune.systems.responsive.learners.settings import LearnerSettings
from gridtune.systems.responsive.simulator.accounts import pool_area, utilisation_now
from gridtune.systems.responsive.simulator.jobs import SiteJobs
from gridtune.systems.responsive.simulator.rules import EDF
from gridtune.systems.responsive.simulator.site import SiteModel, new_site
from gridtune.systems.responsive.simulator.state import DECIDED, DONE, NEVER, Site

__all__ = ["Branches", "RunSamples", "Sampler", "Samples", "SarsaSamples"]

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SarsaSamples:
    """Decisions whose rewards have become known, in the order in which they were taken.

    Attributes
    ----------
    begins
        Whether a new sweep begins with them.
    rows, following_rows
        Shape (n, d): the chosen candidate, and that of the next decision.
    seen, following
        Shape (n, m, p): what the readouts saw of the two.
    last
        Shape (n,): no decision follows; its `following` are zeros.
    reward
        Shape (n,).
    """

    begins: bool
    rows: Floats
    following_rows: Floats
    seen: Floats
    following: Floats
    last: npt.NDArray[np.bool_]
    reward: Floats

    def __len__(self) -> int:
        return len(self.reward)


@dataclass(frozen=True)
class RunSamples:
    """A whole run: what was chosen among what, decision by decision.

    Attributes
    ----------
    rows
        Shape (n, d): the chosen candidates.
    seen
        Shape (n, m, p): what the readouts saw of them.
    reward
        Shape (n,).
    first
        Shape (n + 1,), int64: the candidates of decision i stand in `own` from first[i] up to first[i + 1].
    own
        Shape (c, d − s), float32: of each candidate the inputs that it does not share with the others, in
        the order of `ReservoirArrays.columns`.
    """

    rows: Floats
    seen: Floats
    reward: Floats
    first: Int64s
    own: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.reward)


@dataclass(frozen=True)
class Branches:
    """What several candidates of the same decisions came to.

    Attributes
    ----------
    first
        Shape (c + 1,), int64: the branches of decision i stand from first[i] up to first[i + 1].
    seen
        Shape (b, m, p): what the readouts saw of them.
    value
        Shape (b,): what they came to, in jobs' rewards; of sweep 0 how urgent they were.
    """

    first: Int64s
    seen: Floats
    value: Floats

    def __len__(self) -> int:
        return len(self.value)


Samples = SarsaSamples | RunSamples | Branches


class Sampler:
    """Lives through the same jobs again and again.

    Parameters
    ----------
    jobs, model
        What there is to do, and where.
    settings
        What to note.
    weight
        λ of the reward.
    seed
        Of all random numbers.
    number
        Which of several samplers this is: each draws other numbers.
    """

    def __init__(
        self,
        jobs: SiteJobs,
        model: SiteModel,
        settings: LearnerSettings,
        weight: float,
        seed: int,
        number: int = 0,
    ) -> None:
        self._jobs, self._model = jobs, as_seen(model, settings.inputs)
        self._settings, self._weight = settings, weight
        self._seed, self._number = seed, number
        self._over = True

    @property
    def over(self) -> bool:
        """Whether the sweep has ended."""
        return self._over

    def begin(self, sweep: int, arrays: ReservoirArrays) -> None:
        """Begin a sweep."""
        self._sweep, self._rule = sweep, EDF if sweep == 0 else BY_VALUE
        self._epsilon = 0.0 if sweep == 0 else self._settings.epsilon
        self._rng = np.random.default_rng((self._seed, sweep, self._number))
        self._site, self._mind = self._new(arrays)
        self._diary = new_diary(len(self._jobs), arrays)
        self._pending, self._known = np.zeros(0, np.int64), 0
        self._over, self._begins = False, True

    def sample(self, arrays: ReservoirArrays) -> Samples:
        """Live on by these values; return what there is to learn from.

        SARSA: for `relearn` decisions, or in sweep 0 to the end. Otherwise to the end of the sweep.
        """
        self._mind = self._mind._replace(arrays=arrays)
        if self._settings.method == "counterfactual":
            return self._weigh() if self._sweep == 0 else self._branch()
        if self._settings.method == "fitted_q":
            self._live(len(self._jobs))
            return self._run()
        decided = int(self._site.state.memory[DECIDED])
        self._live(len(self._jobs) if self._sweep == 0 else decided + self._settings.relearn)
        return self._known_by_now()

    def _new(self, arrays: ReservoirArrays) -> tuple[Site, Mind]:
        mind = new_mind(arrays, len(self._jobs.shares), self._settings.inputs)
        return new_site(self._jobs, self._model), mind

    def _live(self, stop: int) -> None:
        more = live(self._site, self._mind, self._diary, self._rule, self._epsilon, stop, NEVER, self._rng)
        # The last decision is taken before the last jobs complete.
        if more and self._site.state.memory[DECIDED] == len(self._jobs):
            live(self._site, self._mind, self._diary, self._rule, 0.0, stop + 1, NEVER, self._rng)
            more = False
        self._over = not more

    def _rewards(self, decisions: Int64s) -> Floats:
        rewards = np.empty(len(decisions))
        rewards_of(self._site, decisions, self._weight, rewards)
        return rewards

    def _known_by_now(self) -> SarsaSamples:
        """Return the decisions whose job is done and that another decision follows, in decision order."""
        state, decisions = self._site.state, len(self._jobs)
        done = int(state.memory[DONE])
        waiting = np.concatenate([self._pending, state.completed[self._known : done]])
        self._known = done
        followed = waiting + 1 < state.memory[DECIDED]
        ready = followed | self._over
        self._pending, known = waiting[~ready], np.sort(waiting[ready])
        last = known == decisions - 1
        after = np.where(last, known, known + 1)
        following, following_rows = self._diary.seen[after], self._diary.rows[after]
        following[last] = 0.0
        following_rows[last] = 0.0
        begins, self._begins = self._begins, False
        return SarsaSamples(
            begins,
            self._diary.rows[known],
            following_rows,
            self._diary.seen[known],
            following,
            last,
            self._rewards(known),
        )

    def _run(self) -> RunSamples:
        decisions = np.arange(len(self._jobs))
        first = np.zeros(len(decisions) + 1, np.int64)
        own = list_candidates(*self._new(self._mind.arrays), self._diary.candidate, first)
        return RunSamples(self._diary.rows, self._diary.seen, self._rewards(decisions), first, own)

    def _weigh(self) -> Branches:
        arrays, branches, jobs = self._mind.arrays, self._settings.branches, len(self._jobs)
        first, room = np.zeros(jobs + 1, np.int64), jobs * branches
        asked = np.zeros(room, np.int64)
        out = (first, np.zeros((room, *arrays.readout.shape)), np.zeros(room), asked)
        live_and_weigh(self._site, self._mind, self._rule, branches, self._weight, self._rng, out)
        self._over = True
        noted = int(first[-1])
        value = out[2][:noted]
        if self._model.elastic:
            value = value + self._pool_values(np.repeat(np.arange(jobs), np.diff(first)), asked[:noted])
        return Branches(first, out[1][:noted], value)

    def _pool_values(self, decision: Int64s, asked: Int64s) -> Floats:
        """Return what pools turned out to be worth while they could not be changed, the newsvendor's way.

        A core too few makes a job wait for about the period, which costs λ times what W falls by then; a
        core too many costs its core-seconds. How many there should have been is known in hindsight: the
        most jobs that were there at once.
        """
        jobs, state, period = self._jobs, self._site.state, self._model.period
        now = state.time[decision]
        submits, ends = np.sort(jobs.submit), np.sort(state.start + jobs.run)
        present = np.arange(1, len(jobs) + 1) - np.searchsorted(ends, submits, side="right")
        there = np.searchsorted(submits, now, "right") - np.searchsorted(ends, now, "right")
        needed = np.array(
            [
                max(int(here), int(present[i:j].max(initial=0)))
                for here, i, j in zip(
                    there,
                    np.searchsorted(submits, now, "right"),
                    np.searchsorted(submits, now + period, "right"),
                    strict=True,
                )
            ]
        )
        few = self._weight * float(np.mean(period / (jobs.run + period)))
        used, area = utilisation_now(self._site), pool_area(self._site)
        many = (1 - self._weight) * used * len(jobs) / max(area, 1) * period
        lacking, idle = np.maximum(needed - asked, 0), np.maximum(asked - needed, 0)
        return -(few * lacking + many * idle) / self._model.cores

    def _branch(self) -> Branches:
        arrays, settings = self._mind.arrays, self._settings
        chosen, price = self._looked_ahead(arrays)
        number = min(settings.probes, len(chosen))
        probes = np.sort(self._rng.choice(chosen, number, replace=False)) if number else chosen
        room = number * settings.branches
        first = np.zeros(number + 1, np.int64)
        out = (first, np.zeros((room, *arrays.readout.shape)), np.zeros(room))
        live_and_branch(
            self._site,
            self._mind,
            *self._new(arrays),
            new_diary(0, arrays),
            self._rule,
            self._epsilon,
            probes,
            settings.branches,
            int(settings.horizon),
            self._weight,
            price,
            self._rng,
            out,
        )
        self._over = True
        return Branches(first, out[1][: first[-1]].copy(), out[2][: first[-1]].copy())

    def _looked_ahead(self, arrays: ReservoirArrays) -> tuple[Int64s, float]:
        """Live once by the same values; return decisions with a choice, and what a core-second costs.

        A core-second more at any moment of an elastic site's life lowers U of the decisions after it, of n
        in all together by about n · U/core-seconds, and (1 − λ) U is what counts of it.
        """
        (site, mind), jobs = self._new(arrays), len(self._jobs)
        diary = new_diary(jobs, arrays)
        live(site, mind, diary, self._rule, 0.0, NEVER, NEVER, self._rng)
        chosen = np.flatnonzero(diary.choices > 1)
        if not self._model.elastic:
            return chosen, 0.0
        price = (1 - self._weight) * jobs * utilisation_now(site) / max(pool_area(site), 1)
        return chosen, float(price)
