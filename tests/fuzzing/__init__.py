"""Fuzzing: mutated inputs for every reader, of which nothing but a `GridtuneError` may come.

`scripts/fuzz` runs it for as long as wanted; `test_fuzzing.py` runs a little of it.
"""
