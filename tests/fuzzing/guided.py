"""Inputs that atheris (libFuzzer) makes of a reader's samples, looking for lines of the readers not run yet.

    scripts/fuzz --guided --seconds 60 --reader swf

It needs `pip install atheris`, which is no part of any extra. A reader runs in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .readers import Reader

try:
    import atheris
except ModuleNotFoundError:
    sys.exit("atheris is not installed: `pip install atheris`; without --guided, inputs are mutated blindly")

_PACKAGE = Path(__file__).resolve().parents[2] / "gridtune"
#: Words by which modules with kernels are known: numba cannot compile what atheris puts in.
_OF_KERNELS = ("core.compiled", "numba")
#: Seconds that one input may take, and MiB of memory for a process.
_MOST_SECONDS, _MOST_MEMORY = 20, 8192
#: Inputs that libFuzzer begins with.
_SEEDS = 50
_UNITS = re.compile(r"stat::number_of_executed_units:\s+(\d+)")
_COVERED = re.compile(r"cov: (\d+)")


def main() -> int:
    """Run readers as the command line says; return 1 if there are findings."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz --guided", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each reader [60]")
    parser.add_argument("--reader", action="append", help="only this reader; may be given several times")
    parser.add_argument("--findings", type=Path, default=Path("fuzzing"), help="where findings go [fuzzing/]")
    options = parser.parse_args()
    folder = options.findings.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with atheris.instrument_imports(include=["gridtune"], exclude=[*_modules_of_kernels()]):
        from .readers import forget_environment, readers  # noqa: PLC0415

        forget_environment()
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as place:
            os.chdir(place)
            every = readers(Path(place))
            unknown = set(options.reader or ()) - set(every)
            if unknown:
                parser.error(f"no reader {', '.join(unknown)}: there are {', '.join(every)}")
            print(f"{'reader':<20} {'inputs':>10} {'branches':>10} {'findings':>8}")
            total = 0
            for reader in (every[name] for name in options.reader or every):
                before = set(folder.glob("*.txt"))
                inputs, branches = _run(reader, folder, options.seconds)
                findings = len(set(folder.glob("*.txt")) - before)
                total += findings
                print(f"{reader.name:<20} {inputs:>10,} {branches:>10,} {findings:>8,}", flush=True)
    return 1 if total else 0


def _modules_of_kernels() -> Iterator[str]:
    for path in _PACKAGE.rglob("*.py"):
        content = path.read_text(encoding="utf-8")
        if any(word in content for word in _OF_KERNELS):
            name = ".".join(path.relative_to(_PACKAGE.parent).with_suffix("").parts)
            yield name.removesuffix(".__init__")


def _run(reader: Reader, folder: Path, seconds: int) -> tuple[int, int]:
    """Run a reader in a fork, for libFuzzer ends its process; return inputs and branches that were met."""
    with tempfile.TemporaryDirectory() as corpus, tempfile.NamedTemporaryFile("r", errors="replace") as log:
        for number in range(_SEEDS):
            Path(corpus, str(number)).write_bytes(reader.input(number))
        child = os.fork()
        if child == 0:
            output = os.open(log.name, os.O_WRONLY)
            for stream in (1, 2):
                os.dup2(output, stream)
            limits = [f"-max_total_time={seconds}", f"-timeout={_MOST_SECONDS}"]
            limits.append(f"-rss_limit_mb={_MOST_MEMORY}")
            prefix = f"-artifact_prefix={folder}/{_file_name(reader.name)}-"
            # Output that a reader prints is thrown away, libFuzzer's own is kept.
            limits += ["-print_final_stats=1", "-close_fd_mask=1", "-max_len=65536", prefix]
            atheris.Setup(["fuzz", *limits, corpus], lambda content: _try(reader, content, folder))
            atheris.Fuzz()
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        said = log.read()
    if status != 0:
        # A signal, or too much time or memory: libFuzzer has left the input.
        (folder / f"{_file_name(reader.name)}-ended.txt").write_text(said[-8000:])
    units, covered = _UNITS.search(said), _COVERED.findall(said)
    return int(units[1]) if units else 0, int(covered[-1]) if covered else 0


def _try(reader: Reader, content: bytes, folder: Path) -> None:
    """Read an input, and write it down if something comes out that should not."""
    try:
        reader.refuses(content)
    except BaseException as fault:
        frames = traceback.extract_tb(fault.__traceback__)
        ours = [frame for frame in frames if "/gridtune/" in frame.filename] or frames
        kind = f"{type(fault).__name__}-{Path(ours[-1].filename).stem}-{ours[-1].lineno}"
        path = folder / f"{_file_name(reader.name)}-{kind}.txt"
        if not path.exists():
            path.with_suffix(".input").write_bytes(content)
            path.write_text("".join(traceback.format_exception(fault, limit=-30)), errors="replace")


def _file_name(reader: str) -> str:
    return reader.replace(" ", "-")


sys.exit(main())
