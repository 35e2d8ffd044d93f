"""The cluster that a `slurm.conf` describes, as far as the simulator knows it.

Sources: https://slurm.schedmd.com/slurm.conf.html, https://slurm.schedmd.com/preempt.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridtune.slurm.limits import Limit
from gridtune.slurm.versions import VERIFIED
from gridtune.workload.slurm import SlurmAccounts

#: Seconds of a limit that is infinite: a year, as Slurm takes it.
UNLIMITED = 365 * 86400


#: What becomes of a job whose place is taken.
MODES = ("off", "cancel", "requeue", "suspend")


@dataclass(frozen=True)
class Node:
    """A node: processors, memory in MB, GPUs, features, weight (the lightest are taken first), sockets.

    Jobs get whole cores of so many `threads`, which are processors; by `one_task` a core runs one task of a
    job (CR_ONE_TASK_PER_CORE). Nodes of one `record` of Slurm's differ in nothing that a setting says.
    """

    name: str
    cpus: int
    memory: int
    gpus: Mapping[str, int]
    features: frozenset[str]
    weight: int
    sockets: int = 1
    threads: int = 1
    one_task: bool = False
    record: int = 0


@dataclass(frozen=True)
class Admission:
    """The accounts or QOS whose jobs a partition takes, or those that it does not take if not `allowed`."""

    names: frozenset[str] = frozenset()
    allowed: bool = False

    def admits(self, name: str) -> bool:
        """Tell whether jobs of an account or a QOS are taken; those without one are."""
        return not name or (name.lower() in self.names) == self.allowed


@dataclass(frozen=True)
class Partition:
    """A partition: the numbers of its nodes, times in seconds, memory per processor in MB (0: none said).

    One that starts no jobs has no nodes. `preempt_mode` and `grace` are what becomes of its jobs where others
    take their place, "" for what the cluster says, and the seconds that they have before. Jobs need so many
    nodes, at least and at most (0: no limit), and an account and a QOS that it admits. `billing` weighs what
    a job's usage counts (cpu, mem in MB, node, gres/gpu); without it processors count. Limits of `own_qos`
    hold for all its jobs.
    """

    name: str
    nodes: tuple[int, ...]
    tier: int = 1
    factor: int = 1
    max_time: int = UNLIMITED
    default_time: int = UNLIMITED
    memory_per_cpu: int = 0
    exclusive: bool = False
    preempt_mode: str = ""
    grace: int = 0
    min_nodes: int = 0
    max_nodes: int = 0
    accounts: Admission = Admission()
    qos: Admission = Admission()
    billing: Mapping[str, float] = field(default_factory=dict)
    own_qos: str = ""


@dataclass(frozen=True)
class Clocks:
    """`SchedulerParameters` by Slurm's names; times in seconds, `bf_window` in minutes."""

    sched_interval: int = 60
    batch_sched_delay: int = 3
    default_queue_depth: int = 100
    bf_interval: int = 30
    bf_window: int = 1440
    bf_resolution: int = 60
    bf_max_job_test: int = 500
    bf_node_space_size: int = 0
    bf_max_job_start: int = 0
    bf_max_job_user: int = 0
    bf_min_age_reserve: int = 0
    bf_min_prio_reserve: int = 0
    bf_window_linear: int = 0
    bf_max_job_array_resv: int = 20
    bf_job_part_count_reserve: int = 0
    max_switch_wait: int = 300


@dataclass(frozen=True)
class Priorities:
    """The multifactor priority; `multifactor` off is priority/basic, the order of submission. Seconds."""

    multifactor: bool = False
    age: int = 0
    fair_share: int = 0
    size: int = 0
    partition: int = 0
    qos: int = 0
    tres: Mapping[str, float] = field(default_factory=dict)
    max_age: int = 7 * 86400
    half_life: int = 7 * 86400
    period: int = 300
    favor_small: bool = False
    fair_tree: bool = True
    dampening: int = 1
    normal_tres: bool = True


@dataclass(frozen=True)
class Qos:
    """A quality of service, its priority, and what it multiplies the usage of its jobs by.

    Limits of a partition's QOS go before its own, unless it goes before the partition's.
    """

    name: str
    priority: int = 0
    usage_factor: float = 1.0
    before_partition: bool = False


