"""The parameters that systems share: what the command line may write, and the log that they refer to."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from gridtune.core.system import Count, LogParameters, Partition, Window
from gridtune.workload import DEFAULT_RULES


@pytest.mark.parametrize(
    ("clean", "rules"),
    [
        ("default", DEFAULT_RULES),
        ("none", ()),
        ("", ()),
        ("none, drop_wider", ("drop_wider",)),
        ("drop_wider,default", ("drop_wider", *DEFAULT_RULES)),
        (["default", "sort_submits", "drop_wider"], (*DEFAULT_RULES, "drop_wider")),
    ],
)
def test_cleaning_rules(clean: object, rules: tuple[str, ...]) -> None:
    assert LogParameters(trace="kth-sp2", clean=clean).rules == rules


@pytest.mark.parametrize(
    ("clean", "text"),
    [
        ("default", "kth-sp2"),
        ("none", "kth-sp2"),
        ("", "kth-sp2"),
        ("none,drop_wider", "kth-sp2?clean=drop_wider"),
        ("default,drop_wider", f"kth-sp2?clean={','.join(DEFAULT_RULES)},drop_wider"),
    ],
)
def test_the_reference_holds_rules_that_are_named(clean: str, text: str) -> None:
    assert str(LogParameters(trace="kth-sp2", clean=clean).reference) == text


@pytest.mark.parametrize("text", ["1/1", "3/10", "10/10"])
def test_windows(text: str) -> None:
    assert TypeAdapter(Window).validate_python(text) == text


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "-1/3", "1/3/5", ""])
def test_what_is_no_window(text: str) -> None:
    with pytest.raises(ValidationError, match="must be `i/n`"):
        TypeAdapter(Window).validate_python(text)


def test_partitions_are_numbers_or_names() -> None:
    partition = TypeAdapter(Partition)
    assert [partition.validate_python(value) for value in ("12", 12, "rl.ac.uk")] == [12, 12, "rl.ac.uk"]


def test_counts_start_at_one() -> None:
    assert TypeAdapter(Count).validate_python(1) == 1
    with pytest.raises(ValidationError):
        TypeAdapter(Count).validate_python(0)
    assert LogParameters(trace="x").first is None
