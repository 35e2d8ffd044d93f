"""Tables of jobs: CSV, a row of names and then a job a line; and Parquet, a column for each field.

gridtune's own tables have the names of fields and numbers alone. In CSV they stand in any order, without
header, machine size or names; in Parquet the schema's metadata hold all of that. Any other table, also of
JSON objects, is read by the names of its columns (`gridtune.workload.formats.records`).
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from gridtune.errors import WorkloadError
from gridtune.workload.fields import FIELDS, FLOAT_FIELDS
from gridtune.workload.formats.compression import LogStream
from gridtune.workload.formats.log import Format, RawLog, metadata_from_json, metadata_to_json
from gridtune.workload.formats.records import Records, TableOptions, Texts, check_names, kind_of
from gridtune.workload.formats.table import BYTE_ORDER_MARK, TableLayout, decoded, parse_table, rows_of_text
from gridtune.workload.workload import Workload

#: The most frequent of these in the header separates values.
_DELIMITERS = ",;\t|"


def _read_csv(stream: LogStream, table: TableOptions) -> RawLog | Records:
    """Read a table: gridtune's own, or any other by the names of its columns."""
    start = decoded(stream.peek())
    if table == TableOptions() and _is_own(start):
        return _read_own(stream)
    if start.lstrip("\ufeff \r\n\t").startswith(("{", "[")):
        return _records_of_json(stream)
    return _records(stream, table)


def _is_own(start: str) -> bool:
    """Return whether a table is gridtune's own: fields by their names, and numbers alone."""
    header, _, rest = start.partition("\n")
    first = [value.strip().strip('"') for value in rest.partition("\n")[0].split(delimiter_of(header))]
    if not _names_fields(names_in(header.lstrip("\ufeff"))):
        return False
    return not any(re.search(r"\d[-:]\d|[A-DF-Za-df-z]", value) for value in first)


def delimiter_of(header: str) -> str:
    """Return the mark between the names of a header, which may be quoted, or the values of a first row."""
    plain = re.sub(r'"[^"]*"', "", header)
    # sacct takes any mark: `--delimiter='^'`.
    mark = re.search(r"[\x01-\x08!-/:-@[-^`{-~]", plain)
    if mark and kind_of(plain.split(mark[0])).steps:
        return mark[0]
    # Values between bars hold lists between commas, such as sacct's of nodes.
    return "|" if plain.count("|") > 2 else max(_DELIMITERS, key=plain.count)


def names_in(header: str) -> list[str]:
    """Return the names of a header, without quotes and blanks around them."""
    return [name.strip().strip('"').strip() for name in header.split(delimiter_of(header))]


def _records(stream: LogStream, table: TableOptions) -> Records:
    """Read a table with a row of names first, its values quoted where they need it."""
    text, path = decoded(stream.read()), stream.path
    if not text.strip():
        raise WorkloadError("is empty", path=path)
    rows = csv.reader(
        io.StringIO(text, newline=""), delimiter=delimiter_of(text.split("\n", 1)[0]), strict=True
    )
    kept, lines = [], []
    try:
        names = [name.strip() for name in next(rows, [])]
        if not any(names):
            raise WorkloadError("line 1 should name the columns, but is empty", path=path, line=1)
        line = rows.line_num
        chosen = [part.partition("=")[2].strip() for part in (table.columns or "").split(",")]
        numbers = all(name.isdecimal() and int(name) <= len(names) for name in chosen)
        if numbers and not set(chosen) <= set(names):
            # Without a header the first row is a job, and columns are known by their position.
            kept, lines, names = [names], [1], [str(k) for k in range(1, len(names) + 1)]
        check_names(names, path, 1)
        for row in rows:
            begins, line = line + 1, rows.line_num
            if row and len(row) != len(names):
                message = f"expected {len(names)} values, but found {len(row)}"
                hint = f"line 1, {', '.join(names)[:60]!r}, must name the columns, without lines above it"
                raise WorkloadError(message, path=path, line=begins, hint=hint)
            if row:
                kept.append(row)
                lines.append(begins)
    except csv.Error as error:
        raise WorkloadError(f"is no table: {error}", path=path, line=rows.line_num) from error
    columns = [Texts.of(column) for column in zip(*kept, strict=True)] or [Texts.of([]) for _ in names]
    return Records(path, dict(zip(names, columns, strict=True)), lines, kind=kind_of(names))