@dataclass(frozen=True)
class Outage:
    """Nodes that are out of service from `start` until `end`, in seconds of the log.

    A *planned* one is a reservation for maintenance: no job starts there that could run into it. Of a drained
    node nothing is known before; jobs that run there go on.
    """

    start: int
    end: int
    nodes: tuple[int, ...]
    planned: bool = False


@dataclass(frozen=True)
class PreemptClass:
    """A QOS or a partition, as preemption knows it.

    Attributes
    ----------
    rank
        Jobs of the lowest go first: the priority of the QOS, or the tier.
    mode
        The fate of its jobs, one of `MODES`.
    grace, exempt
        Seconds from the warning to the end, and seconds after its start in which a job is safe. A job that
        is suspended has neither.
    preempts
        Names of the classes whose jobs must make room for its jobs.
    """

    rank: int = 0
    mode: str = "off"
    grace: int = 0
    exempt: int = 0
    preempts: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Preemption:
    """Rules by which jobs make room for others: by their QOS, by their partition, or "", not at all.

    Attributes
    ----------
    classes
        By the name of the QOS or partition. Jobs of others neither go nor make go.
    youngest_first, strict_order, reorder_count
        `PreemptParameters`.
    pause
        Seconds after which a job that made others go may do so again.
    """

    by: str = ""
    classes: Mapping[str, PreemptClass] = field(default_factory=dict)
    youngest_first: bool = False
    strict_order: bool = False
    reorder_count: int = 1
    pause: int = 40

    @property
    def suspends(self) -> bool:
        """True if jobs are suspended."""
        return any(one.mode == "suspend" for one in self.classes.values())

    @property
    def preempts(self) -> bool:
        """True if jobs may have to make room."""
        return any(one.preempts for one in self.classes.values())

    def class_of(self, qos: str, partition: str) -> str:
        """Return the name of the class of a job in a partition, "" for none."""
        name = {"qos": qos, "partition": partition}.get(self.by, "")
        return name if name in self.classes else ""


@dataclass(frozen=True)
class SlurmCluster:
    """A cluster. Nodes stand in the order of Slurm's table, which is that of their names.

    Attributes
    ----------
    leaves
        The nodes of each leaf switch in the order of `topology.conf`; empty without topology/tree.
    backfill
        True if the backfill pass runs (sched/backfill) or not (sched/builtin).
    qos
        By name; a QOS that no file describes has priority 0.
    requeue
        True if jobs start again where they had to make room, unless they say otherwise.
    memory_counts
        True if jobs on a node share its memory; else each may ask for as much as the node has.
    socket_by_socket
        True if a job's processors fill a socket before the next one; else all sockets give one in turn.
    least_loaded
        True if jobs get the nodes with the largest share of idle processors (CR_LLN).
    version
        The release of Slurm whose rules hold: see `gridtune.slurm.versions`.
    zero
        The Unix time of second 0 of the log: plans begin at multiples of `bf_resolution` since 1970.
    licences
        How many there are of each.
    not_modelled
        Settings in the files that are not simulated: "FILE:LINE: setting".
    """

    nodes: tuple[Node, ...]
    partitions: Mapping[str, Partition]
    leaves: tuple[tuple[int, ...], ...] = ()
    backfill: bool = True
    clocks: Clocks = field(default_factory=Clocks)
    priorities: Priorities = field(default_factory=Priorities)
    qos: Mapping[str, Qos] = field(default_factory=dict)
    accounts: SlurmAccounts = field(default_factory=SlurmAccounts)
    kill_wait: int = 30
    overtime: int = 0
    requeue: bool = True
    preemption: Preemption = field(default_factory=Preemption)
    outages: tuple[Outage, ...] = ()
    limits: tuple[Limit, ...] = ()
    memory_counts: bool = True
    socket_by_socket: bool = True
    least_loaded: bool = False
    version: str = VERIFIED[0]
    zero: int = 0
    licences: Mapping[str, int] = field(default_factory=dict)
    not_modelled: tuple[str, ...] = ()

    def limiting_qos(self, qos: str, partition: str) -> tuple[str, ...]:
        """Return the QOS that limit a job in a partition, the one that holds first."""
        names = [self.partitions[partition].own_qos, qos]
        if qos in self.qos and self.qos[qos].before_partition:
            names.reverse()
        return tuple(dict.fromkeys(filter(None, names)))

    @property
    def cpus(self) -> int:
        """Processors of all nodes."""
        return sum(node.cpus for node in self.nodes)
