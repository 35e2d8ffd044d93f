"""Public logs: the catalogue, their download, and the search for the file that a trace's name stands for.

The logs themselves are not part of gridtune. They are downloaded into the cache from where they are
published: checked, and whole or not at all.
"""

from __future__ import annotations

import difflib
import gzip
import hashlib
import json
import os
import re
import shutil
import sysconfig
import tomllib
import urllib.parse
import urllib.request
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from gridtune.errors import TraceError
from gridtune.storage import Storage, as_local, draft_of, is_url, network_reason, user_cache

_ARCHIVE = "https://www.cs.huji.ac.il/labs/parallel/workload"

#: To be cited with every log of the Parallel Workloads Archive, as it asks.
ARCHIVE_CITATION = (
    "D. G. Feitelson, D. Tsafrir, D. Krakov, “Experience with using the Parallel Workloads Archive”, "
    "J. Parallel Distrib. Comput. 74(10), 2014"
)


@dataclass(frozen=True)
class CatalogueEntry:
    """A public log.

    Attributes
    ----------
    name
        Its name in commands and search spaces.
    title
        Machine and site.
    file_name
        The file as published.
    processors, jobs
        Machine size and number of jobs in the file.
    thanks
        The people that the archive asks to acknowledge.
    caveat
        Limits of its use.
    url
        The address at which it is published, if any.
    sha256
        Of the file as published; None where we have not had the file.
    """

    name: str
    title: str
    file_name: str
    processors: int
    jobs: int
    thanks: str
    caveat: str
    url: str | None = None
    sha256: str | None = None

    def expected_checksum(self, given: str | None, *, unverified: bool) -> str | None:
        """Return the SHA-256 that a download must have; None if it is not verified."""
        if given is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", given):
            raise TraceError(f"{given!r} is not a SHA-256, which has 64 hexadecimal digits", field="sha256")
        if self.sha256 and given and given.lower() != self.sha256:
            raise TraceError(f"the catalogue has the SHA-256 {self.sha256} for {self.name}", field="sha256")
        expected = self.sha256 or given
        if expected is None and not unverified:
            raise TraceError(
                f"the catalogue has no checksum for {self.name}, so a download cannot be verified",
                hint="pass --sha256 SUM if you know it, or --unverified to accept the file as it is",
            )
        return expected

    def source_of(self, mirror: str | Path | None) -> Path | str:
        """Return the local file or the URL to read."""
        if mirror is None:
            if self.url is None:
                raise TraceError(
                    f"{self.name} has no public URL",
                    hint="pass --mirror FOLDER, a folder that holds the file",
                )
            return self.url
        text = str(mirror)
        url = urllib.parse.urlsplit(text)
        if url.scheme in {"http", "https"}:
            return text if text.endswith(self.file_name) else f"{text.rstrip('/')}/{self.file_name}"
        if "://" in text and url.scheme != "file":
            raise TraceError(f"a mirror is a folder or an http(s) or file URL, not {mirror}")
        folder = Path(urllib.request.url2pathname(url.path) if url.scheme == "file" else mirror).expanduser()
        if folder.is_file():
            return folder
        if matches := sorted(folder.rglob(self.file_name)):
            return matches[0]
        raise TraceError(f"no {self.file_name} in this folder", path=folder)


def _catalogue() -> Mapping[str, CatalogueEntry]:
    written = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    entries = {}
    for name, facts in written.items():
        path = facts.pop("path", None)
        if path is not None:
            facts |= {"file_name": path.rpartition("/")[2], "url": f"{_ARCHIVE}/{path}"}
        entries[name] = CatalogueEntry(name=name, **facts)
    return MappingProxyType(entries)


#: The public logs by name.
CATALOGUE = _catalogue()


def find_log(name: str) -> CatalogueEntry:
    """Return a log of the catalogue by its name or file name.

    Raises
    ------
    TraceError
        If there is none; the hint names what was probably meant.
    """
    if entry := _catalogued(name):
        return entry
    raise TraceError(f"the catalogue has no log {name!r}", hint=_suggest(name, list(CATALOGUE)))


def _catalogued(name: str) -> CatalogueEntry | None:
    wanted = name.strip().lower()
    return next((log for log in CATALOGUE.values() if wanted in {log.name, log.file_name.lower()}), None)


def cache_folder() -> Path:
    """Return the folder of downloaded logs: `$GRIDTUNE_CACHE_DIR`, else `gridtune` in the user's cache."""
    if folder := os.environ.get("GRIDTUNE_CACHE_DIR"):
        return Path(folder).expanduser()
    return user_cache() / "traces"


def bundled_traces() -> dict[str, Path]:
    """Return the bundled traces by their short names."""
    return {
        path.name.removesuffix(".swf.gz"): path for path in sorted(shipped_folder("traces").glob("*.swf.gz"))
    }


