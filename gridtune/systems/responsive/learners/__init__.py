"""Learners of candidate values for the responsive site: echo state networks, and a feed-forward comparator.

The entry points (none imports Ray; torch is imported only for the regressor `ffnn`):

- `settings.LearnerSettings`, `settings.PAPER`: all settings, by name.
- `training.train(jobs, model, settings, weight=λ, rng=generator) -> QPolicy`: learn on the jobs of a site.
- `training.play(policy, jobs, model) -> GridSite`: simulate jobs under a policy; returns the site at its end.
- `training.QPolicy`, with `save(path)` and `training.load_policy(path)`.

Here `jobs` is a `gridtune.systems.responsive.simulator.site.SiteJobs` and `model` a
`gridtune.systems.responsive.simulator.site.SiteModel`.
"""

from __future__ import annotations
