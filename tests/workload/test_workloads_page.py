"""The page on workloads: its examples run, its tables are complete."""

from __future__ import annotations

import dataclasses
import doctest
import re
import shutil
import sys
from pathlib import Path

import pytest

from gridtune.workload import DEFAULT_RULES, LENIENT_RULES, Workload, cleaning_rules
from gridtune.workload.formats import FORMATS, format_names
from gridtune.workload.formats.accounting import TableOptions
from gridtune.workload.formats.records import quantities_of

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "site"))
import tables_page


@pytest.fixture
def page(repository):
    return (repository / "docs" / "workloads.md").read_text(encoding="utf-8")


@pytest.mark.usefixtures("registrations")
def test_examples(page, repository, tmp_path, monkeypatch):
    (tmp_path / "traces").mkdir()
    shutil.copy(repository / "traces" / "quickstart.swf.gz", tmp_path / "traces")
    monkeypatch.chdir(tmp_path)
    test = doctest.DocTestParser().get_doctest(page, {}, "workloads.md", "workloads.md", 0)
    assert len(test.examples) > 15
    said: list[str] = []
    failed = doctest.DocTestRunner().run(test, out=said.append)
    assert failed.failed == 0, "".join(said)


def test_every_rule_is_listed_with_its_mark(page):
    listed = re.findall(r"^\| `(\w+)`( [*†])? \|", page.split("## Cleaning")[1], re.MULTILINE)
    rules = {name: mark.strip() for name, mark in listed if name in cleaning_rules()}
    assert set(rules) == set(cleaning_rules())
    assert {name for name, mark in rules.items() if mark == "*"} == set(DEFAULT_RULES)
    assert {name for name, mark in rules.items() if mark == "†"} == set(LENIENT_RULES)


def test_listed_formats_exist(page):
    listed = re.findall(r"^\| .*? \| `(\.\w+)` \|", page.split("## Formats")[1], re.MULTILINE)
    assert len(listed) >= 5
    assert set(listed) <= {FORMATS.find(name).suffix for name in format_names()}


def test_every_method_and_name_exists(page):
    table = page.split("## Selecting")[1] + page.split("## Formats")[0]
    names = re.findall(r"`(\w+)(?:\([^`]*\))?`", "\n".join(re.findall(r"^\| (.*?) \|", table, re.MULTILINE)))
    assert len(names) > 15
    fields = set(Workload.__dataclass_fields__)
    assert [name for name in names if not hasattr(Workload, name) and name not in fields] == []


def test_options_of_tables_and_their_quantities_are_listed(page):
    table = page.split("| option | meaning |")[1].split("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert listed == [field.name for field in dataclasses.fields(TableOptions)]
    quantities = re.findall(r"`(\w+)`", table.split("Quantities: ")[1].split(" |")[0])
    assert len(quantities) > 25
    # Each is a choice of columns that is accepted.
    assert set(quantities) == set(quantities_of(["a"], ",".join(f"{name}=a" for name in quantities)))


def test_known_tables_and_files_are_listed(repository, page):
    hint = "write it again: python scripts/site/tables_page.py docs/workloads.md"
    assert page == tables_page.fill_page(repository / "docs" / "workloads.md"), hint
