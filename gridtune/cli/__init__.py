"""The command line: `gridtune` and its commands."""
