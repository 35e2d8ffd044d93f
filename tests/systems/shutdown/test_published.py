"""The paper's tables as they are printed, against the published figures of the system."""

from __future__ import annotations

import pytest

from gridtune.core.system import get_system
from gridtune.systems.shutdown.reproduction import OVERALL, PAPER, SPREADS
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


def test_tables_1_and_2_are_as_printed():
    facts = {name: (t.cores, t.jobs, t.sequential, t.utilisation) for name, t in TRACES.items()}
    assert {name.lower(): tuple(map(float, cells)) for name, *cells in rows(TABLE_1)} == facts
    days = {name: t.days for name, t in TRACES.items()}
    assert {name.lower(): tuple(map(int, cells)) for name, *cells in rows(TABLE_2)} == days


def test_table_3_is_as_printed():
    expected: dict[str, dict[str, tuple[float, ...]]] = {}
    cluster = ""
    for name, *cells in rows(TABLE_3):
        if cells:
            expected[cluster][name] = tuple(map(float, cells))
        else:
            cluster = name.lower()
            expected[cluster] = {}
    assert expected == OVERALL
    for cluster, policies in OVERALL.items():
        for policy, means in policies.items():
            for mean, spread in zip(means, SPREADS[cluster][policy], strict=True):
                assert spread.minimum <= mean <= spread.minimum + 100 * spread.std
                assert mean + spread.std < spread.maximum


def test_the_tables_agree_with_the_text():
    assert sum(TRACES["taurus"].days) == 2152
    # Section 5.4: 40.6 to 56.5 % less waste than T(5), 2.9 to 30 % less than T(0).
    for rival, low, high in (("T(5)", 0.406, 0.565), ("T(0)", 0.029, 0.302)):
        less = [1 - policies["DS"].waste / policies[rival].waste for policies in OVERALL.values()]
        assert min(less) == pytest.approx(low, abs=0.001)
        assert max(less) == pytest.approx(high, abs=0.001)


def test_the_system_publishes_every_number():
    published = get_system("shutdown").published
    # Nine clusters in table 1; of four, days by group, and for five policies four columns of four numbers.
    assert len(published) == 9 * 4 + 4 * (5 + 5 * 4 * 4)
    waste = published["taurus T(5) waste"]
    assert (waste.value, waste.unit, waste.source) == (28714.38, "W·min", f"{PAPER}, table 3")
    assert published["orion days of group 2"].value == 777
    assert (published["econome sequential"].value, published["econome sequential"].unit) == (66.8, "%")
