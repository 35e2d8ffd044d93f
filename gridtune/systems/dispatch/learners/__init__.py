"""Agents that dispatch: how they are trained and how they play."""
