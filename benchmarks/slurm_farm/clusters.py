"""One real Slurm under a fast clock: its files, its daemons and a workload that is submitted to it."""

from __future__ import annotations

import calendar
import csv
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.slurm_farm import records, roots
from gridtune.workload.slurm import host_list

#: The date at which each cluster starts.
START = calendar.timegm((2026, 1, 5, 0, 0, 0))
#: Seconds of the fast clock between two samples of the priorities, and those that a whole run may last.
SAMPLING, LONGEST = 300, 86_400
#: Columns of a workload that sbatch has an option for.
OPTIONS = {
    "name": "job-name",
    "user": "uid",
    "account": "account",
    "partition": "partition",
    "qos": "qos",
    "wall_limit": "time",
    "n_tasks": "ntasks",
    "ntasks_per_node": "ntasks-per-node",
    "constraint": "constraint",
    "mem": "mem",
    "gres": "gres",
    "array": "array",
}
#: Lines that a slurm.conf of the farm has besides its own. Nothing here changes which job starts when.
DAEMONS = """\
ClusterName={name}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
MessageTimeout=100
TCPTimeout=60
SlurmctldTimeout=300
SlurmdTimeout=3000
ReturnToService=1
FirstJobId=1001
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
PropagateResourceLimits=NONE
MpiDefault=none
MailProg=/bin/true
SlurmctldDebug=debug2
SlurmdDebug=info
DebugFlags=Backfill,Gang,HetJob
SlurmSchedLogLevel=1
SlurmSchedLogFile={folder}/log/sched.log
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool/%n
StateSaveLocation={folder}/state
LogTimeFormat=iso8601_ms
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/log/jobcomp.log
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={host}
AccountingStoragePort={database}
AccountingStoreFlags=job_comment
"""
DATABASE = """\
AuthType=auth/none
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={database}
SlurmUser=root
DebugLevel=info
LogFile={folder}/log/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={storage}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_{name}
MessageTimeout=100
"""
#: Tables that a run folder has at its end, by the command that prints each.
TABLES = {
    "sacct_all.txt": "sacct -a -X -P --duplicates --format=ALL -S {start} -E {end}",
    # Without the constraints, which may have the sign between columns.
    "sacct_x.txt": f"sacct -a -X -P --duplicates --format={','.join(records.WANTED)} -S {{start}} -E {{end}}",
    "sacctmgr_assoc.txt": "sacctmgr show assoc tree -P",
    "sacctmgr_qos.txt": "sacctmgr show qos -P",
    "scontrol_show_config.txt": "scontrol show config",
    "scontrol_show_node.txt": "scontrol show node",
    "sacctmgr_event.txt": "sacctmgr show event -P start={start}",
    "sshare.txt": "sshare -a -l -P",
    "sdiag.txt": "sdiag",
}
#: Files of a cluster that its run folder has too.
KEPT = {
    *("slurm.conf", "gres.conf", "topology.conf"),
    *("slurmctld.log", "submit.csv", "control.csv", "prio_samples.txt", "steer.jsonl", "steer.log"),
}
SPRIO = "%i|%u|%Y|%A|%F|%J|%P|%Q"
SSHARE = "Account,User,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,LevelFS"


