"""A publication's experiments run again: our numbers beside the published ones, and a verdict per claim."""
