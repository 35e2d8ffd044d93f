"""`gridtune traces describe` on a workflow."""

from __future__ import annotations

import json

from click.testing import CliRunner

from gridtune.cli.traces import traces

TASKS = '<job id="a" runtime="-1"/><job id="b" runtime="50"/>'
DAX = f'<adag>{TASKS}<child ref="b"><parent ref="a"/></child></adag>'


def described(path, *options):
    return CliRunner().invoke(traces, ["describe", str(path), *options])


def test_a_workflow_is_told_by_its_tasks(tmp_path):
    path = tmp_path / "two.dax"
    path.write_text(DAX)
    shown = described(path)
    assert shown.exit_code == 0, shown.output
    assert "1 by zero_negative_times" in shown.output
    printed = json.loads(described(path, "--json").output)
    assert (printed["tasks"], printed["critical_path_seconds"]) == (2, 50)


def test_what_belongs_to_logs_is_refused(tmp_path):
    path = tmp_path / "two.dax"
    path.write_text(DAX)
    refused = described(path, "--processors", "3")
    assert refused.exit_code == 2
    assert "not for a workflow" in refused.output
