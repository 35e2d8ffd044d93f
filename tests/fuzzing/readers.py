"""Everything that reads what others have written, each with valid inputs to be mutated."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import lzma
import os
import random
import shlex
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from gridtune.batch.policies.expression import read_expression
from gridtune.cli.main import main
from gridtune.cli.parameters import read_settings
from gridtune.errors import GridtuneError
from gridtune.study.status import sweep_status
from gridtune.sweep.journal.journal import _record_line, read_journal, read_proposals
from gridtune.sweep.run import space_cells
from gridtune.systems.responsive.learners.training import load_policy
from gridtune.systems.shutdown.simulator.platform import read_platform
from gridtune.workload import read_workload, read_workloads
from gridtune.workload.cleaning import DEFAULT_RULES
from gridtune.workload.files import WorkloadReference, read_days
from gridtune.workload.slurm import read_slurm_accounts, read_slurm_conf
from gridtune.workload.workflows import WORKFLOW_RULES, read_workflow
from tests.extras import AGENTS

from . import samples
from .mutations import WILD, mutated, mutated_values, wild_value

__all__ = ["REFUSED", "Reader", "readers"]

#: What may come of a faulty input.
REFUSED: tuple[type[Exception], ...] = (GridtuneError,)
#: Commands that start servers, trainings or downloads.
_NOT_RUN = {"ui", "train", "doctor", "fetch", "rerun", "report", "compare"}


@dataclass(frozen=True)
class Reader:
    """A reader with its samples.

    Attributes
    ----------
    name
        Of the reader.
    samples
        Valid inputs.
    read
        Reads an input; the folder is the working directory.
    vary
        Makes an input of a sample.
    """

    name: str
    samples: Sequence[Any]
    read: Callable[[bytes], object]
    vary: Callable[[random.Random, Any], bytes] = mutated

    def input(self, seed: int) -> bytes:
        """Return the input of a number."""
        rng = random.Random(f"{self.name} {seed}")
        return self.vary(rng, rng.choice(self.samples))

    def refuses(self, content: bytes) -> bool:
        """Read an input; return whether it was refused in good order."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                self.read(content)
            except REFUSED as fault:
                str(fault)
                return True
        return False


def readers(folder: Path) -> dict[str, Reader]:
    """Return all readers by name; the working directory must be the folder, which is empty."""
    swept = samples.swept_folder(folder)
    swf, gwf, batsim, parquet, csv = samples.logs(folder, "a.swf", "a.gwf", "a.json", "a.parquet", "a.csv")
    for name, space in zip(("small", "windows"), samples.SPACES, strict=False):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(space))
    (folder / "dump.sacct").write_text(samples.SACCT)
    (folder / "slurm.conf").write_text(samples.SLURM_CONF)
    header = b"; MaxProcs: 64\n; Partition: 1 a\n"
    texts = [text.encode() for text in samples.CSV]
    made = [
        _log("swf", [swf, header + swf]),
        _log("gwf", [gwf]),
        _log("json", [batsim]),
        _log("csv", [csv, texts[0], *texts[2:]]),
        _log("sacct", [samples.SACCT.encode()], timezone="Europe/Berlin"),
        _log("pbs", [samples.PBS.encode()]),
        _log("txt", [samples.SACCT.encode(), samples.PBS.encode(), texts[3]]),
        _log("parquet", [parquet, samples.packed_table(samples.table())]),
        Reader("parquet values", [samples.table()], _reads("b.parquet", read_workload), _vary_table),
        Reader("compressed", [swf], _compressed, _vary_packed),
        Reader("archive", [{"d-1/a.swf": swf, "d-2.csv.gz": csv, "d.json": batsim}], _archive, _vary_archive),
        Reader("columns", [b"submit=Submitted,processors=Cores,elapsed=Wall,user=Owner"], _columns(folder)),
        Reader("reference", [b"tiny.swf?clean=drop_cancelled,drop_wider?days=60.0,1000000.0"], _reference),
        Reader("slurm.conf", [samples.SLURM_CONF.encode()], _reads("s/slurm.conf", read_slurm_conf)),
        Reader(
            "gres.conf",
            [samples.GRES_CONF.encode()],
            _reads("gres.conf", lambda path: read_slurm_conf(folder / "slurm.conf", path)),
        ),
        Reader(
            "accounts", [text.encode() for text in samples.ACCOUNTS], _reads("a.cfg", read_slurm_accounts)
        ),
        Reader("platform", [samples.PLATFORM.encode()], _reads("p.xml", read_platform)),
        Reader("arrays", [samples.arrays(folder)], _reads("q.npz", load_policy)),
        *(
            Reader(f"workflow {kind}", [text.encode()], _reads(f"w.{kind}", _workflow))
            for kind, text in samples.WORKFLOWS.items()
        ),
        _values("batsim values", json.loads(batsim), "v.json", read_workload),
        _values("philly values", samples.PHILLY, "p.json", read_workload),
        _values("workflow values", json.loads(samples.WORKFLOWS["json"]), "vw.json", _workflow),
        _values("old workflow values", json.loads(samples.WORKFLOWS["old.json"]), "vo.json", _workflow),
        Reader(
            "space", [yaml.safe_dump(space).encode() for space in samples.SPACES], _reads("s.yaml", _space)
        ),
        Reader("space values", samples.SPACES, _reads("s.yaml", _space), _vary_space),
        Reader("expression", [text.encode() for text in samples.EXPRESSIONS], _expression),
        Reader("settings", [text.encode() for text in samples.SETTINGS], _settings),
        Reader("journal", [(swept / "journal.jsonl").read_bytes()], _reads("j.jsonl", _journal)),
        Reader(
            "journal values", [samples.journal_records(swept)], _reads("j.jsonl", _journal), _vary_journal
        ),
        *(_state_of_sweep(swept, name) for name in ("sweep.json", "status.json", "journal.lock")),
        Reader("command line", samples.COMMANDS, _command, _vary_command),
    ]
    if AGENTS:
        made.append(_policies(folder))
    return {reader.name: reader for reader in made}


