"""A policy whose queue is sorted by a model of scikit-learn, which is fitted during the replay."""

# ruff: noqa: ANN001, ANN201

import numpy as np
from sklearn.tree import DecisionTreeRegressor

import gridtune as gt


def features(jobs):
    """Return what the model sees of jobs, a row each."""
    return np.column_stack([jobs.walltime, jobs.processors, jobs.user])


@gt.queue_order("fitted")
class Fitted(gt.Policy):
    """The shortest job first, by a tree that is fitted to the jobs that have ended."""

    model, size = None, 0

    def decide(self, state):
        """Sort the queue by predicted run times; fit again once twice as many jobs have ended."""
        jobs = state.waiting
        if len(state.ended) >= 2 * self.size + 50:
            self.size = len(state.ended)
            self.model = DecisionTreeRegressor(max_depth=8, random_state=0)
            self.model.fit(features(state.ended), state.ended.run_time)
        length = jobs.walltime if self.model is None else self.model.predict(features(jobs))
        return state.easy(np.argsort(length, kind="stable"))
