"""Segments of a long journal: files of compressed columns, each of which can be read alone.

A segment is an Arrow file. Identities and metrics are columns; facts that results share, such as the
configuration, are JSON texts, each once. The file is named after its checksum and never changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from gridtune.core.cells import CellResult, finite_json
from gridtune.errors import SweepError

#: Columns of each result alone, and of facts that results share; and how names of metrics' columns begin.
_OWN = ("cell_id", "identity", "seconds")
_FACTS = {
    "configuration": ("configuration_id", "workload", "configuration", "traces"),
    "replicate": ("replicate", "seed", "own_parameters"),
    "outcome": ("state", "notes", "error", "worker"),
}
_METRIC = "metric."

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def compact_json(value: Any) -> bytes:
    """Return JSON without spaces; NaN is null, and infinities are words."""
    try:
        return _encode(value).encode()
    except (TypeError, ValueError):
        # NaN, a NumPy number, a path: to look for them in every result takes as long as writing it.
        return _encode(finite_json(value)).encode()


class Segment:
    """A file with some thousand results as compressed columns, which can be read alone."""

    @staticmethod
    def of(results: Sequence[CellResult]) -> bytes:
        """Return results as the content of a segment."""
        columns = {name: [getattr(one, name) for one in results] for name in _OWN}
        for column, names in _FACTS.items():
            facts = ({name: getattr(one, name) for name in names} for one in results)
            columns[column] = pa.array(map(compact_json, facts)).dictionary_encode()
        columns["metrics"] = pa.array(compact_json(list(one.metrics)) for one in results).dictionary_encode()
        for name in dict.fromkeys(name for one in results for name in one.metrics):
            columns[_METRIC + name] = pa.array([one.metrics.get(name) for one in results], pa.float64())
        table, sink = pa.table(columns), pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 9))
        with pa.ipc.new_file(sink, table.schema, options=options) as file:
            file.write_table(table)
        return bytes(sink.getvalue().to_pybytes())

    @staticmethod
    def name(content: bytes) -> str:
        """Return the name of the file with this content, which holds its checksum."""
        return f"{hashlib.sha256(content).hexdigest()[:16]}.arrow"

    @classmethod
    def read(cls, path: Path, shared: dict[bytes, Any]) -> Iterable[CellResult]:
        """Yield the results of a segment.

        Parameters
        ----------
        path
            Its file.
        shared
            Facts by their text, which results of all segments share; those of this one are added.

        Raises
        ------
        SweepError
            If it is missing or not what was written.
        """
        content = path.read_bytes() if path.exists() else b""
        if cls.name(content) != path.name:
            fault = "has been altered: its checksum is not that in its name" if content else "is missing"
            hint = f"`gridtune results repair {path.parents[1]}` sets it aside; the sweep reruns its cells"
            raise SweepError(f"this segment of the journal {fault}", path=path, hint=hint)
        table = pa.ipc.open_file(pa.py_buffer(content)).read_all().combine_chunks()
        columns = [table[name].to_pylist() for name in _OWN]
        for name in (*_FACTS, "metrics"):
            encoded = table[name].combine_chunks()
            texts = encoded.dictionary.to_pylist()
            shared |= {text: json.loads(text) for text in texts if text not in shared}
            facts = [shared[text] for text in texts]
            if name == "metrics":
                facts = [{one: table[_METRIC + one].to_numpy() for one in measured} for measured in facts]
            columns.append([facts[place] for place in encoded.indices.to_pylist()])
        for row, (*own, configuration, replicate, outcome, measured) in enumerate(zip(*columns, strict=True)):
            result = object.__new__(CellResult)
            # Attributes that come one by one share their names with other results.
            attributes = result.__dict__
            attributes["cell_id"], attributes["identity"], attributes["seconds"] = own
            attributes["replicate"], attributes["seed"] = replicate["replicate"], replicate["seed"]
            attributes.update(configuration, **outcome)
            given, further = configuration["configuration"], replicate["own_parameters"]
            attributes["parameters"] = {**given, **further} if further else given
            # A dict for each of a million results takes a gigabyte: it is made when it is asked for.
            attributes["_columns"] = measured, row
            yield result
