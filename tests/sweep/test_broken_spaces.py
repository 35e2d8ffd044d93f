"""A corpus of search spaces with one fault each: the whole message of each refusal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gridtune.errors import GridtuneError
from gridtune.sweep.run import space_cells

FOLDER = Path(__file__).parent / "broken_spaces"
#: Name of a space to what is said of it. "…" is any text: what depends on the machine.
MESSAGES = {
    name: message.strip()
    for name, message in re.findall(
        r"^\[(\w+)\]\n((?:(?!^\[).*\n)+)", (FOLDER / "messages.txt").read_text(), re.MULTILINE
    )
}


def test_every_space_has_its_message() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(MESSAGES)
    assert len(MESSAGES) >= 75


@pytest.mark.parametrize("name", MESSAGES)
def test_a_broken_space_is_refused_in_these_words(name: str) -> None:
    with pytest.raises(GridtuneError) as caught:
        space_cells(FOLDER / f"{name}.yaml")
    message = str(caught.value).replace(f"{FOLDER}/", "")
    pattern = re.escape(MESSAGES[name]).replace("…", ".*")
    assert re.fullmatch(pattern, message, re.DOTALL), message
