"""`gridtune policy score`: planted leaks are found to the last, and honest policies pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import pytest

import gridtune as gt
from gridtune.batch.policies import reading
from gridtune.batch.predictors import PREDICTORS
from gridtune.study import leaks

HEAD = "import gridtune as gt\n"
#: What a source begins with, and what its policy returns.
LEAKS = {
    "reads the run time": ("", "job.run_time"),
    "reads the run time by its name": ("", "getattr(job, 'run_' + 'time')"),
    "reads the run time by its place": ("FIELDS = gt.JobView.__dict__\n", "job.wait"),
    "reads the clock": ("import time\n", "time.time()"),
    "reads the clock while it is loaded": ("from time import time\nNOW = time() % 7\n", "job.walltime * NOW"),
    "reads the date through numpy": (
        "import numpy as np\nNOW = np.datetime64('now')\n",
        "job.walltime * float(NOW)",
    ),
    "reads a file": ("LINES = open('leak.txt').read()\n", "job.walltime * len(LINES)"),
    "reads a file through numpy": ("import numpy as np\nX = np.loadtxt('leak.txt')\n", "job.walltime * X"),
    "reads a file through a path": (
        "from pathlib import Path\nX = len(Path('leak.txt').read_text())\n",
        "job.walltime * X",
    ),
    "reads the log through gridtune": ("LOG = gt.read_workload('quickstart')\n", "len(LOG)"),
    "reads the log through a module of gridtune": (
        "from gridtune.workload.files import WorkloadReference\n",
        "job.wait",
    ),
    "reads the environment": ("import os\nX = float(os.environ.get('LEAK', 1))\n", "job.walltime * X"),
    "draws a random number": ("import random\n", "random.random()"),
    "draws a random number through numpy": ("import numpy as np\n", "np.random.random()"),
    "draws one by another name": ("import numpy as np\nr = np\n", "r.random.random()"),
    "draws one through a part of numpy": ("from numpy import random as r\n", "r.random()"),
    "depends on the seed of hashes": ("X = hash('leak') % 5\n", "job.walltime * X"),
    "depends on an address": ("X = id(gt) % 5\n", "job.walltime * X"),
    "remembers by a list": ("SEEN = []\n", "SEEN.append(job.wait) or len(SEEN)"),
    "remembers through numpy": (
        "import numpy as np\nSEEN = np.array([0.0])\n",
        "np.add(SEEN, 1, out=SEEN)[0]",
    ),
    "remembers by a global": (
        "SEEN = 0\n\ndef count():\n    global SEEN\n    SEEN += 1\n    return SEEN\n",
        "count()",
    ),
    "remembers by an array": (
        "import numpy as np\nSEEN = np.zeros(1)\n\ndef count():\n    SEEN[0] += 1\n    return SEEN[0]\n",
        "count()",
    ),
    "remembers by a closure": (
        "def counter():\n    n = 0\n\n    def count():\n        nonlocal n\n        n += 1\n"
        "        return n\n    return count\n\ncount = counter()\n",
        "count()",
    ),
    "remembers by an attribute": ("def f():\n    f.n = 1\n    return f.n\n", "f()"),
    "remembers by a cache": ("from functools import cache\n", "job.wait"),
    "mutates its job": ("def change(job):\n    job.wait = 0\n    return 0\n", "change(job)"),
    "leaves compiled code": (
        "import numba\n\n@numba.njit\ndef f():\n    with numba.objmode():\n        pass\n    return 0\n",
        "f()",
    ),
    "remembers by a list under another name": (
        "SEEN = [0.0]\n\ndef count():\n    mine = SEEN\n    mine.append(1.0)\n    return len(mine)\n",
        "count()",
    ),
    "looks into the frame of its caller": (
        "def peek():\n    yield g.gi_frame.f_back.f_back\n\ng = peek()\n",
        "next(g).f_locals['run_time']",
    ),
    "runs a text": ("", "eval('job.run_time')"),
    "imports by a computed name": ("os = __import__('os')\n", "len(os.environ)"),
    "asks a server": ("import urllib.request\n", "job.wait"),
}
HONEST = {
    "formula": ("", "job.walltime * job.processors - 2 * job.wait"),
    "of numpy": (
        "import numpy as np\n",
        "np.log2(np.maximum(job.walltime, 2)) * job.processors + np.float64(1)",
    ),
    "of math, with a helper": (
        "import math\nfrom numba import njit\nHALF = 0.5\n\n"
        "@njit\ndef aged(wait):\n    return HALF * math.sqrt(wait)\n",
        "job.walltime - aged(job.wait)",
    ),
    "by users": ("", "job.user_usage + job.lot"),
    "with a list of its own": (
        "import numba\n\n@numba.njit\ndef total(wait, size):\n    parts = [wait]\n    parts.append(size)\n"
        "    return parts[0] + parts[1]\n",
        "total(job.wait, job.processors)",
    ),
}


def written(folder: Path, head: str, body: str, name: str = "mine") -> Path:
    (folder / "leak.txt").write_text("3\n")
    text = f"{HEAD}{head}\n\n@gt.queue_order('{name}')\ndef mine(job):\n    '''Score.'''\n    return {body}\n"
    path = folder / "policy.py"
    path.write_text(text)
    return path


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Replay two small logs and draw few futures."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(leaks, "_FUTURES", 8)


@pytest.fixture
def logs(tmp_path: Path) -> list[str]:
    arguments = []
    for seed in (1, 2):
        log = gt.generate_workload("lublin", jobs=150, processors=32, load=1.2, seed=seed)
        gt.write_workload(log, tmp_path / f"{seed}.swf")
        arguments += ["--log", f"{seed}.swf"]
    return arguments


@pytest.mark.parametrize("name", LEAKS)
def test_a_planted_leak_is_found_before_it_runs(gridtune, tmp_path, logs, name: str) -> None:
    path = written(tmp_path, *LEAKS[name])
    assert reading.source_faults(path)
    code, out, err = gridtune("policy", "score", "policy.py", "--json", *logs)
    content = json.loads(out)
    assert (code, content["passed"], err) == (1, False, "")
    assert [one["passed"] for one in content["checks"]] == [False, None, None, None, None, None]
    assert "policy.py:" in content["checks"][0]["detail"]
    assert "logs" not in content


@pytest.mark.parametrize("name", HONEST)
def test_the_source_of_an_honest_policy_is_accepted(tmp_path, name: str) -> None:
    assert reading.source_faults(written(tmp_path, *HONEST[name])) == []


def test_an_honest_policy_passes(gridtune, tmp_path, logs) -> None:
    written(tmp_path, *HONEST["of math, with a helper"])
    code, out, err = gridtune("policy", "score", "policy.py", "--json", *logs)
    content = json.loads(out)
    assert (code, content["passed"], err) == (0, True, ""), content
    assert set(content["logs"]) == {"1.swf", "2.swf"}
    assert len(content["logs"]["1.swf"]["metrics"]) == 5
    page = Path("results/score-policy/score.html").read_text()
    assert "policy.py: passed" in page
    assert json.loads(Path("results/score-policy/score.json").read_text()) == content


def test_an_expression_and_what_does_not_compile(gridtune, tmp_path, logs) -> None:
    code, out, _ = gridtune("policy", "score", "walltime - wait", *logs)
    assert (code, "passed: results/score-" in out) == (0, True)
    written(tmp_path, "", "job.walltime + 'a'", name="untyped")
    code, out, _ = gridtune("policy", "score", "policy.py", "--json", *logs)
    checks = json.loads(out)["checks"]
    assert (code, [one["passed"] for one in checks]) == (1, [True, False, None, None, None, None])
    other = "@gt.queue_order('other')\ndef other(job):\n    return job.wait\n"
    written(tmp_path, other, "job.walltime", name="second")
    code, out, _ = gridtune("policy", "score", "policy.py", "--json", *logs)
    assert "name one with --order: other, second" in json.loads(out)["checks"][1]["detail"]
    assert gridtune("policy", "score", "none.py")[0] == 2


def test_a_policy_that_knows_run_times_changes_decisions() -> None:
    """The check by other futures stands by itself: here the scheduler's estimates are the run times."""
    log = gt.generate_workload("lublin", jobs=150, processors=32, load=1.2, seed=1)
    changed, tried = leaks._changed_decisions(log, {"order": "sjf", "walltime": "exact"})
    assert (changed > 0, tried) == (True, 8)
    assert leaks._changed_decisions(log, {"order": "sjf"}) == (0, 8)