def date(seconds: float) -> str:
    """Return an instant as Slurm prints it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


@dataclass
class Clock:
    """A clock that starts at `START` when it is made and runs `factor` times as fast."""

    factor: float
    real: float = field(default_factory=time.time)
    monotonic: float = field(default_factory=time.monotonic)

    @property
    def now(self) -> float:
        """The instant that the daemons see."""
        return START + self.factor * (time.time() - self.real)

    def wait_for(self, instant: float) -> None:
        """Sleep until an instant of this clock."""
        time.sleep(max(0, (instant - self.now) / self.factor))

    @property
    def text(self) -> str:
        """The value of FAST_CLOCK for `clock.c`."""
        return f"{self.real:.3f} {self.monotonic:.3f} {START} {self.factor}"


class Cluster:
    """A real Slurm in a root. `site` has its slurm.conf, and gres.conf and topology.conf perhaps."""

    def __init__(self, root: Path, shared: Path, name: str, port: int, site: Path, factor: float) -> None:
        self.root, self.shared, self.name, self.port, self.site = root, shared, name, port, site
        self.folder, self.host = shared / name, socket.gethostname().split(".")[0]
        self.clock = Clock(factor)
        self.nodes: list[str] = []
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make a program one of this cluster."""
        return {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C",
            "TZ": "UTC",
            "HOME": "/root",
            "SLURM_CONF": str(self.folder / "etc/slurm.conf"),
            "LD_PRELOAD": str(self.shared / "clock.so"),
            "FAST_CLOCK": self.clock.text,
        }

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of Slurm in the root."""
        command = ["chroot", str(self.root), *words]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)

    def begin(self, *words: str) -> None:
        """Start a daemon in the root."""
        log = (self.folder / "log" / f"{Path(words[0]).name}{len(self.processes)}.out").open("wb")
        command = ["chroot", str(self.root), *words]
        self.processes.append(subprocess.Popen(command, env=self.environment, stdout=log, stderr=log))

    def write_files(self) -> None:
        """Write the files of the daemons: one for each node, each with its port."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("etc", "log", "spool", "state"):
            (self.folder / name).mkdir(parents=True)
        values = {"name": self.name, "host": self.host, "port": self.port, "folder": self.folder}
        values |= {"database": self.port + 1, "storage": roots.DATABASE_PORT}
        lines = [DAEMONS.format(**values)]
        for number, line in enumerate((self.site / "slurm.conf").read_text().splitlines(), 1):
            first, *others = line.split()[:1] and line.split()
            key, _, names = first.partition("=")
            if key.lower() != "nodename" or names == "DEFAULT":
                lines.append(line)
                continue
            for name in host_list(names, self.site / "slurm.conf", number):
                where = f"NodeHostname={self.host} NodeAddr=127.0.0.1 Port={self.port + 2 + len(self.nodes)}"
                lines.append(" ".join([f"NodeName={name}", where, *others]))
                self.nodes.append(name)
        etc = self.folder / "etc"
        (etc / "slurm.conf").write_text("\n".join(lines) + "\n")
        for name in ("gres.conf", "topology.conf"):
            if (self.site / name).exists():
                text = (self.site / name).read_text()
                (etc / name).write_text(re.sub(r"File=gpu", f"File={self.shared}/gpu", text))
        plugin = "cgroup/v1" if "22.05" in self.version else "disabled"
        (etc / "cgroup.conf").write_text(f"CgroupPlugin={plugin}\n")
        (etc / "slurmdbd.conf").write_text(DATABASE.format(**values))
        (etc / "slurmdbd.conf").chmod(0o600)

    @property
    def version(self) -> str:
        """The release as slurmctld prints it."""
        command = ["chroot", str(self.root), "/usr/sbin/slurmctld", "-V"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def wait_for_port(self, port: int) -> None:
        """Wait until a daemon listens."""
        for _ in range(600):
            with socket.socket() as line:
                if not line.connect_ex(("127.0.0.1", port)):
                    return
            time.sleep(0.1)
        raise SystemExit(f"nothing listens on port {port}: see {self.folder}/log")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start all daemons, wait until every node is idle, and stop them at the end."""
        self.write_files()
        roots.drop(self.shared, self.name)
        try:
            self.begin("/usr/sbin/slurmdbd", "-D")
            self.wait_for_port(self.port + 1)
            commands = [f"add cluster Name={self.name}"]
            commands += (self.site / "sacctmgr.txt").read_text().replace("@CLUSTER@", self.name).splitlines()
            for command in filter(str.strip, commands):
                done = self.ask("sacctmgr", "-i", *command.split())
                if done.returncode and "Nothing" not in done.stdout:
                    raise SystemExit(f"sacctmgr {command}: {done.stdout}{done.stderr}")
            self.begin("/usr/sbin/slurmctld", "-D", "-c")
            self.wait_for_port(self.port)
            for node in self.nodes:
                self.begin("/usr/sbin/slurmd", "-D", "-c", "-N", node, "-d", "/usr/sbin/slurmstepd")
            for _ in range(480):
                states = self.ask("sinfo", "-h", "-N", "-o", "%N %t").stdout.split()[1::2]
                if states and not {"unk", "unk*"} & set(states) and not any("*" in s for s in states):
                    break
                time.sleep(0.25)
            else:
                raise SystemExit(f"some nodes do not answer: see {self.folder}/log")
            yield
        finally:
            for process in reversed(self.processes):
                process.send_signal(signal.SIGTERM)
            for process in reversed(self.processes):
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()

    @contextmanager
    def sampled(self) -> Iterator[None]:
        """Write the priorities of waiting jobs and the shares of users to a file, every 300 s."""
        program = ["chroot", str(self.root), "sh", "-c"]
        commands = (f"sprio -h -o '{SPRIO}'", f"sshare -a -P -h -o {SSHARE}")
        loop = "".join(
            f't=$(date +%s.%N | cut -c1-12); {command} | sed "s/ //g;s/^/{command.split()[0]}|$t|/"; '
            for command in commands
        )
        # The shim makes this sleep short as well.
        script = f"while :; do {loop} sleep {SAMPLING}; done"
        with (self.folder / "log/prio_samples.txt").open("wb") as out:
            sampler = subprocess.Popen(
                [*program, script],
                env=self.environment,
                stdout=out,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                yield
            finally:
                os.killpg(sampler.pid, signal.SIGTERM)
                sampler.wait()

    @contextmanager
    def steered(self, options: list[str]) -> Iterator[None]:
        """Steer the queue by `gridtune slurm steer` with these options, on the clock of the cluster.

        It gets Slurm's commands by its PATH. What it prints is in steer.log, its decisions in steer.jsonl. At
        the end it is killed, and its changes are undone.
        """
        tools, log = self.folder / "tools", self.folder / "log"
        tools.mkdir()
        for name in ("squeue", "sinfo", "scontrol"):
            (tools / name).write_text(f'#!/bin/sh\nexec chroot {self.root} /usr/bin/{name} "$@"\n')
            (tools / name).chmod(0o755)
        (log / "scontrol_show_config.txt").write_text(self.ask("scontrol", "show", "config").stdout)
        command = [sys.executable, "-m", "gridtune", "slurm", "steer", "--slurm", str(self.site)]
        command += ["--slurm-version", self.version.split()[-1], "--audit", str(log / "steer.jsonl")]
        # Ten seconds of this machine: commands may wait for the processor.
        command += ["--timeout", str(int(10 * self.clock.factor))]
        kept = {name: os.environ[name] for name in ("NUMBA_CACHE_DIR", "HOME") if name in os.environ}
        environment = self.environment | kept | {"PATH": f"{tools}:/usr/sbin:/usr/bin:/sbin:/bin"}
        with (log / "steer.log").open("wb") as out:
            steerer = subprocess.Popen(
                [*command, "--apply", *options], env=environment, stdout=out, stderr=out
            )
            try:
                yield
                if steerer.poll() is not None:
                    raise SystemExit(f"the steerer has stopped: see {log / 'steer.log'}")
            finally:
                steerer.kill()
                steerer.wait()
                by = ["--by", options[options.index("--by") + 1]] if "--by" in options else []
                subprocess.run(
                    [*command, "--undo", *by], env=environment, stdout=out, stderr=out, check=False
                )

    def submit(self, job: Mapping[str, str], numbers: Mapping[str, str]) -> tuple[int, str, str]:
        """Submit a row of a workload; return sbatch's code, the job's number and the message."""
        seconds = int(job["wall_time"])
        run = f"exec {self.shared}/work {1e6 if seconds < 0 else seconds / self.clock.factor:.4f} "
        words = ["sbatch", "--parsable", f"--comment={job['job_id']}", "-o", "/dev/null", "-D", "/tmp"]
        words += [f"--{option}={job[name]}" for name, option in OPTIONS.items() if job.get(name)]
        if job.get("dependency"):
            asked = re.sub(r"w(\d+)", lambda match: numbers.get(match[1], "1"), job["dependency"])
            words.append(f"--dependency={asked}")
        first, *others = records.components_of(job.get("extra") or "")
        words += [*first.split(), "--export=PATH"]
        run += job.get("code") or "0"
        if others:
            # No option of sbatch but the user holds for more than one component.
            names = ("account", "partition", "qos", "wall_limit")
            common = [f"--comment={job['job_id']}", *(f"--{OPTIONS[name]}={job[name]}" for name in names)]
            for other in others:
                words += [":", *common, *other.split()]
            script = self.folder / "log" / f"job{job['job_id']}.sh"
            script.write_text(f"#!/bin/sh\n{run}\n")
            words.append(str(script))
        else:
            words += ["--wrap", run]
        done = self.ask(*words)
        return done.returncode, done.stdout.strip().partition(";")[0], done.stderr.strip()

    def replay(self, workload: Path, control: Path) -> int:
        """Submit a workload and run scontrol's commands; return the instant of second 0.

        Waits until no job is left, or a day of the fast clock has passed.
        """
        zero = (int(self.clock.now + 5 * self.clock.factor) // 60 + 1) * 60
        with workload.open() as file:
            jobs = [(int(row["dt"]), 1, row) for row in csv.DictReader(file)]
        commands = []
        if control.exists():
            with control.open() as file:
                commands = [(int(row["dt"]), 0, row) for row in csv.DictReader(file)]
        numbers: dict[str, str] = {}
        log = self.folder / "log"
        with (log / "submit.csv").open("w") as submitted, (log / "control.csv").open("w") as controlled:
            submit = csv.writer(submitted, lineterminator="\n")
            submit.writerow(
                ["job_id", "dt", "planned", "sbatch_called", "sbatch_returned", "rc", "slurm_id", "message"]
            )
            done = csv.writer(controlled, lineterminator="\n")
            done.writerow(["dt", "done_fake", "command", "rc", "answer"])
            for dt, kind, row in sorted(jobs + commands, key=lambda each: each[:2]):
                self.clock.wait_for(zero + dt)
                if kind:
                    called = self.clock.now
                    code, number, message = self.submit(row, numbers)
                    numbers[row["job_id"]] = number
                    times = [dt, zero + dt, f"{called:.2f}", f"{self.clock.now:.2f}"]
                    submit.writerow([row["job_id"], *times, code, number, message[:200]])
                    continue
                command = re.sub(r"w(\d+)\b", lambda match: numbers.get(match[1], "1"), row["command"])
                command = re.sub(r"T0\+(\d+)", lambda match: date(zero + int(match[1])), command)
                answer = self.ask(*command.split())
                text = (answer.stdout + answer.stderr).strip()
                done.writerow([dt, f"{self.clock.now:.2f}", command, answer.returncode, text])
        while self.clock.now < zero + LONGEST and self.ask("squeue", "-h", "-o", "%i").stdout.strip():
            time.sleep(1)
        time.sleep(1)
        return zero

    def save(self, run: Path, zero: int) -> None:
        """Write the tables of Slurm's commands and the files of the cluster to a run folder."""
        dates = {"start": date(START), "end": date(START + 30 * 86_400)}
        for name, command in TABLES.items():
            (run / name).write_text(self.ask(*command.format(**dates).split()).stdout)
        (run / "meta.txt").write_text(
            f"factor={self.clock.factor}\nT0={zero}\nfake0={START}\nversion={self.version}\n"
        )
        for path in [*(self.folder / "etc").glob("*.conf"), *(self.folder / "log").iterdir()]:
            if path.name in KEPT:
                text = path.read_text(errors="replace").replace(str(self.folder), "BASE")
                if path.suffix == ".conf":
                    text = re.sub(rf"\b{re.escape(self.host)}\b", "localhost", text)
                (run / path.name).write_text(text.replace(str(self.shared), "BASE"))
