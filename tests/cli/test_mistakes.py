"""A stranger's likeliest mistakes: each gets one line and a way out, and changes nothing on the disk."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from gridtune.errors import GridtuneWarning

QUEUE_ORDERS = """\
name: {name}
fixed: {{trace: quickstart, first: 50}}
dimensions: {{order: [fcfs, {order}]}}
objective: wait_mean
"""
FILES = {
    "notes.txt": "what I did on Tuesday\n",
    "notes.swf": "what I did on Tuesday\n",
    "picture.png": "\x89PNG\r\n\x1a\n",
    "empty.swf": "",
    "header.swf": "; Version: 2.2\n; MaxProcs: 10\n",
    "tabs.yaml": "name: tabs\ndimensions:\n\torder: [fcfs]\nobjective: wait_mean\n",
    "twice.yaml": "name: twice\nname: again\nobjective: wait_mean\n",
    "nosystem.yaml": "name: nosystem\nfixed: {trace: quickstart, max_wait: 60}\nobjective: wait_mean\n",
    "sampler.yaml": QUEUE_ORDERS.format(name="sampler", order="sjf") + "strategy: {sobl: {samples: 8}}\n",
    "mine.yaml": QUEUE_ORDERS.format(name="mine", order="sjf"),
    "other.yaml": QUEUE_ORDERS.format(name="other", order="saf"),
}
FILES |= {
    "colon.yaml": "name: colon\nfixed: {trace: quickstart}\ndimensions: {order: []}\nobjective:wait_mean\n",
    "bracket.yaml": "name: bracket\ndimensions: {order: [fcfs, sjf}\nobjective: wait_mean\n",
    "indent.yaml": "name: indent\nfixed:\n  trace: quickstart\n first: 50\nobjective: wait_mean\n",
    "text.yaml": QUEUE_ORDERS.format(name="text", order="sjf").replace("50", "fifty"),
    "metric.yaml": QUEUE_ORDERS.format(name="metric", order="sjf").replace("wait_mean", "Wait_Mean"),
    "ten.yaml": QUEUE_ORDERS.format(name="ten", order="sjf") + "replicates: 10\n",
    "plain.swf.gz": "1 0 -1 10 1\n",
    "plain.swf.xz": "1 0 -1 10 1\n",
    "table.csv": "submit_time,run_time,width\n0,10,1\n",
    "ten.csv": "submit_time,run_time,requested_processors\n0,ten,1\n",
    "newer/journal.jsonl": '{"journal":"gridtune","schema":9,"check":"727d910c"}\n',
}
#: What is typed, what is wrong, and what to do (without a hint: None). "…" is any text.
MISTAKES = [
    # Files
    (
        "simulate picture.png",
        "picture.png: neither its content nor its suffix is that of a format",
        "suffixes are …",
    ),
    ("simulate notes.swf", "notes.swf:1: expected 18 fields, but found 5: …", None),
    ("init notes.txt", "notes.txt: neither its content nor its suffix is that of a format", "suffixes are …"),
    ("simulate empty.swf", "empty.swf: is empty", None),
    ("init header.swf", "header.swf: holds no jobs", None),
    (
        "simulate nowhere.swf",
        "no trace 'nowhere.swf': neither a file in …",
        "gridtune traces list shows all names, …",
    ),
    ("simulate sesions", "no trace 'sesions': …", "did you mean 'sessions'? …"),
    ("simulate .", ".: is a folder, not a log", "name one of its files …"),
    ("simulate quickstart -p 2", "…: 3357 of 5000 jobs are wider than the machine's 2 processors; …", "…"),
    # Search spaces
    (
        "sweep",
        "missing argument 'SPACE.yaml'",
        "gridtune sweep [OPTIONS] SPACE.yaml; see gridtune sweep --help",
    ),
    ("sweep nowhere.yaml", "nowhere.yaml: no such file", "…"),
    ("sweep mine.yml", "mine.yml: no such file", "did you mean 'mine.yaml'?"),
    (
        "sweep notes.swf",
        "notes.swf: a search space is a mapping of keys, but got str",
        "of a log, gridtune init …",
    ),
    ("sweep picture.png", "picture.png: is not a text file", "of a log, gridtune init …"),
    ("sweep .", ".: is a folder, not a search space", "give one of its .yaml files; …"),
    ("sweep tabs.yaml", "tabs.yaml:3: not YAML: …", "YAML is indented by spaces, never by tabs"),
    ("sweep twice.yaml", "twice.yaml:2, field name: this key is here twice", None),
    (
        "sweep nosystem.yaml",
        "nosystem.yaml:2, field fixed.max_wait: batch has no parameter 'max_wait'",
        "without a key `system` the space is of batch; it is a parameter of shutdown",
    ),
    ("sweep sampler.yaml", "sampler.yaml:5, field strategy.sobl: …", "did you mean 'sobol'?"),
    ("sweep mine.yaml --objective wait_men", "…batch has no metric 'wait_men'", "did you mean 'wait_mean'?"),
    ("sweep mine.yaml --set oder=sjf", "…batch has no parameter 'oder'", "did you mean 'order'?"),
    ("sweep mine.yaml --set order", "invalid value for --set: 'order' is not NAME=VALUE", "…"),
    ("sweep mine.yaml --workers 0", "invalid value for '--workers': 0 is not in the range x>=1", "…"),
    (
        "sweep mine.yaml --out mine.yaml",
        "mine.yaml: nothing can be written into this folder: not a directory",
        "…",
    ),
    ("sweep mine.yaml --tracking-uri mlruns", "'mlruns' is no tracking URI", "give a server (http://…"),
    (
        "sweep mine.yaml --tracking-uri htp://here",
        "'htp://here' is no tracking URI: …",
        "give a server (http://…",
    ),
    (
        "sweep colon.yaml",
        "colon.yaml:4: not YAML: …",
        "between a key and its value are a colon and a space: order: fcfs",
    ),
    ("sweep bracket.yaml", "bracket.yaml:2: not YAML: …", "a bracket is not closed, or a comma is missing"),
    ("sweep indent.yaml", "indent.yaml:4: not YAML: …", "keys that belong together are indented alike"),
    ("sweep text.yaml", "text.yaml:2, field fixed.first: must be a whole number, but got 'fifty'", None),
    ("sweep metric.yaml", "metric.yaml:4, …batch has no metric 'Wait_Mean'", "did you mean 'wait_mean'?"),
    ("sweep ten.yaml", "ten.yaml:5, field replicates: must be a mapping of keys to values, but got 10", None),
    ("simulate plain.swf.gz", "plain.swf.gz: is not a gzip file, or it is damaged …", None),
    ("simulate plain.swf.xz", "plain.swf.xz: is not an xz file, or it is damaged …", None),
    (
        "simulate table.csv",
        "table.csv: no column says how many processors jobs have; width may",
        "name it: LOG?columns=processors=NAME (…",
    ),
    ("simulate ten.csv", "ten.csv:2, field run_time: 'ten' is …", None),
    # Names
    ("sweeep mine.yaml", "no command is named 'sweeep': did you mean 'sweep'?", "…"),
    ("simulate quickstart --ordr sjf", "no such option '--ordr' (did you mean one of: …)", "…"),
    ("simulate quickstart --order sjff", "…no queue order is named 'sjff' (did you mean 'sjf'?)", None),
    ("simulate quickstart --backfill eazy", "…no backfilling is named 'eazy' (did you mean 'easy'?)", None),
    (
        "run",
        "missing argument 'SYSTEM'",
        "gridtune run [OPTIONS] SYSTEM [KEY=VALUE]...; see gridtune run --help",
    ),
    ("list", "missing argument '{systems|orders|predictors|metrics|spaces}'", "gridtune list …"),
    (
        "simulate quickstart --order run_time",
        "…no queue order is named 'run_time': a policy never sees run times (sjf has …)",
        None,
    ),
    (
        "run batch trace = quickstart",
        "a parameter is given as KEY=VALUE, but got 'trace'",
        "without spaces around the =, such as order=sjf",
    ),
    ("run shutdwn", "no system is named 'shutdwn'", "did you mean 'shutdown'?"),
    ("run shutdown", "shutdown needs trace", "such as trace=…"),
    (
        "run shutdown trace=quickstart polcy=timeout",
        "shutdown has no parameter 'polcy'",
        "did you mean 'policy'?",
    ),
    (
        "run shutdown trace=quickstart policy=timeot",
        "…: policy: must be …, but got 'timeot'",
        "did you mean 'timeout'?",
    ),
    ("run responsive trace=sessions weight=-1", "…: weight: must be at least 0, but got '-1'", None),
    (
        "run responsive trace=sessions lambda=0.5",
        "responsive has no parameter 'lambda'",
        "it is called weight now",
    ),
    ("traces generate lublinn x.swf", "no generator is named 'lublinn'", "did you mean 'lublin'?"),
    ("traces generate sessions x.swf jobs=-5", "field jobs: must be greater than … 1, got '-5'", None),
    # Results
    ("report nowhere", "nowhere: no results of a sweep are there", "give a sweep's folder: results/NAME"),
    (
        "status nowhere",
        "no sweep is named 'nowhere' in results/",
        "give a sweep's folder: no sweep has run here yet",
    ),
    (
        "results export nowhere",
        "nowhere: no results of a sweep are there",
        "give a sweep's folder: results/NAME",
    ),
    ("ui", "…/mlflow.db: there is no tracking store yet", "run a sweep here first, or …"),
    ("ui --tracking-uri mine.yaml", "'mine.yaml' is no tracking URI", "give a server (http://…"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder as a stranger may have it."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="latin-1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def matches(text: str, pattern: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace("…", ".*"), text) is not None


@pytest.mark.parametrize(("words", "message", "hint"), MISTAKES, ids=[words for words, *_ in MISTAKES])
def test_a_mistake_gets_one_line_and_a_hint(
    folder: Path, gridtune, words: str, message: str, hint: str | None
) -> None:
    before = content(folder)
    code, out, err = gridtune(*words.split())
    assert (code, out) == (2, "")
    said, _, way_out = err.removesuffix("\n").removeprefix("error: ").partition("\n  hint: ")
    assert matches(said, message), err
    assert matches(way_out, hint or ""), err
    assert content(folder) == before


def test_a_sweep_does_not_replace_the_tables_of_another(folder: Path, gridtune) -> None:
    quiet = ("--no-tracking", "--quiet", "--executor", "inline")
    assert gridtune("sweep", "mine.yaml", *quiet)[0] == 0
    before = content(folder)
    code, _, err = gridtune("sweep", "other.yaml", "--out", "results/mine", *quiet)
    assert code == 2
    assert "results/mine: holds the sweep 'mine', whose tables those of 'other' would replace" in err
    assert "hint: give another with --out" in err
    assert content(folder) == before
    # `gridtune init LOG` calls the spaces of all systems by the log.
    (folder / "same.yaml").write_text(
        "name: mine\nsystem: shutdown\nfixed: {trace: quickstart}\ndimensions: {policy: [always_on]}\n"
        "objective: energy_total\nbaseline: {policy: always_on}\n"
    )
    code, _, err = gridtune("sweep", "same.yaml", *quiet)
    assert code == 2
    assert "holds the sweep 'mine' of batch, whose tables those of 'mine' of shutdown would replace" in err


def test_a_journal_of_a_newer_gridtune_is_left_alone(folder: Path, gridtune) -> None:
    journal = folder / "newer" / "journal.jsonl"
    before = journal.read_bytes()
    code, _, err = gridtune("sweep", "mine.yaml", "--out", "newer", "--no-tracking", "--quiet")
    assert code == 2
    assert "newer/journal.jsonl:1: the journal is of schema 9, this gridtune knows up to" in err
    assert "hint: use the gridtune that wrote it, or start in another directory" in err
    assert journal.read_bytes() == before


def test_a_group_of_commands_alone_shows_its_help(gridtune) -> None:
    _, _, err = gridtune("traces")
    assert err.startswith("Usage: gridtune traces")


def test_a_warning_is_a_line_without_its_place_in_our_code(gridtune) -> None:
    gridtune("--version")
    text = warnings.formatwarning("a file has changed", GridtuneWarning, "run.py", 160)
    assert text == "warning: a file has changed\n"
    assert "run.py:160: UserWarning" in warnings.formatwarning("other", UserWarning, "run.py", 160)