DATED = {
    "changes after a while": ("", "-job.walltime if job.now > 4_000_000 else job.walltime * job.processors"),
    "knows a log by its times": (
        "import numpy as np\nAT = np.array([1e5 * one for one in range(100)])\n",
        "np.interp(job.submit_time, AT, AT % 700_000) * job.processors",
    ),
}


@pytest.mark.parametrize(
    "name",
    ["changes after a while", pytest.param("knows a log by its times", marks=pytest.mark.slow)],
)
def test_a_policy_that_knows_the_date_is_found(gridtune, tmp_path, logs, name: str) -> None:
    written(tmp_path, *DATED[name], name=f"dated-{len(name)}")
    code, out, _ = gridtune("policy", "score", "policy.py", "--json", *logs)
    checks = {one["name"]: one["passed"] for one in json.loads(out)["checks"]}
    assert (code, [check for check, passed in checks.items() if not passed]) == (1, ["date"])


def test_generated_logs_are_new_each_time_unless_seeded() -> None:
    first, again, other = (leaks._read_logs([], seed) for seed in (5, 5, 6))
    assert {name: log.checksum for name, log in first.items()} == {
        name: log.checksum for name, log in again.items()
    }
    assert not {log.checksum for log in first.values()} & {log.checksum for log in other.values()}
    longest = max(float(log.submit_time[-1] - log.submit_time[0]) for log in first.values())
    assert longest > 150 * 86_400


