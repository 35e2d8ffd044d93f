"""`gridtune doctor`: check the installation and this machine."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import click

from gridtune.cli.main import EXIT_FAILED_CELLS

__all__ = ["doctor"]

_STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@click.option("--full", is_flag=True, help="Also start Ray and run a task on it.")
@click.option("--tracking-uri", help="The MLflow store. [default: MLFLOW_TRACKING_URI, else mlflow.db here]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def doctor(full: bool, tracking_uri: str | None, as_json: bool) -> None:
    """Check the installation and this machine: each line is ok, warn or fail, with what to do.

    Looked at are Python and the packages, plug-ins, processors, memory and disk, the cache of compiled
    kernels, Ray, the tracking store, ports and logs. The exit code is 1 if anything fails.

    \b
    Examples:
      gridtune doctor
      gridtune doctor --full
      gridtune doctor --json
    """
    from gridtune.study.doctor import examine

    findings = []
    for finding in examine(full=full, tracking_uri=tracking_uri):
        findings.append(finding)
        if as_json:
            continue
        level = click.style(f"{finding.level:5}", fg=_STYLES[finding.level])
        click.echo(f"{level} {finding.check:10} {finding.message}")
        if finding.hint:
            click.echo(f"{'':16} {finding.hint}")
    levels: list[str] = [finding.level for finding in findings]
    if as_json:
        content = {"sound": "fail" not in levels, "findings": [asdict(finding) for finding in findings]}
        click.echo(json.dumps(content, ensure_ascii=False))
    else:
        words = {"warn": "to look at", "fail": "failed"}
        counts = [f"{levels.count(level)} {word}" for level, word in words.items() if level in levels]
        click.echo(", ".join(counts) or "all is well")
    if "fail" in levels:
        sys.exit(EXIT_FAILED_CELLS)
