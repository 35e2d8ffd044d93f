"""Policies that cheat, with the check that finds each, and honest ones: sources for `gridtune policy score`.

`DECIDES` in a source stands for the head of a policy's class; `KNOWN` for the run times of the logs it is
tried on, by submission.
"""

# ruff: noqa: E501

from __future__ import annotations

CHEATS = {
    "reads a file": ("source", "DECIDES\n        return state.easy(np.argsort(open('runs').read()))"),
    "reads a file by numpy": (
        "source",
        "RUNS = np.load('runs.npy')\nDECIDES\n        return RUNS[state.waiting.job]",
    ),
    "loads a fitted model": ("source", "from joblib import load\nDECIDES\n        return load('m')(state)"),
    "reads a data set": ("source", "from sklearn.datasets import fetch_openml\nDECIDES\n        return [0]"),
    "reads the log": ("source", "LOG = gt.read_workload('kth-sp2')\nDECIDES\n        return [0]"),
    "draws the judge's log": (
        "source",
        "LOG = gt.generate_workload('lublin', seed=7)\nDECIDES\n        return [0]",
    ),
    "remembers by a global": (
        "source",
        "SEEN = []\nDECIDES\n        SEEN.append(state.now)\n        return [0]",
    ),
    "remembers by its class": ("source", "DECIDES\n        Mine.calls += 1\n        return [Mine.calls % 2]"),
    "remembers by a dictionary of its class": (
        "source",
        "DECIDES\n        self.runs[1] = state.now\n        return [0]\n\n    runs = {}",
    ),
    "remembers by a default": (
        "repeat",
        "DECIDES\n        return self.known(state)\n\n    def known(self, state, runs={}):\n        ended = state.ended\n"
        "        runs.update(zip(ended.job.tolist(), ended.run_time.tolist()))\n"
        "        return state.easy(sorted(range(len(state.waiting)), key=lambda row: runs.get(\n"
        "            int(state.waiting.job[row]), 0)))",
    ),
    "counts the replays": (
        "process",
        "COUNT = itertools.count()\nDECIDES\n        if self.replay is None:\n            self.replay = next(COUNT)\n"
        "        key = state.waiting.processors if self.replay % 2 else state.waiting.walltime\n"
        "        return state.easy(np.argsort(key))\n\n    replay = None",
    ),
    "reads the clock": ("source", "import time\nDECIDES\n        return [int(time.time()) % 2]"),
    "reads the date by numpy": (
        "source",
        "DECIDES\n        return [int(np.datetime64('now').astype(int)) % 2]",
    ),
    "reads the environment": ("source", "import os\nDECIDES\n        return [len(os.environ) % 2]"),
    "draws without a seed": ("source", "DECIDES\n        return [np.random.randint(len(state.waiting))]"),
    "decides by an address": ("source", "DECIDES\n        return [id(state) % len(state.waiting)]"),
    "looks at the array behind an array": ("source", "DECIDES\n        return [state.ended.job.base.size]"),
    "reads memory": ("source", "DECIDES\n        return state.easy(state.waiting.walltime.ctypes.shape)"),
    "reads memory by ctypes": ("source", "import ctypes\nDECIDES\n        return [0]"),
    "reads beyond an array": (
        "load",
        "import numba\n\n@numba.njit(boundscheck=False)\ndef beyond(array):\n    return array[array.size + 3]\n\n"
        "DECIDES\n        return [beyond(state.waiting.walltime) % len(state.waiting)]",
    ),
    "reads beyond a table": (
        "load",
        "TABLE = np.ones(2)\n\n@gt.queue_order('mine')\ndef mine(job):\n    '''Mine.'''\n"
        "    return TABLE[int(job.processors) + 5]",
    ),
    "reads beyond a table by a helper": (
        "load",
        "from numba import njit\n\nTABLE = np.ones(2)\n\n@njit\ndef beyond(place):\n    return TABLE[place]\n\n"
        "@gt.queue_order('mine')\ndef mine(job):\n    '''Mine.'''\n    return beyond(int(job.processors) + 5)",
    ),
    "reads memory that was freed": ("source", "DECIDES\n        return state.easy(np.argsort(np.empty(9)))"),
    "makes an array of old memory": (
        "source",
        "DECIDES\n        return state.easy(np.argsort(np.ndarray((9,))))",
    ),
    "reads a file in its class": ("source", "DECIDES\n        return [0]\n\n    open('runs')"),
    "walks up by a pattern": (
        "source",
        "DECIDES\n        try:\n            1 / 0\n        except ZeroDivisionError as fault:\n            match fault:\n"
        "                case Exception(__traceback__=trace):\n                    return [trace]",
    ),
    "walks up the stack": (
        "source",
        "import inspect\nDECIDES\n        return inspect.stack()[1][0].f_locals['rows']",
    ),
    "walks up from an exception": (
        "source",
        "DECIDES\n        try:\n            1 / 0\n        except ZeroDivisionError as fault:\n"
        "            return fault.__traceback__.tb_frame.f_back.f_locals['rows']",
    ),
    "walks up from a generator": (
        "source",
        "DECIDES\n        return (row for row in [0]).gi_frame.f_back.f_locals['rows']",
    ),
    "reads private columns": (
        "source",
        "DECIDES\n        return state.waiting._columns['run_time'](state.waiting.job)",
    ),
    "reads attributes by a text": (
        "source",
        "DECIDES\n        return ['{0._columns}'.format(state.waiting)]",
    ),
    "renames a table": (
        "source",
        "DECIDES\n        state.ended.job = state.waiting.job\n        return state.easy(np.argsort(state.ended.run_time))",
    ),
    "is a number": ("source", "class Answer(float):\n    pass\n\nDECIDES\n        return [Answer(0)]"),
    "changes gridtune": ("source", "gt.validate_schedule = print\nDECIDES\n        return [0]"),
    "changes numpy": ("source", "DECIDES\n        np.argsort = np.lexsort\n        return [0]"),
    "ends the judge": ("source", "DECIDES\n        raise SystemExit(0)"),
    "ends the judge by a method": ("source", "DECIDES\n        return quit(0)"),
    "asks for all classes": (
        "source",
        "ALL = ().__class__.__base__.__subclasses__()\nDECIDES\n        return [0]",
    ),
    "has many answers": ("source", f"RUNS = {list(range(1001))}\nDECIDES\n        return state.easy(RUNS)"),
    "knows logs": (
        "date",
        "RUNS = KNOWN\nDECIDES\n        return state.easy(sorted(range(len(state.waiting)), key=lambda row: RUNS.get(\n"
        "            int(state.waiting.submit_time[row]), 0)))",
    ),
    "changes after a while": (
        "date",
        "DECIDES\n        late = -1 if state.now > 4_000_000 else 1\n"
        "        return state.easy(np.argsort(late * state.waiting.walltime, kind='stable'))",
    ),
    "starts what does not fit": ("load", "DECIDES\n        return range(len(state.waiting))"),
    "never starts anything": ("load", "DECIDES\n        return []"),
}

