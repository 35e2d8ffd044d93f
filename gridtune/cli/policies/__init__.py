"""Commands about the policies of job logs: `choose` and `score`."""