@pytest.mark.slow
def test_a_replay_that_depends_on_its_process_is_seen(monkeypatch, tmp_path, logs) -> None:
    path = written(tmp_path, "import os\nX = float(os.environ.get('LEAK', 1))\n", "job.walltime * X", "env")
    monkeypatch.setenv("LEAK", "-1")
    policy = {"order": "env", "backfill": "easy"}
    leaks.load_plugins([path])
    references = logs[1::2]
    here = {name: leaks._replay(log, policy).digest for name, log in leaks._read_logs(references, 0).items()}
    there = leaks._replay_elsewhere([path], policy, references)
    assert here.keys() == there.keys()
    assert here != there


def test_a_policy_that_reads_predictions(gridtune, logs) -> None:
    code, out, _ = gridtune(
        "policy", "score", "prediction * processors - wait", "--predictor", "template", *logs
    )
    assert (code, "passed: results/score-" in out) == (0, True)
    code, out, _ = gridtune("policy", "score", "prediction", "--predictor", "templates", "--json", *logs)
    checks = json.loads(out)["checks"]
    assert (code, [one["passed"] for one in checks]) == (1, [True, False, None, None, None, None])
    assert "no predictor is named 'templates'" in checks[1]["detail"]


def test_a_predictor_that_remembers_a_former_replay_is_found(gridtune, logs, monkeypatch) -> None:
    class Remembers(gt.Predictor):
        runs: ClassVar[dict[int, int]] = {}

        def ended(self, job, run_time, now):
            self.runs[job.number] = run_time

        def predict(self, job, now):
            run = float(self.runs.get(job.number, job.walltime))
            return gt.Prediction(run, (run, run, run), 0.0)

    monkeypatch.setitem(PREDICTORS._items, "test-remembers", Remembers)
    code, out, _ = gridtune("policy", "score", "prediction", "--predictor", "test-remembers", "--json", *logs)
    checks = {one["name"]: one["passed"] for one in json.loads(out)["checks"]}
    assert (code, checks["repeat"]) == (1, False)
