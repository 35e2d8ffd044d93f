"""Downloading public logs into the cache: checked, and whole or not at all."""

from __future__ import annotations

import gzip
import re
import shutil
import urllib.parse
import urllib.request
import zlib
from pathlib import Path
from typing import Any

import pooch
import requests

from gridtune.errors import TraceError
from gridtune.network import network_reason
from gridtune.workload.catalogue import CatalogueEntry, cache_folder, find_log

__all__ = ["fetch"]

_TIMEOUT = 60.0


def fetch(
    name: str,
    *,
    mirror: str | Path | None = None,
    sha256: str | None = None,
    unverified: bool = False,
    progress: bool = False,
) -> Path:
    """Download a catalogued log into the cache and return its path.

    The file appears under its name only when it is complete and its checksum is right. A download that fails
    is tried once more.

    Parameters
    ----------
    name
        Of a log in the catalogue.
    mirror
        A folder (searched with its subfolders), or an http(s) or file URL: of the file, or of a folder that
        holds it. By default the URL in the catalogue.
    sha256
        The expected checksum, where the catalogue has none.
    unverified
        Accept a log without a known checksum.
    progress
        Show a progress bar on standard error.

    Raises
    ------
    TraceError
        If the log is not in the catalogue, cannot be downloaded, or its content is not what was published.
    """
    entry = find_log(name)
    expected = _expected_checksum(entry, sha256, unverified=unverified)

    def download(_: str, target: str, cache: pooch.Pooch) -> None:
        source = _source(entry, mirror)
        if isinstance(source, Path):
            shutil.copyfile(source, target)
        else:
            hooks = {"response": _keep_compressed}
            pooch.HTTPDownloader(progressbar=progress, timeout=_TIMEOUT, hooks=hooks)(source, target, cache)
        if expected is None:
            _check_gzip(Path(target))
        # Temporary files are readable by their owner alone; a cache may be shared.
        Path(target).chmod(0o644)

    pooch.get_logger().setLevel("WARNING")
    cache = pooch.create(cache_folder(), "", registry={entry.file_name: expected}, retry_if_failed=1)
    place = str(mirror or entry.url)
    try:
        return Path(cache.fetch(entry.file_name, downloader=download))
    except requests.HTTPError as error:
        status = f"{error.response.status_code} {error.response.reason}"
        hint = "if the log has moved, pass --mirror URL or --mirror FOLDER"
        raise TraceError(f"{place}: the server answered {status}", hint=hint) from None
    except OSError as error:
        hint = "try again, or without a network pass --mirror FOLDER"
        raise TraceError(f"{place}: the download failed: {network_reason(error)}", hint=hint) from None
    except ValueError as error:
        raise TraceError(f"{place}: {error}", hint="try another --mirror") from None


def _expected_checksum(entry: CatalogueEntry, given: str | None, *, unverified: bool) -> str | None:
    if given is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", given):
        raise TraceError(f"{given!r} is not a SHA-256, which has 64 hexadecimal digits", field="sha256")
    if entry.sha256 and given and given.lower() != entry.sha256:
        raise TraceError(f"the catalogue has the SHA-256 {entry.sha256} for {entry.name}", field="sha256")
    expected = entry.sha256 or given
    if expected is None and not unverified:
        raise TraceError(
            f"the catalogue has no checksum for {entry.name}, so a download cannot be verified",
            hint="pass --sha256 SUM if you know it, or --unverified to accept the file as it is",
        )
    return expected


def _source(entry: CatalogueEntry, mirror: str | Path | None) -> Path | str:
    """Return the local file or the URL to read."""
    if mirror is None:
        if entry.url is None:
            raise TraceError(
                f"{entry.name} has no public URL", hint="pass --mirror FOLDER, a folder that holds the file"
            )
        return entry.url
    text = str(mirror)
    url = urllib.parse.urlsplit(text)
    if url.scheme in {"http", "https"}:
        return text if text.endswith(entry.file_name) else f"{text.rstrip('/')}/{entry.file_name}"
    if "://" in text and url.scheme != "file":
        raise TraceError(f"a mirror is a folder or an http(s) or file URL, not {mirror}")
    folder = Path(urllib.request.url2pathname(url.path) if url.scheme == "file" else mirror).expanduser()
    if folder.is_file():
        return folder
    if matches := sorted(folder.rglob(entry.file_name)):
        return matches[0]
    raise TraceError(f"no {entry.file_name} in this folder", path=folder)


def _keep_compressed(response: requests.Response, **_: Any) -> None:
    """Keep a .gz file as it is published: some servers declare it a compressed transfer of a plain file."""
    response.raw.headers.pop("Content-Encoding", None)


def _check_gzip(path: Path) -> None:
    try:
        with gzip.open(path) as file:
            while file.read(1 << 20):
                pass
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"the download is not a complete gzip file: {error}") from None
