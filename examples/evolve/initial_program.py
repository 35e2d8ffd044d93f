"""A program to start from: jobs that wait long for their length first. Edit between the marks."""

# ruff: noqa: ANN001, ANN201

import gridtune as gt


# EVOLVE-BLOCK-START
@gt.queue_order("evolved")
def evolved(job):
    """Return a job's score: the smallest goes first."""
    return -(job.wait + 600) / job.walltime


# EVOLVE-BLOCK-END
