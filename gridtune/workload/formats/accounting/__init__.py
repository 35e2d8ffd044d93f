"""Records of resource managers: their rows, the values in them, and the jobs that they make."""
