"""Training and playing of agents that dispatch."""