def _records_of_json(stream: LogStream) -> Records:
    """Read objects, a job each: one a line, or a list of them."""
    text, path = decoded(stream.read()).lstrip("\ufeff"), stream.path
    try:
        if text.lstrip().startswith("["):
            objects, lines = json.loads(text), None
        else:
            numbered = [(n, line) for n, line in enumerate(text.split("\n"), start=1) if line.strip()]
            objects, lines = [json.loads(line) for _, line in numbered], [n for n, _ in numbered]
    except (ValueError, RecursionError) as error:
        raise WorkloadError(f"is no JSON, or it is cut off ({error})", path=path) from None
    if not objects or not all(isinstance(item, dict) for item in objects):
        raise WorkloadError("holds no jobs: it needs objects, one each", path=path)
    try:
        objects = [
            _job_of_attempts(item) if isinstance(item.get("attempts"), list) else item for item in objects
        ]
    except (KeyError, TypeError) as error:
        raise WorkloadError("has attempts without a list of GPUs", path=path, field="attempts") from error
    names = dict.fromkeys(name for item in objects for name in item)

    def written(value: Any) -> str:
        text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
        # JSON may escape halves of characters, which no text has.
        return text.encode("utf-8", "replace").decode()

    columns = {name: Texts.of([written(item.get(name)) for item in objects]) for name in names}
    several = sum(isinstance(item.get("attempts"), int) and item["attempts"] > 1 for item in objects)
    notes = {"jobs of several attempts: they ran from the start of the first to the end of the last": several}
    return Records(path, columns, lines, notes, kind_of([*names]))


def _job_of_attempts(job: dict[str, Any]) -> dict[str, Any]:
    """Return a job of Philly's log with its attempts' number, first start, last end and most GPUs."""
    attempts = [attempt for attempt in job["attempts"] if isinstance(attempt, dict)]
    starts = [attempt["start_time"] for attempt in attempts if attempt.get("start_time")]
    parts = [attempt["detail"] for attempt in attempts if attempt.get("detail")]
    return {
        **job,
        "attempts": len(attempts),
        "start_time": starts[0] if starts else None,
        "end_time": attempts[-1].get("end_time") if attempts else None,
        "gpus": max((sum(len(part["gpus"]) for part in detail) for detail in parts), default=None),
    }


def _read_own(stream: LogStream) -> RawLog:
    first = stream.read_line().removeprefix(BYTE_ORDER_MARK)
    if not first.strip():
        raise WorkloadError("line 1 should name the fields, but is empty", path=stream.path, line=1)
    header = first.decode("utf-8", "replace")
    fields, separator = tuple(names_in(header)), delimiter_of(header).encode()
    check_names(fields, stream.path, 1)
    table = parse_table(stream, TableLayout(fields=fields, separator=separator, first_line=2))
    return RawLog(columns=table.columns, line_of=table.line_of)


def _write_csv(workload: Workload, file: BinaryIO) -> None:
    names = [name for name in FIELDS if name in workload.columns]
    file.write((",".join(names) + "\n").encode())
    for rows in rows_of_text([workload.columns[name] for name in names], ","):
        file.write(rows)


CSV = Format("csv", ".csv", _read_csv, _write_csv, "the columns alone; other tables are read by their names")


_METADATA = b"gridtune"


