"""`gridtune help`, and the glossary that it reads from."""

from __future__ import annotations

from collections import Counter

import pytest

from gridtune.cli.help import _glossary


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        (["sweep"], "Usage: gridtune sweep"),
        (["traces", "import"], "Usage: gridtune traces import"),
        (["easy"], "Backfilling with one reservation"),
        (["IQM"], "the middle half of the replicates"),
        (["sign-flip", "test"], "the other sign"),
        (["permutation test"], "Sign-flip test"),
        (["f3"], "Carastan-Santos"),
        (["energy_total"], "a metric of shutdown, in"),
    ],
)
def test_a_topic_is_explained(gridtune, topic: list[str], words: str) -> None:
    code, out, err = gridtune("help", *topic)
    assert (code, err) == (0, "")
    assert words in out


def test_without_a_topic_it_lists_commands_and_words(gridtune) -> None:
    code, out, _ = gridtune("help")
    assert code == 0
    for word in ("simulate", "Shadow time", "Pareto front"):
        assert word in " ".join(out.split())


def test_a_misspelt_topic_is_guessed(gridtune) -> None:
    code, out, err = gridtune("help", "shadow tame")
    assert (code, out) == (2, "")
    assert "did you mean 'shadow time'" in err


def test_no_word_has_two_entries() -> None:
    words = Counter(word for entry in _glossary() for word in entry.words)
    assert [word for word, count in words.items() if count > 1] == []
    assert len(_glossary()) > 50
