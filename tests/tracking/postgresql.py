"""A PostgreSQL server of the tests' own, where Debian's package (or another) is installed."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["PostgresServer", "missing"]

_ENCODING = ["--encoding=UTF8", "--no-locale", "--auth=trust", "--username=gridtune"]


def _program(name: str) -> str | None:
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    return shutil.which(name) or (str(places[0]) if places else None)


def missing() -> str | None:
    """Return why there is no server to be had; None where there is."""
    if _program("initdb") is None or _program("postgres") is None:
        return "PostgreSQL is not installed (Debian: apt install postgresql)"
    if importlib.util.find_spec("psycopg") is None:
        return 'the driver psycopg is not installed (pip install "gridtune[postgresql]")'
    if os.geteuid() == 0 and not any(entry.pw_name == "postgres" for entry in pwd.getpwall()):
        return "PostgreSQL does not run as root, and there is no user postgres"
    return None


class PostgresServer:
    """A server with a socket and data in a folder that goes with it; it listens on no port."""

    def __init__(self) -> None:
        # The socket's path must be short, and its folder that of the server's user.
        self._folder = Path(tempfile.mkdtemp(prefix="gt-pg-", dir="/tmp"))
        self._owner: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self._folder, user.pw_uid, user.pw_gid)
            self._owner = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        initdb = [_program("initdb"), *_ENCODING, "--no-sync", "-D", str(self._folder / "data")]
        subprocess.run(initdb, check=True, capture_output=True, cwd=self._folder, **self._owner)
        self.start()

    def start(self) -> None:
        """Start the server and wait until it answers."""
        settings = ["listen_addresses=", f"unix_socket_directories={self._folder}", "fsync=off"]
        with (self._folder / "server.log").open("w") as log:
            self._process = subprocess.Popen(
                [
                    str(_program("postgres")),
                    "-D",
                    str(self._folder / "data"),
                    *(f"--{setting}" for setting in settings),
                ],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                **self._owner,
            )
        ready = str(_program("pg_isready"))
        while subprocess.run([ready, "-q", "-h", str(self._folder)], check=False).returncode:
            if self._process.poll() is not None:
                raise AssertionError((self._folder / "server.log").read_text())

    def uri(self, database: str) -> str:
        """Return the URI of a database."""
        return f"postgresql://gridtune@/{database}?host={self._folder}"

    def create(self, database: str, template: str = "template1") -> str:
        """Make a database as a copy of another, and return its URI."""
        import psycopg  # noqa: PLC0415 (an extra)

        with psycopg.connect(self.uri("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{database}" TEMPLATE "{template}"')
        return self.uri(database)

    def stop(self) -> None:
        """Stop the server, whoever is connected."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait()

    def remove(self) -> None:
        """Stop the server and remove its data."""
        self.stop()
        shutil.rmtree(self._folder)
