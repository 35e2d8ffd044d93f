"""Adaptive strategies: what is proposed next, who stops early, and Tune that runs it.

`proposals` wraps Optuna, `schedulers` Tune's schedulers; `lockstep` puts both into an order of events that
depends on no clock, so that a search has the same configurations with any number of workers.
"""
