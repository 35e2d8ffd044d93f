"""Files that appear whole, files at URLs (of S3 and its like, Google, Azure, HDFS and more), and servers.

pyarrow reads and writes them; of URLs that it does not have, fsspec. Keys come from the environment
(`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, …) or from the machine's role, never from the URL: it is stored with
results.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from gridtune.errors import GridtuneError, StorageError, without_secrets

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_url(text: str | Path) -> bool:
    """Return whether a text is a URL; `file://` is one, a path is none."""
    return isinstance(text, str) and _SCHEME.match(text) is not None


def user_cache() -> Path:
    """Return gridtune's folder in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "gridtune"


def as_local(url: str) -> Path | None:
    """Return the path of a `file://` URL; None of any other."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme.lower() == "file" else None


@contextlib.contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield a file beside `path`, which it replaces in one step if nothing is raised before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.draft")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@dataclass(frozen=True)
class FileFacts:
    """The size of a file in bytes, and the time of its last writing in nanoseconds since 1970."""

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
        if without_secrets(url) != url:
            hint = "give keys by the environment, such as AWS_ACCESS_KEY_ID: the URL is stored with results"
            raise StorageError(f"{url} holds a password or a token", hint=hint)
        self._files, self._root = _file_system(self.url)

    def __str__(self) -> str:
        return self.url

    def facts(self, name: str = "") -> FileFacts | None:
        """Return size and time of a file; None if it is not there."""
        with self._named("read", name):
            (info,) = self._files.get_file_info([self._path(name)])
        return _facts(info) if info.is_file else None

    def files(self, folder: str) -> dict[str, FileFacts]:
        """Return the files directly in a folder, by name and sorted; {} if there is no such folder."""
        facts = {info.base_name: _facts(info) for info in self._listed(folder) if info.is_file}
        return dict(sorted(facts.items()))

    def folders(self) -> list[str]:
        """Return the names of the folders directly in it, sorted."""
        return sorted(info.base_name for info in self._listed("") if not info.is_file)

    def _listed(self, folder: str) -> list[Any]:
        from pyarrow.fs import FileSelector  # noqa: PLC0415

        with self._named("list", folder):
            infos: list[Any] = self._files.get_file_info(
                FileSelector(self._path(folder), allow_not_found=True)
            )
        return infos

    def read(self, name: str = "") -> bytes:
        """Return a file's content."""
        path = self._path(name)
        with self._named("read", name), self._files.open_input_stream(path, compression=None) as stream:
            return bytes(stream.read())

    def write(self, name: str, content: bytes) -> None:
        """Write a file; one of that name is replaced."""
        path = self._path(name)
        with self._named("write", name), self._files.open_output_stream(path, compression=None) as stream:
            stream.write(content)

    def delete(self, name: str) -> None:
        """Delete a file; it may be gone already."""
        with self._named("delete", name), contextlib.suppress(FileNotFoundError):
            self._files.delete_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    @contextlib.contextmanager
    def _named(self, verb: str, name: str) -> Iterator[None]:
        """Turn a fault of the storage into an error that names the file's URL."""
        url = f"{self.url}/{name}" if name else self.url
        try:
            yield
        except FileNotFoundError:
            raise StorageError("no such file", path=url) from None
        except Exception as fault:  # fsspec's file systems raise what their clients do
            reason = (str(fault).splitlines() or [type(fault).__name__])[0]
            hint = "is the address right, and are there keys for it (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, …)?"
            raise StorageError(f"cannot {verb} {url}: {reason}", hint=hint) from None


def _facts(info: Any) -> FileFacts:
    return FileFacts(int(info.size), int(info.mtime_ns or 0))


def _file_system(url: str) -> tuple[Any, str]:
    """Return pyarrow's file system of a URL, and the path in it; fsspec's where pyarrow has none."""
    import fsspec  # type: ignore[import-untyped]  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import fs  # noqa: PLC0415

    try:
        files, path = fs.FileSystem.from_uri(url)
    except (pa.ArrowException, OSError, ValueError) as refusal:
        try:
            opened, path = fsspec.core.url_to_fs(url)
        except Exception as fault:  # each scheme's package has its own
            hint = f"pyarrow says: {str(refusal).splitlines()[0]}"
            raise StorageError(f"cannot open {url}: {fault}", hint=hint) from None
        files = fs.PyFileSystem(fs.FSSpecHandler(opened))
    return files, path.rstrip("/")


_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
#: Characters of an error without a reason from the operating system that a message shows.
_SHOWN = 200


def network_reason(fault: BaseException) -> str:
    """Return why a server was not reached: what the operating system said, or else the error's first line.

    An error of ours says it already. HTTP clients wrap the reason three or four times, each time with the
    whole address.
    """
    if isinstance(fault, GridtuneError):
        return without_secrets(fault.message)
    causes = list(_causes(fault))
    said = [str(cause.strerror) for cause in causes if isinstance(cause, OSError) and cause.strerror]
    if not said:
        return without_secrets(str(fault).strip().partition("\n")[0])[:_SHOWN] or type(fault).__name__
    proxy = any(type(cause).__name__ == "ProxyError" for cause in causes)
    reason = said[-1].lower()
    return f"the proxy (HTTPS_PROXY or HTTP_PROXY) cannot be reached: {reason}" if proxy else reason


def _causes(fault: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it wraps, the innermost last."""
    seen: set[int] = set()
    current: BaseException | None = fault
    while current is not None and id(current) not in seen:
        yield current
        seen.add(id(current))
        wrapped = [*current.args, getattr(current, "reason", None), current.__cause__, current.__context__]
        current = next(
            (inner for inner in wrapped if isinstance(inner, BaseException) and id(inner) not in seen), None
        )


def skip_proxy_for_this_machine(address: str) -> None:
    """Let this process ask a server of this machine itself: a proxy asks the proxy's own machine.

    Parameters
    ----------
    address
        Of the server; one elsewhere changes nothing.
    """
    if urlsplit(address).hostname not in _THIS_MACHINE:
        return
    for name in ("no_proxy", "NO_PROXY"):
        there = [host for host in os.environ.get(name, "").split(",") if host]
        if "*" not in there:
            os.environ[name] = ",".join(dict.fromkeys([*there, *_THIS_MACHINE]))
