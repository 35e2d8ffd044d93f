"""A Slurm of the tests' own: Debian's daemons, three nodes on this machine, all in one folder."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.ray_nodes import HERE, processes_of
from gridtune.sweep.execution.cluster import free_ports
from tests.integration.processes import wait_for

NODES = ("n1", "n2", "n3")
_DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def why_not() -> str | None:
    """Return why no Slurm can be started here; None if one can."""
    missing = [name for name in _DAEMONS if shutil.which(name, path=_PATH) is None]
    if missing:
        return f"no {', '.join(missing)} here: apt-get install slurm-wlm munge"
    return None if os.geteuid() == 0 else "only root can start Slurm's daemons"


@dataclass
class Slurm:
    """The daemons, and commands to them."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a user of this Slurm has."""
        own = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "SLURM_"))}
        return {**own, "PATH": _PATH, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def run(self, *command: str, cwd: Path | None = None) -> str:
        """Run a command and return what it prints."""
        done = subprocess.run(
            command, env=self.environment, cwd=cwd, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def job(self, job: str) -> dict[str, str]:
        """Return what Slurm says of a job."""
        words = self.run("scontrol", "show", "job", job, "--oneliner").split()
        return dict(word.split("=", 1) for word in words if "=" in word)


def _configuration(folder: Path, host: str) -> str:
    ports = free_ports(1 + len(NODES))
    nodes = "\n".join(
        f"NodeName={name} NodeHostname={host} NodeAddr={HERE} Port={port} CPUs=2 RealMemory=1000"
        for name, port in zip(NODES, ports[1:], strict=True)
    )
    return f"""ClusterName=test
SlurmctldHost={host}({HERE})
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# For as long as credentials live Slurm lets a job rest that was queued again: two minutes by itself.
AuthInfo=socket={folder}/munge.socket,cred_expire=5
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdSpoolDir={folder}/%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
{nodes}
PartitionName=main Nodes=ALL Default=YES State=UP
"""


@contextlib.contextmanager
def own_slurm() -> Iterator[Slurm]:
    """Start a Slurm, and end all of it by its processes' numbers."""
    folder = Path(tempfile.mkdtemp(prefix="gt-slurm-"))
    for name in ("state", *NODES):
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(secrets.token_bytes(1024))
    (folder / "munge.key").chmod(0o400)
    host = os.uname().nodename.partition(".")[0]
    (folder / "slurm.conf").write_text(_configuration(folder, host))
    slurm = Slurm(folder)
    munge = ["munged", "--foreground", f"--key-file={folder}/munge.key", f"--socket={folder}/munge.socket"]
    munge += [f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", "--force"]
    munge += [f"--seed-file={folder}/munged.seed"]
    daemons = [munge, ["slurmctld", "-D"], *(["slurmd", "-D", "-N", name] for name in NODES)]
    started = []
    try:
        for daemon in daemons:
            with (folder / "daemons.log").open("ab") as log:
                started.append(
                    subprocess.Popen(daemon, env=slurm.environment, stdout=log, stderr=subprocess.STDOUT)
                )
            if daemon is munge:
                wait_for("munged", (folder / "munge.socket").exists)

        def ready() -> bool:
            if any(process.poll() is not None for process in started):
                logs = "\n".join(path.read_text(errors="replace")[-2000:] for path in folder.glob("*.log"))
                pytest.fail(f"Slurm did not start:\n{logs}")
            states = subprocess.run(
                ["sinfo", "--noheader", "--Node", "--format=%T"],
                env=slurm.environment,
                capture_output=True,
                text=True,
                check=False,
            )
            return states.stdout.split() == ["idle"] * len(NODES)

        wait_for("Slurm", ready)
        yield slurm
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
        # A step's own daemon, and what a job that failed has left.
        for number in processes_of(folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
