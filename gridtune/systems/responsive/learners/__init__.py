"""Learners of candidate values for the responsive site: echo state networks, and a feed-forward comparator.

What a caller needs (none of it imports Ray; torch only where the regressor is `ffnn`):

- `settings.LearnerSettings`, `settings.PAPER`, `settings.IMPROVED`: every parameter, by name.
- `training.train(jobs, model, settings, weight=λ, rng=generator) -> QPolicy`: learn on some jobs of a site.
- `playing.play(policy, jobs, model) -> Site`: live through jobs by a policy, greedily; the site that comes
  back is at its end, as after a replay by a rule.
- `policy.QPolicy`, with `save(path)` and `load_policy(path)`.

Here `jobs` is a `gridtune.systems.responsive.simulator.jobs.SiteJobs` and `model` a
`gridtune.systems.responsive.simulator.site.SiteModel`.
"""

from __future__ import annotations
