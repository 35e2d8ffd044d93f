"""A plug-in of gridtune: a multi-server queue, a metric, a queue order and a trace format."""
