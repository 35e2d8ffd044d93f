"""The tables of the papers as they are printed, against the published numbers of the systems."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gridtune.core.system import get_system
from gridtune.systems.shutdown.simulator.platform import TRACES

#: Table 1: cluster, cores, jobs, sequential submissions and utilisation in per cent.
TABLE_1 = """
Taurus 168 81,925 54.1 51.7
Orion 48 66,005 39.7 62.7
Graphite 64 60,786 56.0 47.3
Econome 352 66,557 66.8 57.6
"""
#: Table 2: cluster, days in groups 1 to 5.
TABLE_2 = """
Econome 259 520 504 271 39
Graphite 487 705 427 149 24
Orion 659 777 496 129 28
Taurus 441 947 612 130 22
"""
#: Table 3: policy, and the averages of delay, waste, switches and stretch.
TABLE_3 = """
Econome
DS 48.50 21738.40 93.50 0.22
OR* 53.16 18076.86 84.96 0.21
T(0) 49.69 22392.20 106.12 0.15
T(1) 49.54 25483.59 100.21 0.15
T(5) 49.48 36624.22 85.35 0.14
Graphite
DS 50.92 6712.60 30.63 0.41
OR* 54.27 7216.18 33.92 0.30
T(0) 52.81 8950.24 42.20 0.26
T(1) 52.99 10401.94 40.35 0.26
T(5) 52.91 15434.66 34.48 0.25
Orion
DS 72.27 6284.59 28.07 0.54
OR* 70.34 6763.39 31.84 0.41
T(0) 67.23 8996.35 42.41 0.30
T(1) 67.14 10081.97 38.95 0.30
T(5) 67.39 14104.64 30.69 0.30
Taurus
DS 48.31 16513.70 72.53 0.30
OR* 53.60 13747.39 62.43 0.29
T(0) 49.99 17441.70 82.10 0.22
T(1) 50.02 19664.81 76.56 0.22
T(5) 50.23 28714.38 65.29 0.22
"""


def rows(table: str) -> list[list[str]]:
    return [line.replace(",", "").split() for line in table.strip().splitlines()]


def number(system: str, name: str) -> float:
    return get_system(system).published[name].value


def test_tables_1_and_2_of_shutdown_are_as_printed():
    facts = {name: (t.cores, t.jobs, t.sequential, t.utilisation) for name, t in TRACES.items()}
    assert {name.lower(): tuple(map(float, cells)) for name, *cells in rows(TABLE_1)} == facts
    days = {name: t.days for name, t in TRACES.items()}
    assert {name.lower(): tuple(map(int, cells)) for name, *cells in rows(TABLE_2)} == days
    for name, trace in TRACES.items():
        for column in ("cores", "jobs", "sequential", "utilisation"):
            assert number("shutdown", f"{name} {column}") == getattr(trace, column)
        groups = [number("shutdown", f"{name} days of group {group}") for group in range(1, 6)]
        assert tuple(groups) == trace.days


def test_table_3_of_shutdown_is_as_printed():
    cluster = ""
    for policy, *cells in rows(TABLE_3):
        if not cells:
            cluster = policy.lower()
            continue
        for column, printed in zip(("delay", "waste", "switches", "stretch"), cells, strict=True):
            name = f"{cluster} {policy} {column}"
            mean, std, least, most = (
                number("shutdown", f"{name}{end}") for end in ("", " std", " minimum", " maximum")
            )
            assert mean == float(printed)
            assert least <= mean <= least + 100 * std
            assert mean + std < most


def test_the_tables_of_shutdown_agree_with_its_text():
    assert sum(TRACES["taurus"].days) == 2152
    # Section 5.4: 40.6 to 56.5 % less waste than T(5), 2.9 to 30 % less than T(0).
    for rival, low, high in (("T(5)", 0.406, 0.565), ("T(0)", 0.029, 0.302)):
        less = [
            1 - number("shutdown", f"{cluster} DS waste") / number("shutdown", f"{cluster} {rival} waste")
            for cluster in TRACES
        ]
        assert min(less) == pytest.approx(low, abs=0.001)
        assert max(less) == pytest.approx(high, abs=0.001)


def test_shutdown_publishes_every_number():
    published = get_system("shutdown").published
    # Nine clusters in table 1; of four, days by group, and for five policies four columns of four numbers.
    assert len(published) == 9 * 4 + 4 * (5 + 5 * 4 * 4)
    waste = published["taurus T(5) waste"]
    assert (waste.value, waste.unit) == (28714.38, "W·min")
    assert waste.source == "Casagrande et al. 2022, table 3"
    assert waste.quantity == "energy waste per day: taurus T(5)"
    assert (published["econome sequential"].value, published["econome sequential"].unit) == (66.8, "%")


#: Σ place × value of each row of the printed Table 2, and of both rows of Table 5: a typo changes it.
PLACE_SUMS = {
    "first_available_j48": (13.88, 24.76, 5.81),
    "first_available_lwl": (15.15, 16.11, 6.36),
    "first_available_naive_bayes": (16.18, 31.55, 5.69),
    "random_j48": (15.54, 20.44, 6.9),
    "random_lwl": (15.36, 16.35, 6.62),
    "random_naive_bayes": (13.08, 14.59, 7.05),
    "round_robin_j48": (16.45, 14.36, 6.44),
    "round_robin_lwl": (15.26, 15.96, 6.3),
    "round_robin_naive_bayes": (13.57, 15.07, 6.41),
}


def row_of(name: str, places: Sequence[int]) -> list[float]:
    return [number("dispatch", f"{name}_{place}") for place in places]


def place_sum(values: Sequence[float]) -> float:
    return round(sum(place * value for place, value in enumerate(values, start=1)), 2)


def test_tables_of_dispatch_are_as_printed():
    """Sums were taken from the paper's text, not from our tables."""
    five, ten = range(1, 6), range(1, 11)
    for name, (second, same, changed) in PLACE_SUMS.items():
        assert place_sum(row_of(f"table_2_{name}", five)) == second
        assert place_sum(row_of(f"table_5_{name}_same", five)) == same
        assert place_sum(row_of(f"table_5_{name}_changed", range(3, 6))) == changed
    for learner, third in {"j48": 5.83, "lwl": 5.49, "naive_bayes": 5.39}.items():
        assert place_sum(row_of(f"table_3_{learner}", ten)) == third
    # Beside them the averages that the paper prints below Table 6.
    for name, sixth, average in (
        ("j48", 252672040, 5067633),
        ("naive_bayes", 501217459, 8832449),
        ("edd", 255087761, 4691239),
        ("erd", 218819916, 3961190),
    ):
        row = row_of(f"table_6_{name}", ten)
        assert place_sum(row) == sixth
        assert round(np.mean(row) - 1e-6) == average
    assert len(get_system("dispatch").published) == 9 * 5 + 3 * 10 + 9 * (5 + 3) + 4 * 10


