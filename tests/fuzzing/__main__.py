"""The command line of the fuzzing: `scripts/fuzz`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from .readers import forget_environment, readers
from .run import Count, Finding, fuzz, try_input


def main() -> int:
    """Fuzz as the command line says; return 1 if there are findings."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description="Mutated inputs for every reader.")
    parser.add_argument("--seconds", type=float, default=60.0, help="stop after this time [60]")
    parser.add_argument("--inputs", type=int, help="stop after so many inputs, however long it takes")
    parser.add_argument("--reader", action="append", help="only this reader; may be given several times")
    parser.add_argument("--first", type=int, default=0, help="number of the first input: another run")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this one input of a --reader, printed")
    parser.add_argument("--findings", type=Path, default=Path("fuzzing"), help="where findings go [fuzzing/]")
    options = parser.parse_args()
    folder = options.findings.resolve()
    forget_environment()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as place:
        os.chdir(place)
        every = readers(Path(place))
        unknown = set(options.reader or ()) - set(every)
        if unknown:
            parser.error(f"no reader {', '.join(unknown)}: there are {', '.join(every)}")
        chosen = {name: reader for name, reader in every.items() if name in (options.reader or every)}
        if options.only is not None:
            for reader in chosen.values():
                print(reader.input(options.only)[:4000], end="\n\n")
                outcome = try_input(reader, options.only)
                print(outcome.trace if isinstance(outcome, Finding) else f"refused: {outcome}")
            return 0

        def report(counts: Mapping[str, Count], findings: list[Finding]) -> None:
            _write(folder, chosen, findings)
            (folder / "counts.txt").write_text(_table(counts, findings))

        folder.mkdir(parents=True, exist_ok=True)
        seconds = options.seconds if options.inputs is None else float("inf")
        inputs = options.inputs or sys.maxsize
        counts, findings = fuzz(chosen, inputs=inputs, seconds=seconds, first=options.first, report=report)
        report(counts, findings)
    print(_table(counts, findings))
    return 1 if findings else 0


def _write(folder: Path, chosen: Mapping[str, object], findings: list[Finding]) -> None:
    """Write the first input and traceback of each kind of finding."""
    first = {(one.reader, one.place): one for one in reversed(findings)}
    for finding in first.values():
        name = f"{finding.reader.replace(' ', '-')}-{finding.seed}"
        if not (folder / f"{name}.txt").exists():
            reader = chosen[finding.reader]
            (folder / f"{name}.input").write_bytes(reader.input(finding.seed))  # type: ignore[attr-defined]
            (folder / f"{name}.txt").write_text(f"{finding.what}\n\n{finding.trace}", errors="replace")


def _table(counts: Mapping[str, Count], findings: list[Finding]) -> str:
    lines = [f"{'reader':<20} {'inputs':>10} {'read':>10} {'refused':>10} {'findings':>8} {'ms each':>8}"]
    total = Count()
    for name, count in counts.items():
        lines.append(_row(name, count))
        for key in ("inputs", "refused", "findings", "seconds"):
            setattr(total, key, getattr(total, key) + getattr(count, key))
    lines.append(_row("all", total))
    kinds = Counter((one.reader, one.place) for one in findings)
    example = {(one.reader, one.place): one for one in reversed(findings)}
    lines += [
        "",
        *(
            f"{number:>6} {kind[0]} {example[kind].seed}: {example[kind].what}"
            for kind, number in kinds.most_common()
        ),
    ]
    return "\n".join(lines) + "\n"


def _row(name: str, count: Count) -> str:
    read = count.inputs - count.refused - count.findings
    each = 1000 * count.seconds / count.inputs if count.inputs else 0.0
    return (
        f"{name:<20} {count.inputs:>10,} {read:>10,} {count.refused:>10,} {count.findings:>8,} {each:>8.2f}"
    )


sys.exit(main())
