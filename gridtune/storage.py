"""Files at URLs: S3 and what speaks like it, Google's and Azure's storage, HDFS, and what fsspec has.

pyarrow reads and writes them; of URLs that it does not have, fsspec. Keys come from the environment
(`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, …) or from the machine's role, never from the URL: it is stored with
results.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from gridtune.errors import StorageError, has_secrets

__all__ = ["FileFacts", "Storage", "as_local", "is_url"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_url(text: str | Path) -> bool:
    """Return whether a text is a URL; `file://` is one, a path is none."""
    return isinstance(text, str) and _SCHEME.match(text) is not None


def as_local(url: str) -> Path | None:
    """Return the path of a `file://` URL; None of any other."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme.lower() == "file" else None


@dataclass(frozen=True)
class FileFacts:
    """What a storage says of a file: its bytes, and when it was written in nanoseconds since 1970."""

    size: int
    written: int


class Storage:
    """A place at a URL: a folder with files by their names, or, with the name "", a single file.

    A file is there as a whole or not at all. Nothing is ever appended to one.

    Parameters
    ----------
    url
        Such as `s3://bucket/folder`.

    Raises
    ------
    StorageError
        If nothing here opens such URLs, or it holds a password or a token; by each method, if the storage
        does not do what it is asked.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        if has_secrets(url):
            hint = "give keys by the environment, such as AWS_ACCESS_KEY_ID: the URL is stored with results"
            raise StorageError(f"{url} holds a password or a token", hint=hint)
        self._files, self._root = _file_system(self.url)

    def __str__(self) -> str:
        return self.url

    def facts(self, name: str = "") -> FileFacts | None:
        """Return what there is to say of a file; None if it is not there."""
        (info,) = self._tried("read", name, lambda: self._files.get_file_info([self._path(name)]))
        return _facts(info) if info.is_file else None

    def files(self, folder: str) -> dict[str, FileFacts]:
        """Return the files directly in a folder, by name and sorted; {} if there is no such folder."""
        facts = {info.base_name: _facts(info) for info in self._listed(folder) if info.is_file}
        return dict(sorted(facts.items()))

    def folders(self, folder: str = "") -> list[str]:
        """Return the names of the folders directly in a folder, sorted."""
        return sorted(info.base_name for info in self._listed(folder) if not info.is_file)

    def read(self, name: str = "") -> bytes:
        """Return a file's content."""

        def read() -> bytes:
            with self._files.open_input_stream(self._path(name), compression=None) as stream:
                return bytes(stream.read())

        content: bytes = self._tried("read", name, read)
        return content

    def write(self, name: str, content: bytes) -> None:
        """Write a file; one of that name is replaced."""

        def write() -> None:
            with self._files.open_output_stream(self._path(name), compression=None) as stream:
                stream.write(content)

        self._tried("write", name, write)

    def delete(self, name: str) -> None:
        """Delete a file; it may be gone already."""

        def delete() -> None:
            try:
                self._files.delete_file(self._path(name))
            except FileNotFoundError:
                return

        self._tried("delete", name, delete)

    def _listed(self, folder: str) -> list[Any]:
        from pyarrow.fs import FileSelector  # noqa: PLC0415

        selector = FileSelector(self._path(folder), allow_not_found=True)
        infos: list[Any] = self._tried("list", folder, lambda: self._files.get_file_info(selector))
        return infos

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _tried(self, verb: str, name: str, action: Any) -> Any:
        try:
            return action()
        except FileNotFoundError:
            raise StorageError("no such file", path=self._shown(name)) from None
        except Exception as fault:  # fsspec's file systems raise what their clients do
            reason = (str(fault).splitlines() or [type(fault).__name__])[0]
            hint = "is the address right, and are there keys for it (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, …)?"
            raise StorageError(f"cannot {verb} {self._shown(name)}: {reason}", hint=hint) from None

    def _shown(self, name: str) -> str:
        return f"{self.url}/{name}" if name else self.url


def _facts(info: Any) -> FileFacts:
    return FileFacts(int(info.size), int(info.mtime_ns or 0))


def _file_system(url: str) -> tuple[Any, str]:
    """Return pyarrow's file system of a URL, and the path in it."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import fs  # noqa: PLC0415

    try:
        files, path = fs.FileSystem.from_uri(url)
    except (pa.ArrowException, OSError, ValueError) as fault:
        return _of_fsspec(url, str(fault).splitlines()[0])
    return files, path.rstrip("/")


def _of_fsspec(url: str, reason: str) -> tuple[Any, str]:
    from pyarrow import fs  # noqa: PLC0415

    try:
        import fsspec  # type: ignore[import-untyped]  # noqa: PLC0415
    except ModuleNotFoundError:
        hint = "pip install fsspec, and what it needs for such addresses"
        raise StorageError(f"cannot open {url}: {reason}", hint=hint) from None
    try:
        files, path = fsspec.core.url_to_fs(url)
    except Exception as fault:  # each scheme's package has its own
        raise StorageError(f"cannot open {url}: {fault}", hint=f"pyarrow says: {reason}") from None
    return fs.PyFileSystem(fs.FSSpecHandler(files)), path.rstrip("/")
