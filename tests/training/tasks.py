"""Small tasks whose best policies are known, as Gymnasium vector environments with next-step autoreset."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from gymnasium.vector import AutoresetMode, VectorEnv


class RecallTask(VectorEnv):
    """A cue is shown at an episode's first step; naming it earns 1 at each step, anything else nothing.

    Parameters
    ----------
    count
        How many episodes run side by side.
    lengths
        Steps of the episodes: environment i takes `lengths[i % len(lengths)]`.
    shown
        Whether the cue stays visible, so that no memory is needed.
    cut
        Whether episodes are truncated, instead of terminating.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 (Gymnasium's own)

    def __init__(self, count: int, *, lengths=(12,), shown=False, cut=False, cues=2) -> None:
        self.num_envs, self.cues, self.shown, self.cut = count, cues, shown, cut
        self.lengths = np.array([lengths[i % len(lengths)] for i in range(count)])
        self.single_observation_space = Box(0.0, 1.0, (cues + 1,), np.float32)
        self.single_action_space = Discrete(cues)
        self.observation_space = Box(0.0, 1.0, (count, cues + 1), np.float32)
        self.action_space = MultiDiscrete([cues] * count)

    def reset(self, *, seed=None, options=None):
        self.random = np.random.default_rng(seed)
        self.ended = np.ones(self.num_envs, bool)
        self.cue, self.clock = np.zeros(self.num_envs, int), np.zeros(self.num_envs, int)
        self._begin()
        self.ended = np.zeros(self.num_envs, bool)
        return self._seen(), {}

    def step(self, actions):
        resets = self.ended
        rewards = np.where(resets, 0.0, actions == self.cue)
        self.clock += ~resets
        self._begin()
        self.ended = ~resets & (self.clock >= self.lengths)
        none = np.zeros(self.num_envs, bool)
        terminated, truncated = (none, self.ended.copy()) if self.cut else (self.ended.copy(), none)
        return self._seen(), rewards, terminated, truncated, {}

    def _begin(self):
        self.cue = np.where(self.ended, self.random.integers(0, self.cues, self.num_envs), self.cue)
        self.clock[self.ended] = 0

    def _seen(self):
        seen = np.zeros((self.num_envs, self.cues + 1), np.float32)
        showing = (self.clock == 0) | self.shown
        seen[np.arange(self.num_envs)[showing], self.cue[showing]] = 1.0
        seen[:, -1] = self.clock / self.lengths
        return seen
