"""The rules of placement once more, as plain as they can be written, to hold the compiled ones against."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

GPUS = 8


def place(nodes: Any, pods: Any, rule: str, typical: Any, whole: bool) -> list[tuple[int, tuple[int, ...]]]:
    """Return the node of each pod, -1 for none, and its GPUs; for every rule but `random`."""
    cluster = [
        {
            "cpus": int(nodes.cpus[i]),
            "memory": int(nodes.memory[i]),
            "left": [1000] * int(nodes.gpus[i]),
            "model": int(nodes.model[i]),
            "pods": [],
        }
        for i in range(len(nodes))
    ]
    placed = []
    for i in range(len(pods)):
        names = ("cpus", "memory", "gpus", "share", "models")
        pod = {name: int(getattr(pods, name)[i]) for name in names}
        options = []
        for index, node in enumerate(cluster):
            option = _score(rule, node, pod, typical)
            if option is not None:
                score, gpus = option
                options.append((math.floor(score) if whole else score, -index, gpus))
        if not options:
            placed.append((-1, ()))
            continue
        _, index, gpus = max(options, key=lambda option: option[:2])
        node = cluster[-index]
        node["cpus"] -= pod["cpus"]
        node["memory"] -= pod["memory"]
        for gpu in gpus:
            node["left"][gpu] -= pod["share"]
        node["pods"].append(_kind(pod))
        placed.append((-index, tuple(sorted(gpus))))
    return placed


def _kind(pod: Any) -> int:
    return 0 if pod["share"] < 1000 else pod["gpus"]


def _score(  # noqa: PLR0911, PLR0912 (one rule after another)
    rule: str, node: Any, pod: Any, typical: Any
) -> tuple[float, list[int]] | None:
    if node["cpus"] < pod["cpus"] or node["memory"] < pod["memory"]:
        return None
    gpus: list[int] = []
    if pod["gpus"]:
        if not pod["models"] >> node["model"] & 1:
            return None
        fitting = [gpu for gpu, left in enumerate(node["left"]) if left >= pod["share"]]
        if len(fitting) < pod["gpus"]:
            return None
        gpus = sorted(fitting, key=lambda gpu: node["left"][gpu])[: pod["gpus"]]
    after, total, demand = node["cpus"] - pod["cpus"], sum(node["left"]), pod["gpus"] * pod["share"]
    if rule == "best_fit":
        return 100 - 50 * after / 128000 - 50 * (total - demand) / 8000, gpus
    if rule == "least_waste":
        return 100 - 100 * (total - demand) / 8000, gpus
    if rule == "dot_product":
        return 100 - 50 * (node["cpus"] / 128000 * pod["cpus"] / 128000 + total / 8000 * demand / 8000), gpus
    if rule == "clustering" and gpus:
        same = _kind(pod) in node["pods"]
        tier = (3 if len(set(node["pods"])) == 1 else 2) if same else (0 if node["pods"] else 1)
        return 25 * tier + 25 * (1 - total / 8000), gpus
    if rule == "packing" and gpus:
        free = node["left"].count(1000)
        taken = sum(node["left"][gpu] == 1000 for gpu in gpus)
        if free == len(node["left"]):
            return 33 - free, gpus
        if taken:
            return 50 - taken, gpus
        return 100 - 10 * sum(node["left"][gpu] for gpu in gpus) // 1000, gpus
    if rule == "fgd":
        choices = [gpus]
        if gpus and pod["share"] < 1000:
            choices = [[gpu] for gpu, left in enumerate(node["left"]) if left >= pod["share"]]
        now = _fragments(node["cpus"], node["left"], node["model"], typical)
        growth = []
        for choice in choices:
            left = [free - pod["share"] * (gpu in choice) for gpu, free in enumerate(node["left"])]
            growth.append(_fragments(after, left, node["model"], typical) - now)
        best = min(range(len(choices)), key=lambda i: growth[i])
        return 100 / (1 + math.exp(growth[best] / 1000)), choices[best]
    return 0.0, gpus


def _fragments(cpus: int, left: list[int], model: int, typical: Any) -> Fraction:
    requests, probability = typical
    fragments = Fraction(0)
    for i in range(len(requests)):
        usable = [free for free in left if free >= requests.share[i]]
        fits = (
            cpus >= requests.cpus[i] and requests.models[i] >> model & 1 and len(usable) >= requests.gpus[i]
        )
        free = sum(left) - (sum(usable) if fits and requests.gpus[i] else 0)
        fragments += Fraction(float(probability[i])) * free
    return fragments
