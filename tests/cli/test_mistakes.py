"""A stranger's likeliest mistakes: each gets one line and a way out, and changes nothing on the disk."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
#: What is typed, what is wrong, and what to do (without a hint: None). "…" is any text.
MISTAKES = [
    # Files
    (
        "simulate picture.png",
        "picture.png: neither its suffix nor its content is that of a format",
        "suffixes are …",
    ),
    ("simulate notes.swf", "notes.swf:1: expected 18 fields, but found 5: …", None),
    ("init notes.txt", "notes.txt: neither its suffix nor its content is that of a format", "suffixes are …"),
    ("simulate empty.swf", "empty.swf: holds no jobs", None),
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
        "mine.yaml: nothing can be written into this folder: file exists",
        "…",
    ),
    ("sweep mine.yaml --tracking-uri mlruns", "'mlruns' is no tracking URI", "give a server (http://…"),
    (
        "sweep mine.yaml --tracking-uri htp://here",
        "'htp://here' is no tracking URI: …",
        "give a server (http://…",
    ),
    # Names
    ("sweeep mine.yaml", "no command is named 'sweeep': did you mean 'sweep'?", "…"),
    ("simulate quickstart --ordr sjf", "no such option '--ordr' (did you mean one of: …)", "…"),
    ("simulate quickstart --order sjff", "no queue order is named 'sjff'", "did you mean 'sjf'?"),
    ("simulate quickstart --backfill eazy", "no backfilling is named 'eazy'", "did you mean 'easy'?"),
    (
        "run",
        "missing argument 'SYSTEM'",
        "gridtune run [OPTIONS] SYSTEM [KEY=VALUE]...; see gridtune run --help",
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
    ("traces generate sessions x.swf jobs=-5", "field jobs: must be at least 1, got -5", None),
    # Results
    ("report nowhere", "nowhere: no results of a sweep are there", "give a sweep's folder: results/NAME"),
    (
        "status nowhere",
        "no sweep is named 'nowhere' in results/",
        "give a sweep's folder: no sweep has run here yet",
    ),
    ("export nowhere", "nowhere: no results of a sweep are there", "give a sweep's folder: results/NAME"),
    ("ui", "…/mlflow.db: there is no tracking store yet", "run a sweep here first, or …"),
    ("ui --tracking-uri mine.yaml", "'mine.yaml' is no tracking URI", "give a server (http://…"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder as a stranger may have it."""
    for name, text in FILES.items():
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


def test_a_group_of_commands_alone_shows_its_help(gridtune) -> None:
    _, _, err = gridtune("traces")
    assert err.startswith("Usage: gridtune traces")
