"""Search spaces: what they may say, and that every fault is told with its line and the word meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridtune.errors import SpaceError
from gridtune.sweep.run import space_cells
from gridtune.sweep.space.documents import read_yaml
from gridtune.sweep.space.plan import load_space, plan_space
from gridtune.sweep.space.schema import SearchSpace, parse_space, read_space
from tests.sweep.spaces import TOY

SOUND = f"""\
name: sound
system: toy
plugins: [{TOY}]
fixed:
  nap: 0.0
dimensions:
  x: {{uniform: [0, 6]}}
  word: [a, b]
  depth:
    integer: [1, 3]
    when: {{word: b}}
  rate: {{loguniform: [1e-3, 1]}}
replicates: {{seeds: 3}}
objective: loss
baseline: {{word: a, x: 1, rate: 0.1}}
strategy:
  random: {{samples: 4, seed: 1}}
"""


def test_a_sound_space_says_what_it_says() -> None:
    space = plan_space(parse_space(SOUND)).space
    assert space.dimensions["x"].uniform == (0, 6)
    assert space.dimensions["word"].grid == ("a", "b")
    assert space.dimensions["rate"].loguniform == (0.001, 1)
    assert space.objective[0].metric == "loss"
    assert space.strategy.kind == "random"
    assert space.replicates.seeds == 3


def changed(old: str, new: str) -> str:
    assert old in SOUND
    return SOUND.replace(old, new)


# What is put into the sound space, the line and key the error names, and words it says.
FAULTS = {
    "misspelt key": (changed("dimensions:", "dimension:"), 6, "dimension", "did you mean 'dimensions'?"),
    "misspelt key inside": (changed("{seeds: 3}", "{seed: 3}"), 13, "replicates.seed", "'seeds'"),
    "misspelt kind": (changed("integer:", "integr:"), 10, "dimensions.depth.integr", "'integer'"),
    "missing key": (changed("objective: loss\n", ""), 1, "objective", "is missing"),
    "wrong type": (changed("{seeds: 3}", "{seeds: many}"), 13, "replicates.seeds", "'many'"),
    "two kinds": (
        changed("{uniform: [0, 6]}", "{uniform: [0, 6], choice: [1]}"),
        7,
        "dimensions.x",
        "exactly",
    ),
    "one value": (changed("word: [a, b]", "word: a"), 8, "dimensions.word", "under `fixed`"),
    "no value": (changed("word: [a, b]", "word: []"), 8, "dimensions.word.grid", "at least 1 value"),
    "value twice": (changed("[a, b]", "[a, a]"), 8, "dimensions.word.grid", "twice"),
    "reversed range": (changed("[0, 6]", "[6, 0]"), 7, "dimensions.x.uniform", "`low < high`"),
    "logarithm of zero": (
        changed("[1e-3, 1]", "[0, 1]"),
        12,
        "dimensions.rate.loguniform.0",
        "greater than 0",
    ),
    "unknown system": (changed("system: toy", "system: toi"), 2, "system", "did you mean 'toy'?"),
    "unknown parameter": (changed("  word: [a, b]", "  wrd: [a, b]"), 8, "dimensions.wrd", "'word'"),
    "unknown fixed parameter": (changed("nap: 0.0", "nab: 0.0"), 5, "fixed.nab", "did you mean 'nap'?"),
    "renamed parameter": (
        changed("nap: 0.0", "sleep_time: 0"),
        5,
        "fixed.sleep_time",
        "it is called nap now",
    ),
    "parameter set twice": (changed("nap: 0.0", "x: 0.0"), 7, "dimensions.x", "set in `fixed` already"),
    "refused value": (changed("nap: 0.0", "nap: long"), 5, "fixed.nap", "got 'long'"),
    "refused listed value": (changed("[a, b]", "[a, b, 7]"), 8, "dimensions.word.2", "got 7"),
    "unknown metric": (changed("objective: loss", "objective: los"), 14, "objective.0.metric", "'loss'"),
    "metric without direction": (
        changed("objective: loss", "objective: size"),
        14,
        "objective.0",
        "direction",
    ),
    "condition on nothing": (changed("{word: b}", "{wort: b}"), 11, "dimensions.depth.when.wort", "'word'"),
    "condition never met": (changed("{word: b}", "{word: c}"), 11, "dimensions.depth.when.word", "never"),
    "unknown baseline": (changed("baseline: {word", "baseline: {wort"), 15, "baseline.wort", "'word'"),
    "unknown strategy": (changed("  random:", "  randm:"), 17, "strategy.randm", "did you mean 'random'?"),
    "key twice": (changed("objective: loss", "objective: loss\nname: again"), 15, "name", "twice"),
    "bad name": (changed("name: sound", "name: a/b"), 1, "name", "a/b"),
    "no YAML": (changed("[a, b]", "[a, b"), 9, None, "not YAML"),
}


BATCH = """\
name: faulty
fixed: {trace: quickstart}
dimensions:
  order: [fcfs, sjf]
  backfill:
    - none
    - easy
  walltime: [log, exact]