def _read_parquet(stream: LogStream, table: TableOptions) -> RawLog | Records:
    """Read a table: gridtune's own, or any other by the names of its columns."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    content = stream.read()
    if not content:
        raise WorkloadError("is empty", path=stream.path)
    try:
        file = pq.ParquetFile(io.BytesIO(content))
        # Run-length encoding can make very much out of very little, so what counts is the size in memory.
        size = file.metadata.num_rows * file.metadata.num_columns * 8
        if size > stream.max_bytes:
            message = f"holds {size:,} bytes once decompressed, more than {stream.max_bytes:,}"
            raise stream.too_large(message)
        read = file.read()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        message = f"is not a Parquet file, or it is cut off or damaged ({str(error).partition(chr(10))[0]})"
        raise WorkloadError(message, path=stream.path) from error
    return arrow_log(read, stream.path, table)


def arrow_table(table: Any) -> Any:
    """Return the `pyarrow.Table` of a table in memory (of Arrow, pandas, polars); None for anything else."""
    if not (hasattr(table, "__arrow_c_stream__") or hasattr(table, "iloc")):
        return None
    import pyarrow as pa  # noqa: PLC0415

    if hasattr(table, "__arrow_c_stream__"):
        return pa.table(table)
    # pandas before 2.2.
    return pa.Table.from_pandas(table, preserve_index=False)


def arrow_log(read: Any, path: Path, table: TableOptions) -> RawLog | Records:
    """Return the jobs of a `pyarrow.Table`: gridtune's own, or any other by the names of its columns."""
    check_names(read.column_names, path, None)
    if table == TableOptions() and _is_own_schema(read.schema):
        own = {name: _column(read.column(name), name, path) for name in read.column_names}
        return RawLog(columns=own, line_of=lambda *_: None, **_metadata(read.schema.metadata or {}, path))
    texts = {name: Texts.of(_texts(read.column(name))) for name in read.column_names}
    return Records(path, texts, None, kind=kind_of(read.column_names))


def _is_own_schema(schema: Any) -> bool:
    """Return whether a table is gridtune's own: by its metadata, or by fields' names and numbers alone."""
    import pyarrow as pa  # noqa: PLC0415

    if _METADATA in (schema.metadata or {}):
        return True
    numbers = all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in schema.types)
    return numbers and _names_fields(schema.names)


def _names_fields(names: Sequence[str]) -> bool:
    """Return whether columns are those of fields, among them what every job needs."""
    there = set(names)
    sized = {"requested_processors", "allocated_processors"} & there
    return bool(sized) and {"submit_time", "run_time"} <= there <= set(FIELDS)


def _texts(column: Any) -> list[str]:
    """Return the values of a column as text; durations become seconds."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import compute  # noqa: PLC0415

    if pa.types.is_duration(column.type):
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[column.type.unit]
        column = column.cast(pa.int64()).to_pylist()
        return ["" if value is None else repr(value / per_second) for value in column]
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        # Such as a trace of power, whose values would be long texts.
        lengths = compute.list_value_length(column).to_pylist()
        return [f"[{length} values]" if length else "" for length in lengths]
    if pa.types.is_timestamp(column.type):
        # An instant with a zone is written in UTC; one without is local, as texts are.
        column = column.cast(pa.timestamp("s", column.type.tz), safe=False)
        zone = "+00:00" if column.type.tz else ""
        texts = column.cast(pa.timestamp("s")).cast(pa.string()).to_pylist()
        return ["" if text is None else text + zone for text in texts]
    return ["" if value is None else str(value) for value in column.to_pylist()]


def _column(column: Any, name: str, path: Path) -> npt.NDArray[Any]:
    import pyarrow as pa  # noqa: PLC0415

    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise WorkloadError(f"holds {kind}, not numbers", path=path, field=name)
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise WorkloadError(f"job {row + 1} has no value", path=path, field=name)
    values: npt.NDArray[Any] = column.to_numpy()
    if values.dtype.kind == "u" and values.size and values.max() > np.iinfo(np.int64).max:
        row = int(np.argmax(values > np.iinfo(np.int64).max))
        raise WorkloadError(f"job {row + 1}: {values[row]} is beyond int64", path=path, field=name)
    floats = name in FLOAT_FIELDS or values.dtype.kind == "f"
    return values.astype(np.float64 if floats else np.int64, copy=False)


def _metadata(metadata: Mapping[bytes, bytes], path: Path) -> dict[str, Any]:
    if _METADATA not in metadata:
        return {}
    try:
        return metadata_from_json(json.loads(metadata[_METADATA]))
    except ValueError as error:
        raise WorkloadError("its gridtune metadata is damaged", path=path) from error


def _write_parquet(workload: Workload, file: BinaryIO) -> None:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    metadata = {**metadata_to_json(workload), "cleaning": dict(workload.cleaning)}
    table = pa.table(dict(workload.columns))
    table = table.replace_schema_metadata({_METADATA: json.dumps(metadata, ensure_ascii=False).encode()})
    pq.write_table(table, file, compression="zstd")


PARQUET = Format("parquet", ".parquet", _read_parquet, _write_parquet, "everything")
