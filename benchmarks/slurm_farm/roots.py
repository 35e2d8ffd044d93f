"""Roots of Debian with a Slurm each, and the data base that their accounting shares."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

#: The suites of Debian's archive that have a Slurm, by its release: 22.05.8, 24.11.5 and 26.05.5.
SUITES = {"22.05": "bookworm", "24.11": "trixie", "26.05": "forky"}
PACKAGES = "slurmctld,slurmd,slurm-client,slurmdbd,munge"
#: Where debootstrap keeps what it knows of each suite; the newest ones have no file there.
SCRIPTS = Path("/usr/share/debootstrap/scripts")
DATABASE_PORT = 33563
#: Jobs are those of user1 to user8, with these numbers in every root.
USERS = {f"user{number}": 2000 + number for number in range(1, 9)}


def run(*command: str | Path) -> str:
    """Run a command and return its output.

    Raises
    ------
    SystemExit
        If it fails; with the end of what it printed.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def root_of(work: Path, version: str) -> Path:
    """Return the root of a release, made by debootstrap if it is not there; or `version` if it is a path."""
    if "/" in version:
        return Path(version).resolve()
    if version not in SUITES:
        raise SystemExit(f"no suite of Debian with Slurm {version}; there are {', '.join(SUITES)}")
    root, suite, made = work / version, SUITES[version], work / f"{version}.partial"
    if not root.exists():
        words = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}"]
        # The keys of a newer suite are in a root made before; Debian renews them every two years.
        keys = sorted(work.glob("*/usr/share/keyrings/debian-archive-keyring.gpg"))
        words += [f"--keyring={keys[-1]}"] if keys else []
        script = [] if (SCRIPTS / suite).exists() else [str(SCRIPTS / "sid")]
        run(*words, suite, made, mirror(), *script)
        made.rename(root)
    return root


def mirror() -> str:
    """Return the archive that this machine's packages come from.

    Raises
    ------
    SystemExit
        If apt's files name none.
    """
    places = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    text = "\n".join(place.read_text(encoding="utf-8") for place in places if place.is_file())
    found = re.search(r"^(?:deb(?: \[.*?\])?|URIs:) +(\S+?/debian)/?(?:\s|$)", text, re.MULTILINE)
    if found is None:
        raise SystemExit("apt's sources name no archive of Debian: debootstrap has none to read from")
    return found[1]


def prepare(root: Path, shared: Path) -> None:
    """Mount a shared folder in a root, under the same path, and /proc; add the users.

    The mounts are those of this process and its children alone: see `own_mounts`.
    """
    inside = root / shared.relative_to("/")
    inside.mkdir(parents=True, exist_ok=True)
    run("mount", "--bind", shared, inside)
    run("mount", "-t", "proc", "proc", root / "proc")
    # The host's name stands for 127.0.0.1 inside too.
    shutil.copy("/etc/hosts", root / "etc/hosts")
    known = (root / "etc/passwd").read_text()
    for name, number in USERS.items():
        if f"{name}:" not in known:
            run("chroot", root, "useradd", "--no-create-home", "--uid", str(number), name)


def own_mounts() -> None:
    """Start this program again with private mounts, which end with it."""
    if os.environ.get("SLURM_FARM_MOUNTS") != "own":
        os.environ["SLURM_FARM_MOUNTS"] = "own"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])


def build(shared: Path) -> None:
    """Compile the clock and the program of the jobs, and make four devices that stand for GPUs.

    The host's C library must be as old as that of each root, as on Debian 12.
    """
    here = Path(__file__).parent
    for source, options in (("clock", ["-shared", "-fPIC", "-ldl", "-lpthread"]), ("work", [])):
        made = shared / (f"{source}.so" if options else source)
        if not made.exists():
            run("gcc", "-O2", "-o", made, here / f"{source}.c", *options)
    for number in range(4):
        device = shared / f"gpu{number}"
        if not device.exists():
            os.mknod(device, 0o020666, os.makedev(1, 3))


def ask_database(shared: Path, command: str) -> bool:
    """Send a command to the data base; return False if it does not answer."""
    words = ["mariadb", "--no-defaults", "-S", str(shared / "mariadb.sock"), "-u", "root", "-e", command]
    return not subprocess.run(words, capture_output=True, check=False).returncode


def start_database(shared: Path) -> None:
    """Start MariaDB on the loopback device, unless it runs; all clusters share it until `stop_database`."""
    if ask_database(shared, "select 1"):
        return
    folder = shared / "mariadb"
    if not folder.exists():
        options = ["--user=root", "--auth-root-authentication-method=normal", "--skip-test-db"]
        run("mariadb-install-db", f"--datadir={folder}", *options)
    options = [f"--datadir={folder}", f"--socket={shared / 'mariadb.sock'}", f"--port={DATABASE_PORT}"]
    options += ["--bind-address=127.0.0.1", "--innodb-flush-log-at-trx-commit=0", "--skip-log-bin"]
    with (shared / "mariadb.log").open("w") as log:
        subprocess.Popen(
            ["mariadbd", "--no-defaults", "--user=root", "--innodb-lock-wait-timeout=900", *options],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    for _ in range(300):
        if ask_database(shared, "select 1"):
            break
        time.sleep(0.2)
    else:
        raise SystemExit(f"MariaDB does not start: see {shared / 'mariadb.log'}")
    for host in ("%", "localhost"):
        ask_database(shared, f"create user if not exists slurm@'{host}' identified by 'slurm'")
        ask_database(shared, f"grant all on *.* to slurm@'{host}'")


def drop(shared: Path, name: str) -> None:
    """Remove the accounting of an earlier cluster of this name."""
    ask_database(shared, f"drop database if exists slurm_{name}")
