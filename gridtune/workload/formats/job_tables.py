"""Tables of jobs: CSV, a row of names and then a job a line; and Parquet, a column for each field.

gridtune's own tables have the names of fields and numbers alone. In CSV they stand in any order, without
header, machine size or names; in Parquet the schema's metadata hold all of that. Any other table is read by
the names of its columns (`gridtune.workload.formats.records`).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from gridtune.errors import WorkloadError
from gridtune.workload.fields import FIELDS, FLOAT_FIELDS
from gridtune.workload.formats.accounting import log_of_records
from gridtune.workload.formats.compression import LogStream
from gridtune.workload.formats.log import Format, RawLog, metadata_from_json, metadata_to_json
from gridtune.workload.formats.records import Records, Texts, check_names, quantities_of
from gridtune.workload.formats.table import BYTE_ORDER_MARK, TableLayout, decoded, parse_table, rows_of_text
from gridtune.workload.workload import Workload

__all__ = ["CSV", "PARQUET"]

#: The most frequent of these in the header separates values.
_DELIMITERS = ",;\t|"


def _read_csv(
    stream: LogStream, columns: str | None = None, timezone: str | None = None, requested: bool = False
) -> RawLog:
    """Read a table.

    Parameters
    ----------
    stream
        The file.
    columns
        The columns of quantities in a table of other names: `submit=Submitted,processors=Cores`.
    timezone
        The zone of its times, UTC by default.
    requested
        Whether jobs of another table have the processors that they asked for, not those they got.
    """
    if columns is not None or timezone is not None or requested or _is_foreign_csv(stream.peek()):
        return log_of_records(_records(stream), columns=columns, timezone=timezone, requested=requested)
    return _read_own(stream)


def _is_foreign_csv(start: bytes) -> bool:
    """Return whether a table is another than gridtune's own: it has other names, or not numbers alone."""
    header, _, rest = decoded(start).partition("\n")
    delimiter = max(_DELIMITERS, key=header.count)
    names = [name.strip().strip('"') for name in header.split(delimiter)]
    if "submit" not in quantities_of(names):
        return False
    first = [value.strip().strip('"') for value in rest.partition("\n")[0].split(delimiter)]
    try:
        return not ("submit_time" in names and [float(value) for value in first])
    except ValueError:
        return True