def file_checksum(path: Path) -> str:
    """Return the SHA-256 of a file, as `sha256sum` gives it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def resolve_trace(reference: str | Path, *, base: Path | None = None) -> Path:
    """Return the file (or folder) that a name or path stands for.

    A URL (`s3://bucket/log.swf.gz`) is downloaded into the cache, again if its size or time has changed.
    Otherwise these are tried in this order: the path itself; the path in `base`; in the bundled `traces/`;
    in `$GRIDTUNE_TRACE_DIR`; in the cache of downloaded logs; the name of a bundled trace; the name (or file
    name) of a catalogued log in `$GRIDTUNE_TRACE_DIR` with its subfolders, or in the cache; the name of any
    other file in a subfolder of `$GRIDTUNE_TRACE_DIR`.

    Parameters
    ----------
    reference
        Such as `logs/mine.swf.gz`, `quickstart` or `kth-sp2`.
    base
        The folder that relative paths in a search space are relative to.

    Raises
    ------
    TraceError
        If there is no such file, if there are several, or if a catalogued log is not as published.
    """
    if isinstance(reference, str) and is_url(reference):
        return as_local(reference) or _cached(reference)
    try:
        path = Path(reference).expanduser()
    except RuntimeError:
        # `~NAME` of no user.
        path = Path(reference)
    value = os.environ.get("GRIDTUNE_TRACE_DIR")
    own = Path(value).expanduser() if value else None
    folders = [Path(), base, shipped_folder("traces"), own, cache_folder()]
    candidates = [folder / path for folder in folders if folder is not None]
    name = str(reference)
    try:
        file = next((candidate for candidate in candidates if candidate.is_file()), None)
    except OSError:
        # The operating system takes no name as long as this.
        raise _not_found(f"{name[:80]}…", base) from None
    if file is not None:
        return file
    if bundled := bundled_traces().get(name):
        return bundled
    entry = _catalogued(name)
    if entry is None:
        if folder := next((candidate for candidate in candidates if candidate.is_dir()), None):
            return folder
        if file := _within(own, name):
            return file
        raise _not_found(name, base)
    copies = [*(sorted(own.rglob(entry.file_name)) if own else ()), cache_folder() / entry.file_name]
    copy = next((path for path in copies if path.is_file()), None)
    if copy is None:
        mirror = " --mirror FOLDER (it has no public address)" if entry.url is None else ""
        other = f"set GRIDTUNE_TRACE_DIR to a folder that holds {entry.file_name}"
        hint = f"gridtune traces fetch {entry.name}{mirror}, or {other}"
        raise TraceError(f"the log {entry.name!r} is not on this machine", hint=hint)
    if entry.sha256 is not None and (checksum := file_checksum(copy)) != entry.sha256:
        message = f"this is not {entry.name} as published: SHA-256 {checksum}, not {entry.sha256}"
        hint = "give its path instead of the catalogue's name to use it all the same"
        raise TraceError(message, path=copy, hint=hint)
    return copy


def _cached(url: str) -> Path:
    """Return the copy of a file at a URL, downloaded if there is none or it is not that file any more."""
    storage = Storage(url)
    facts = storage.facts()
    if facts is None:
        raise TraceError(f"no file is at {url}", hint="a folder of logs is read from a tar archive of it")
    folder = cache_folder() / "urls" / hashlib.sha256(storage.url.encode()).hexdigest()[:16]
    path, about = folder / PurePosixPath(urlsplit(storage.url).path).name, folder / "about.json"
    written = json.dumps({"url": storage.url, **asdict(facts)})
    if path.is_file() and about.is_file() and about.read_text(encoding="utf-8") == written:
        return path
    with draft_of(path) as draft:
        draft.write_bytes(storage.read())
        about.unlink(missing_ok=True)
    about.write_text(written, encoding="utf-8")
    return path


def _within(folder: Path | None, name: str) -> Path | None:
    """Return the one file of that name in a subfolder."""
    if folder is None or Path(name).name != name or not name:
        return None
    files = sorted(path for path in folder.rglob("*") if path.name == name and path.is_file())
    if len(files) > 1:
        examples = " and ".join(str(path.relative_to(folder)) for path in files[:2])
        message = f"{len(files)} files are named {name!r} in {folder}: {examples}"
        raise TraceError(message, hint="give the path")
    return files[0] if files else None


def _not_found(name: str, base: Path | None) -> TraceError:
    folders = [folder for folder in (Path.cwd(), base, shipped_folder("traces")) if folder is not None]
    places = ", ".join(dict.fromkeys(map(str, folders)))
    return TraceError(
        f"no trace {name!r}: neither a file in {places}, GRIDTUNE_TRACE_DIR or {cache_folder()}, "
        f"nor the name of a bundled or catalogued trace",
        hint=_suggest(name, [*bundled_traces(), *CATALOGUE]),
    )


def _suggest(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5)
    meant = f"did you mean {' or '.join(repr(match) for match in close)}? " if close else ""
    log = next((match for match in close if match in CATALOGUE), "NAME")
    return f"{meant}gridtune traces list shows all names, gridtune traces fetch {log} downloads a public log"


def shipped_folder(name: str) -> Path:
    """Return the folder `traces` or `search_spaces`: the repository's, or an installed package's copy.

    A working copy has them beside the package. An installation has them in `share/gridtune/` of its
    environment, or of the user's home after `pip install --user`, where a wheel puts data that belongs to no
    module.
    """
    repository = Path(__file__).resolve().parents[2]
    if (repository / "pyproject.toml").is_file():
        return repository / name
    schemes = (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user"))
    places = [Path(sysconfig.get_path("data", scheme)) / "share" / "gridtune" / name for scheme in schemes]
    return next((place for place in places if place.is_dir()), places[0])


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
    import pooch  # noqa: PLC0415 - costs more to import than all other commands need
    import requests  # noqa: PLC0415

    entry = find_log(name)
    expected = entry.expected_checksum(sha256, unverified=unverified)

    def download(_: str, target: str, cache: Any) -> None:
        source = entry.source_of(mirror)
        if isinstance(source, Path):
            shutil.copyfile(source, target)
        else:
            # Some servers declare a .gz file a compressed transfer of a plain one: keep it as it is.
            hooks = {
                "response": lambda response, **_: response.raw.headers.pop("Content-Encoding", None) and None
            }
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


def _check_gzip(path: Path) -> None:
    try:
        with gzip.open(path) as file:
            while file.read(1 << 20):
                pass
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"the download is not a complete gzip file: {error}") from None