HONEST = {
    "first come first served": "DECIDES\n        return np.flatnonzero(np.cumsum(state.waiting.processors) <= state.free)",
    "shortest first": "DECIDES\n        return state.easy(np.argsort(state.waiting.walltime, kind='stable'))",
    "fair, with a helper": (
        "def ranks(jobs):\n    parts = []\n    for use in jobs.user_usage.tolist():\n        parts.append(use)\n"
        "    return np.argsort(parts, kind='stable')\n\nDECIDES\n        return state.easy(ranks(state.waiting))"
    ),
    "packs": (
        "DECIDES\n        jobs, free, starting = state.waiting, state.free, []\n        if jobs.wait[0] > 86_400:\n"
        "            return state.easy(range(len(jobs)))\n"
        "        for row in np.argsort(-jobs.processors, kind='stable').tolist():\n"
        "            if jobs.processors[row] <= free:\n                starting.append(row)\n"
        "                free -= jobs.processors[row]\n        return starting"
    ),
    "packs by a heap": (
        "DECIDES\n        heap, free, starting = [], state.free, []\n"
        "        for row, width in enumerate(state.waiting.processors.tolist()):\n"
        "            heapq.heappush(heap, (-width, row))\n        while heap:\n"
        "            width, row = heapq.heappop(heap)\n            if -width <= free:\n"
        "                starting.append(row)\n                free += width\n        return starting"
    ),
    "backfills by hand": (
        "DECIDES\n        jobs, head = state.waiting, 0\n        if state.fits(head):\n            return [head]\n"
        "        time, extra = state.reservation(head)\n        for row in range(1, len(jobs)):\n"
        "            in_time = state.now + jobs.walltime[row] <= time\n"
        "            if state.fits(row) and (in_time or jobs.processors[row] <= extra):\n"
        "                return [row]\n        return []"
    ),
    "a dictionary of users": (
        "DECIDES\n        ended = state.ended\n        for place in range(self.seen, len(ended)):\n"
        "            self.runs[int(ended.user[place])].append(int(ended.run_time[place]))\n"
        "        self.seen = len(ended)\n        jobs = state.waiting\n"
        "        length = [min(np.mean(self.runs.get(int(user), [walltime])), walltime)\n"
        "                  for user, walltime in zip(jobs.user, jobs.walltime)]\n"
        "        return state.easy(np.argsort(length, kind='stable'))\n\n    def __init__(self):\n"
        "        self.seen, self.runs = 0, defaultdict(lambda: deque(maxlen=5))"
    ),
    "a fitted model": (
        "from sklearn.tree import DecisionTreeRegressor\n\ndef lengths(jobs):\n    return jobs.run_time\n\n"
        "def features(jobs):\n    return np.column_stack([jobs.walltime, jobs.processors, jobs.user])\n\n"
        "DECIDES\n        jobs = state.waiting\n        if len(state.ended) >= 2 * self.size + 20:\n"
        "            self.size = len(state.ended)\n"
        "            self._model = DecisionTreeRegressor(max_depth=4, random_state=0)\n"
        "            self._model.fit(features(state.ended), lengths(state.ended))\n"
        "        length = self._model.predict(features(jobs)) if self.size else jobs.walltime\n"
        "        return state.easy(np.argsort(length, kind='stable'))\n\n    size: int = 0"
    ),
    "other rules at night": (
        "DECIDES\n        night = state.now % 86_400 < 6 * 3600\n"
        "        key = -state.waiting.processors if night else state.waiting.walltime\n"
        "        return state.easy(np.argsort(key, kind='stable'))"
    ),
    "derives from its own, with a parameter": (
        "class Sorted(gt.Policy):\n    '''By a key.'''\n\n    def decide(self, state):\n"
        "        return state.easy(np.argsort(self.key(state.waiting), kind='stable'))\n\n"
        "@gt.queue_order('mine')\nclass Mine(Sorted):\n    '''By area.'''\n\n    UNIT = 3600\n\n"
        "    def __init__(self, weight=2.0):\n        self.weight = weight\n\n    def key(self, jobs):\n"
        "        return jobs.walltime * jobs.processors / self.UNIT - self.weight * jobs.wait"
    ),
    "guards against a division": (
        "DECIDES\n        keys = []\n        for wait, length in zip(state.waiting.wait, state.waiting.walltime):\n"
        "            try:\n                keys.append(-float(wait) / float(length))\n"
        "            except ZeroDivisionError:\n                keys.append(0.0)\n"
        "        return state.easy(np.argsort(keys, kind='stable'))"
    ),
    "an order that keeps a list of its own": (
        "@gt.queue_order('mine')\ndef mine(job):\n    '''Two parts.'''\n    parts = []\n"
        "    parts.append(job.walltime / 3600)\n    parts.append(job.processors * 0.01)\n    return sum(parts)"
    ),
    "an order by a helper": (
        "import numba\n\n@numba.njit\ndef aged(wait):\n    return math.sqrt(wait)\n\n"
        "@gt.queue_order('mine')\ndef mine(job):\n    '''Aged.'''\n    return job.walltime - aged(job.wait)"
    ),
}

_HEAD = (
    "import heapq\nimport itertools\nimport math\nfrom collections import defaultdict, deque\n\n"
    "import numpy as np\n\nimport gridtune as gt\n\n"
)
_DECIDES = "@gt.queue_order('mine')\nclass Mine(gt.Policy):\n    '''Mine.'''\n\n    def decide(self, state):"


def source_of(case: str, known: dict[int, int]) -> str:
    """Return the source of a case; `known` are run times of the logs by their submission."""
    return _HEAD + case.replace("DECIDES", _DECIDES).replace("KNOWN", repr(known)) + "\n"