def _records(stream: LogStream) -> Records:
    """Read a table with a row of names first, its values quoted where they need it."""
    text, path = decoded(stream.read()), stream.path
    delimiter = max(_DELIMITERS, key=text.split("\n", 1)[0].count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    kept, lines = [], []
    try:
        names = [name.strip() for name in next(rows, [])]
        if not any(names):
            raise WorkloadError("line 1 should name the columns, but is empty", path=path, line=1)
        check_names(names, path, 1)
        line = rows.line_num
        for row in rows:
            begins, line = line + 1, rows.line_num
            if row and len(row) != len(names):
                message = f"expected {len(names)} values, but found {len(row)}"
                raise WorkloadError(message, path=path, line=begins)
            if row:
                kept.append(row)
                lines.append(begins)
    except csv.Error as error:
        raise WorkloadError(f"is no table: {error}", path=path, line=rows.line_num) from error
    columns = [Texts.of(column) for column in zip(*kept, strict=True)] or [Texts.of([]) for _ in names]
    return Records(path, dict(zip(names, columns, strict=True)), lines)


def _read_own(stream: LogStream) -> RawLog:
    first = stream.read_line().removeprefix(BYTE_ORDER_MARK)
    if not first.strip():
        raise WorkloadError("line 1 should name the fields, but is empty", path=stream.path, line=1)
    header = first.decode("utf-8", "replace")
    delimiter = max(_DELIMITERS, key=header.count)
    names = header.split(delimiter)
    fields = tuple(name.strip().strip('"').strip() for name in names)
    check_names(fields, stream.path, 1, own=True)
    table = parse_table(stream, TableLayout(fields=fields, separator=delimiter.encode(), first_line=2))
    return RawLog(columns=table.columns, line_of=table.line_of)


def _write_csv(workload: Workload, file: BinaryIO) -> None:
    names = [name for name in FIELDS if name in workload.columns]
    file.write((",".join(names) + "\n").encode())
    for rows in rows_of_text([workload.columns[name] for name in names], ","):
        file.write(rows)


CSV = Format(
    "csv",
    ".csv",
    _read_csv,
    _write_csv,
    "the columns alone; other tables are read by their names",
    records=_records,
)


_METADATA = b"gridtune"


def _read_parquet(
    stream: LogStream, columns: str | None = None, timezone: str | None = None, requested: bool = False
) -> RawLog:
    """Read a table; the options are for others than gridtune's own, as in CSV."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    content = stream.read()
    if not content:
        raise WorkloadError("is empty", path=stream.path)
    try:
        file = pq.ParquetFile(io.BytesIO(content))
        _check_size(file.metadata, stream)
        names = file.schema_arrow.names
        foreign = _is_foreign_parquet(file.schema_arrow) or columns is not None or timezone is not None
        check_names(names, stream.path, None, own=not foreign)
        table = file.read()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        message = f"is not a Parquet file, or it is cut off or damaged ({str(error).partition(chr(10))[0]})"
        raise WorkloadError(message, path=stream.path) from error
    if foreign:
        texts = {name: Texts.of(_texts(table.column(name))) for name in table.column_names}
        records = Records(stream.path, texts, None)
        return log_of_records(records, columns=columns, timezone=timezone, requested=requested)
    own = {name: _column(table.column(name), name, stream) for name in table.column_names}
    return RawLog(columns=own, line_of=lambda *_: None, **_metadata(table.schema.metadata or {}, stream))


def _is_foreign_parquet(schema: Any) -> bool:
    """Return whether a table is another than gridtune's own: submission has another name, or dates."""
    import pyarrow as pa  # noqa: PLC0415

    if _METADATA in (schema.metadata or {}):
        return False
    column = quantities_of(schema.names).get("submit")
    if column == "submit_time":
        return bool(pa.types.is_temporal(schema.types[schema.names.index(column)]))
    return column is not None


def _texts(column: Any) -> list[str]:
    """Return the values of a column as text; durations become seconds."""
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_duration(column.type):
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[column.type.unit]
        column = column.cast(pa.int64()).to_pylist()
        return ["" if value is None else repr(value / per_second) for value in column]
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("s", column.type.tz), safe=False).cast(pa.string())
    return ["" if value is None else str(value) for value in column.to_pylist()]


def _check_size(metadata: Any, stream: LogStream) -> None:
    # Run-length encoding can make very much out of very little, so what counts is the size in memory.
    size = metadata.num_rows * metadata.num_columns * 8
    if size > stream.max_bytes:
        message = f"holds {size:,} bytes once decompressed, more than {stream.max_bytes:,}"
        raise stream.too_large(message)


def _column(column: Any, name: str, stream: LogStream) -> npt.NDArray[Any]:
    import pyarrow as pa  # noqa: PLC0415

    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise WorkloadError(f"holds {kind}, not numbers", path=stream.path, field=name)
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise WorkloadError(f"job {row + 1} has no value", path=stream.path, field=name)
    values: npt.NDArray[Any] = column.to_numpy()
    if values.dtype.kind == "u" and values.size and values.max() > np.iinfo(np.int64).max:
        row = int(np.argmax(values > np.iinfo(np.int64).max))
        raise WorkloadError(f"job {row + 1}: {values[row]} is beyond int64", path=stream.path, field=name)
    floats = name in FLOAT_FIELDS or values.dtype.kind == "f"
    return values.astype(np.float64 if floats else np.int64, copy=False)


def _metadata(metadata: Mapping[bytes, bytes], stream: LogStream) -> dict[str, Any]:
    if _METADATA not in metadata:
        return {}
    try:
        return metadata_from_json(json.loads(metadata[_METADATA]))
    except ValueError as error:
        raise WorkloadError("its gridtune metadata is damaged", path=stream.path) from error


def _write_parquet(workload: Workload, file: BinaryIO) -> None:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    metadata = {**metadata_to_json(workload), "cleaning": dict(workload.cleaning)}
    table = pa.table(dict(workload.columns))
    table = table.replace_schema_metadata({_METADATA: json.dumps(metadata, ensure_ascii=False).encode()})
    pq.write_table(table, file, compression="zstd")


PARQUET = Format("parquet", ".parquet", _read_parquet, _write_parquet, "everything")