def _policies(folder: Path) -> Reader:
    """Return the reader of trained policies."""
    from gridtune.training.networks import load_policy as load_network  # noqa: PLC0415 (torch)
    from gridtune.training.networks import make_network, write_checkpoint  # noqa: PLC0415

    write_checkpoint(folder / "policy.pt", make_network("mlp", features=2, actions=2))
    return Reader("policy", [(folder / "policy.pt").read_bytes()], _reads("r.pt", load_network))


def _reads(name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    path = Path(name)
    path.parent.mkdir(exist_ok=True)

    def reads(content: bytes) -> object:
        path.write_bytes(content)
        return read(path)

    return reads


def _log(suffix: str, contents: list[bytes], **options: Any) -> Reader:
    def read(path: Path) -> None:
        try:
            log = read_workload(path, **options)
        except GridtuneError:
            # Rules are applied before the content is checked, and see what nobody else does.
            log = read_workload(path, clean=DEFAULT_RULES, **options)
        assert len(log.checksum) == 64

    return Reader(suffix, contents, _reads(f"log.{suffix}", read))


def _values(name: str, document: Any, file: str, read: Callable[[Path], object]) -> Reader:
    def vary(rng: random.Random, sample: Any) -> bytes:
        return json.dumps(mutated_values(rng, sample)).encode("utf-8", "surrogatepass")

    return Reader(name, [document], _reads(file, read), vary)


def _workflow(path: Path) -> object:
    try:
        return read_workflow(path)
    except GridtuneError:
        return read_workflow(path, clean=WORKFLOW_RULES)


def _vary_table(rng: random.Random, table: pa.Table) -> bytes:
    """Return a table with a column or its description changed."""
    columns = {name: table[name].to_pylist() for name in table.column_names}
    name = rng.choice(table.column_names)
    kinds = (pa.string(), pa.float32(), pa.int8(), pa.uint64(), pa.bool_(), pa.timestamp("ns"), pa.date32())
    kinds += (pa.duration("us"), pa.list_(pa.int64()), pa.decimal128(20, 3), pa.binary(), pa.null())
    values: tuple[Any, ...] = (None, -1, 0, 2**62, 1.5, float("nan"), float("inf"), "x", b"\xff", [1], True)
    for _ in range(rng.choice((1, 1, 2))):
        wild: list[Any] = [rng.choice(values) for _ in columns[name]]
        with contextlib.suppress(pa.ArrowException, OverflowError, TypeError, ValueError):
            kind = rng.choice(kinds)
            columns[rng.choice((name, "run_time", "submit", "end_time", ""))] = pa.array(wild, kind)
    changed = pa.table(columns)
    if rng.random() < 0.3:
        about = json.dumps(
            mutated_values(rng, {"machine_processors": 8, "header": {}, "names": {}, "cleaning": {}})
        )
        changed = changed.replace_schema_metadata({"gridtune": about})
    if rng.random() < 0.2:
        changed = changed.rename_columns([rng.choice((one, name)) for one in changed.column_names])
    return samples.packed_table(changed)


def _vary_packed(rng: random.Random, sample: bytes) -> bytes:
    """Return a log compressed and mutated, or mutated and compressed; the first byte says how."""
    kind = rng.choice((b"g", b"x"))
    pack = gzip.compress if kind == b"g" else lambda text: lzma.compress(text, preset=0)
    return kind + (mutated(rng, pack(sample)) if rng.random() < 0.7 else pack(mutated(rng, sample)))


def _compressed(content: bytes) -> object:
    suffix = "xz" if content[:1] == b"x" else "gz"
    return _reads(f"packed.swf.{suffix}", read_workload)(content[1:])


def _vary_archive(rng: random.Random, members: dict[str, bytes]) -> bytes:
    mode = rng.choice(("w:gz", "w:xz", "w"))
    if rng.random() < 0.3:
        name = rng.choice(list(members))
        members = {**members, name: mutated(rng, members[name]), rng.choice(WILD)[:90] + ".swf": b"1"}
        members = {name: content for name, content in members.items() if "\ud800" not in name}
    packed = samples.archive(members, mode=mode)
    return mode[-1].encode() + (packed if rng.random() < 0.2 else mutated(rng, packed))


def _archive(content: bytes) -> None:
    suffix = {b"z": "tar.xz", b"w": "tar"}.get(content[:1], "tar.gz")
    path = Path(f"days.{suffix}")
    path.write_bytes(content[1:])
    with contextlib.suppress(GridtuneError):
        read_workloads(path, clean=DEFAULT_RULES)
    read_days(path)


def _columns(folder: Path) -> Callable[[bytes], object]:
    table = folder / "columns.csv"
    table.write_text(samples.CSV[1])
    return lambda content: read_workload(table, columns=content.decode("utf-8", "replace"))


def _reference(content: bytes) -> object:
    if content.startswith((b"/", b"..", b"~")):
        # The machine's own files are nobody's input.
        return None
    with contextlib.suppress(UnicodeDecodeError):
        return WorkloadReference.parse(content.decode()).read()


def _space(path: Path) -> object:
    return space_cells(path)


def _vary_space(rng: random.Random, space: dict[str, Any]) -> bytes:
    changed = mutated_values(rng, space)
    return str(json.dumps(changed) if rng.random() < 0.5 else yaml.safe_dump(changed)).encode(
        "utf-8", "replace"
    )


def _expression(content: bytes) -> object:
    return read_expression(content.decode("utf-8", "replace"))


def _settings(content: bytes) -> object:
    import click  # noqa: PLC0415

    with contextlib.suppress(click.ClickException):
        return read_settings([content.decode("utf-8", "replace")], "--set")


def _journal(path: Path) -> None:
    read_journal(path)
    read_proposals(path)


def _vary_journal(rng: random.Random, records: list[Any]) -> bytes:
    """Return a journal with sound checks, and values in it that were never written."""
    lines = []
    for record in mutated_values(rng, records):
        try:
            lines.append(_record_line(record))
        except (ValueError, TypeError, AttributeError):
            lines.append(json.dumps(record).encode() + b"\n")
    return b"".join(lines)


def _state_of_sweep(swept: Path, name: str) -> Reader:
    """Return the reader of one of the small files beside a journal."""
    path = swept / name
    content = path.read_bytes() if path.exists() else b"{}"
    document = json.loads(content) if name.endswith(".json") else None

    def read(mutant: bytes) -> None:
        path.write_bytes(mutant)
        try:
            sweep_status(swept)
        finally:
            path.write_bytes(content)

    def vary(rng: random.Random, sample: bytes) -> bytes:
        if document is None or rng.random() < 0.5:
            return mutated(rng, sample)
        return json.dumps(mutated_values(rng, document)).encode("utf-8", "surrogatepass")

    return Reader(name, [content], read, vary)


def _vary_command(rng: random.Random, command: str) -> bytes:
    """Return arguments, separated by line feeds, some of them changed, dropped or given twice."""
    arguments = shlex.split(command)
    for _ in range(rng.choice((1, 1, 2, 3))):
        place = rng.randrange(len(arguments) + 1)
        action = rng.randrange(5)
        if action == 0 and arguments:
            del arguments[min(place, len(arguments) - 1)]
        elif action == 1:
            arguments.insert(place, rng.choice(WILD)[:200])
        elif action == 2 and arguments:
            arguments.insert(place, rng.choice(arguments))
        elif arguments:
            place = min(place, len(arguments) - 1)
            name, sign, _ = arguments[place].partition("=")
            value = str(wild_value(rng))[:200]
            arguments[place] = (
                f"{name}={value}" if sign else rng.choice((value, arguments[place] + value[:5]))
            )
    return "\n".join(one.replace("\n", " ") for one in arguments).encode("utf-8", "replace")


def _command(content: bytes) -> None:
    # An argument cannot hold a zero byte.
    arguments = content.replace(b"\0", b"").decode("utf-8", "replace").split("\n")
    if _NOT_RUN & set(arguments) or any(one.startswith(("/", "..")) for one in arguments):
        return
    if arguments[:1] == ["sweep"]:
        # First, where no option can take it for its value.
        arguments.insert(1, "--dry-run")
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main(arguments)
        except SystemExit as end:
            if end.code not in (None, 0, 1, 2):
                raise AssertionError(f"exit code {end.code}: {said.getvalue()}") from None
            if end.code == 2:
                raise GridtuneError(said.getvalue()) from None


def forget_environment() -> None:
    """Take out of the environment what would let an input find something outside its folder."""
    for name in ("GRIDTUNE_TRACE_DIR", "RAY_ADDRESS", "MLFLOW_TRACKING_URI"):
        os.environ.pop(name, None)