#: Copied once more from the papers: tables 2 to 5 of 2009, tables 2 and 3 of 2010.
RESPONSIVE = {
    "NAT": (0.628, 0.418, 0.830, 0.265, 2756, 8844),
    "RIG-ORA-0.5": (0.866, 0.314, 0.892, 0.228, 1096, 5137),
    "RIG-ORA-1": (0.869, 0.308, 0.893, 0.226, 862, 3505),
    "RIG-EST-0.5": (0.864, 0.319, 0.894, 0.223, 1087, 4838),
    "RIG-EST-1": (0.867, 0.311, 0.899, 0.216, 1152, 5417),
    "EGEE": (0.82, 0.26, 0.62, 0.41, 0.73, 0.36, 13041, 26726, 2756, 8844),
    "RL-NN-ORA": (0.93, 0.18, 0.94, 0.22, 0.93, 0.20, 3777, 12168, 1366, 7989),
    "RL-NN-EST": (0.92, 0.18, 0.94, 0.22, 0.93, 0.20, 3803, 12232, 1382, 8076),
    "RL-ESN-ORA": (0.93, 0.19, 0.94, 0.20, 0.93, 0.19, 3962, 13014, 1085, 8491),
    "RL-ESN-EST": (0.93, 0.17, 0.95, 0.19, 0.94, 0.18, 3492, 12175, 495, 3589),
    "ELA-ORA-0.5": (0.965, 0.177, 0.966, 0.116, 606, 4245),
    "ELA-ORA-1": (0.971, 0.160, 0.966, 0.121, 236, 2200),
    "ELA-EST-0.5": (0.958, 0.184, 0.960, 0.123, 458, 3771),
    "ELA-EST-1": (0.968, 0.167, 0.968, 0.113, 414, 3584),
}


def test_tables_of_responsive_are_as_printed() -> None:
    figures = get_system("responsive").published
    by_row: dict[str, list[float]] = {}
    for name, figure in figures.items():
        by_row.setdefault(name.partition("/")[0], []).append(figure.value)
    assert {row: tuple(values) for row, values in by_row.items()} == RESPONSIVE
    wait = figures["ELA-ORA-1/interactive_wait_mean"]
    assert (wait.value, wait.unit) == (236, "s")
    assert wait.source == "Perez et al., “Responsive Elastic Computing”, GMAC 2009, tables 4 and 5"
    assert figures["RL-ESN-EST/interactive_responsiveness_std"].value == 0.19


def test_published_numbers_of_provisioning_are_those_of_the_paper():
    """Singh, Kesselman, Deelman, HPDC 2007: sections 3, 6 and 7."""
    values = {
        key: (figure.value, figure.unit) for key, figure in get_system("provisioning").published.items()
    }
    assert values == {
        "slots/slots": (124, "slots"),
        "slots/feasible_plans": (1742, "plans"),
        "slots/front": (40, "plans"),
        "slots/merged_front": (39, "plans"),
        "cybershake/best_effort": (476811, "s"),
        "cybershake/change_at_63": (-23, "%"),
        "cybershake/change_at_94": (-56, "%"),
        "inflation/requests_10_too_long": (3, "%"),
        "inflation/requests_20_too_long": (7.7, "%"),
    }