replicates: {seeds: 1}
objective: wait_mean
baseline: {order: fcfs, backfill: easy}
"""

# What is put into it, the line and key the error names, and its words.
BATCH_FAULTS = {
    "value that hides the baseline": ("    - easy", "    - esy", 7, "dimensions.backfill.1", "'easy'"),
    "value refused in a whole": ("    - none", "    - nonne", 6, "dimensions.backfill.0", "'none'"),
    "bare no": ("[fcfs, sjf]", "[fcfs, no]", 4, "dimensions.order.1", "a bare `no` as false: quote it"),
    "bare yes": ("[log, exact]", "[log, yes]", 8, "dimensions.walltime.1", "a bare `yes` as true: quote it"),
    "misspelt choice": ("[log, exact]", "[log, exat]", 8, "dimensions.walltime.1", "did you mean 'exact'?"),
    "swapped letters": ("[fcfs, sjf]", "[fcfs, sfj]", 4, "dimensions.order.1", "did you mean 'sjf'?"),
    "name read as false": ("name: faulty", "name: no", 1, "name", "a bare `no` as false: quote it"),
}


@pytest.mark.parametrize("what", BATCH_FAULTS)
def test_a_value_is_told_at_its_own_place(what: str, tmp_path: Path) -> None:
    old, new, line, key, words = BATCH_FAULTS[what]
    path = tmp_path / "space.yaml"
    path.write_text(BATCH.replace(old, new))
    with pytest.raises(SpaceError) as caught:
        space_cells(path)
    assert (caught.value.line, caught.value.field) == (line, key), str(caught.value)
    assert words in str(caught.value)


def test_values_that_do_not_go_together_are_told_as_such() -> None:
    space = {
        "name": "mixed",
        "fixed": {"trace": "quickstart"},
        "dimensions": {"walltime": ["log", "noise"], "noise": [0.0, 0.5]},
        "objective": "wait_mean",
    }
    with pytest.raises(SpaceError, match=r"noise=0\.5 has no effect.*\n.*`when`") as caught:
        space_cells(space)
    assert caught.value.field == "dimensions"


@pytest.mark.parametrize("what", FAULTS)
def test_faults_are_told_with_line_and_key(what: str, tmp_path: Path) -> None:
    text, line, key, words = FAULTS[what]
    path = tmp_path / "space.yaml"
    path.write_text(text)
    with pytest.raises(SpaceError) as caught:
        load_space(path)
    assert (caught.value.line, caught.value.field, caught.value.path) == (line, key, path), str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "empty"), ("- 1\n", "mapping"), ("a: &x [*x]\n", "anchor"), ("a: 1\n---\nb: 2\n", "not YAML")],
)
def test_what_is_no_space_at_all(text: str, words: str) -> None:
    with pytest.raises(SpaceError, match=words):
        parse_space(text)


def test_a_missing_file_suggests_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "quickstart.yaml").write_text(SOUND)
    with pytest.raises(SpaceError, match=r"did you mean 'quickstart\.yaml'"):
        read_space(tmp_path / "quikstart.yaml")


def test_conditions_in_a_circle_are_refused() -> None:
    circle = changed("  word: [a, b]", "  word: {grid: [a, b], when: {depth: 1}}")
    with pytest.raises(SpaceError, match="circle"):
        plan_space(parse_space(circle))


def test_numbers_are_read_as_people_write_them() -> None:
    assert read_yaml("[1e-3, 1E5, 2.5e+3, 7, none, '1e5']").content == [0.001, 1e5, 2500.0, 7, "none", "1e5"]


def test_lines_of_nested_values() -> None:
    document = read_yaml("a:\n  b:\n    - 1\n    - c: 2\n")
    assert document.line(("a", "b", 1, "c")) == 4
    assert document.line(("a", "b", 7)) == 2  # what would hold it


def test_relative_plugins_are_found_beside_the_space(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        'from gridtune.batch.policies import queue_order\n@queue_order("space-test")\n'
        'def score(job):\n    """Test."""\n    return job.walltime\n'
    )
    path = tmp_path / "space.yaml"
    path.write_text(
        "name: own\nfixed: {trace: quickstart, order: space-test}\nobjective: wait_mean\nplugins: [mine.py]\n"
    )
    assert isinstance(load_space(path), SearchSpace)
    path.write_text(path.read_text().replace("mine.py", "yours.py"))
    with pytest.raises(Exception, match=r"yours\.py"):
        load_space(path)


@pytest.mark.parametrize(("faults", "rest"), [(6, ""), (7, "\n  and 1 more"), (9, "\n  and 3 more")])
def test_of_many_faults_the_first_six_are_listed(faults: int, rest: str) -> None:
    text = SOUND + "".join(f"wrong{number}: 1\n" for number in range(faults))
    with pytest.raises(SpaceError) as caught:
        parse_space(text)
    listed = [f"wrong{number}" for number in range(faults) if f"'wrong{number}'" in caught.value.message]
    assert len(listed) == 6
    assert caught.value.message.endswith(rest or "'wrong5'")


@pytest.mark.parametrize("character", ["\\e]0;pwned\\a", "\\r", "\\u202E"])
def test_characters_that_a_terminal_obeys_are_refused(character: str) -> None:
    text = f'name: a\nsystem: batch\nworkloads:\n  - {{trace: quickstart, label: "x{character}"}}\n'
    with pytest.raises(SpaceError, match="characters that a terminal obeys") as caught:
        parse_space(text)
    assert caught.value.line == 4
    assert str(caught.value).isprintable() or "\n" in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_brackets_without_end_are_refused_at_once() -> None:
    with pytest.raises(SpaceError, match="nested a hundred deep") as caught:
        parse_space("name: a\nfixed: " + "[" * 20_000)
    assert caught.value.line == 2
