"""What the tests of commands share."""

from __future__ import annotations

import pytest

from gridtune.cli.main import main


@pytest.fixture
def gridtune(capsys: pytest.CaptureFixture[str]):
    """Run the command line here; give exit code, standard output and standard error."""

    def call(*args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(args))
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call
