"""`python -m gridtune`: the command line where the console script is not on the PATH, as in cluster jobs."""

from __future__ import annotations

from gridtune.cli.main import main

if __name__ == "__main__":
    main()
