"""The fields of a job: the Standard Workload Format's own, and what other logs have beside them."""

from __future__ import annotations

__all__ = ["FIELDS", "FLOAT_FIELDS", "MORE_FIELDS", "NAMED_FIELDS", "SWF_FIELDS", "UNKNOWN"]

#: The value a field has where the log does not say (the Standard Workload Format's own convention).
UNKNOWN = -1

#: The eighteen fields of the Standard Workload Format, in the order of its columns.
SWF_FIELDS = (
    "job_id",
    "submit_time",
    "wait_time",
    "run_time",
    "allocated_processors",
    "average_cpu_time",
    "used_memory",
    "requested_processors",
    "requested_time",
    "requested_memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding_job",
    "think_time",
)

#: What resource managers record beside these.
#:
#: account, qos, features, gpu_type, state
#:     Numbers of names (`Workload.names`): the account charged, the quality of service, the features or
#:     constraint asked for, the type of GPU asked for, and the state in which the job ended.
#: requested_nodes, allocated_nodes
#:     Nodes.
#: requested_gpus, allocated_gpus
#:     GPUs of the whole job.
#: gpu_share
#:     Thousandths of each GPU, where jobs share one.
#: eligible_time, end_time
#:     Seconds on the log's clock, as recorded: when nothing but the queue stood before the job (its
#:     dependencies were done), and when it ended. A job that was suspended ends later than wait and run time
#:     add up to.
MORE_FIELDS = (
    "account",
    "qos",
    "features",
    "gpu_type",
    "state",
    "requested_nodes",
    "allocated_nodes",
    "requested_gpus",
    "allocated_gpus",
    "gpu_share",
    "eligible_time",
    "end_time",
)

#: Every field, in the order in which columns stand.
FIELDS = SWF_FIELDS + MORE_FIELDS

#: Fields whose numbers may stand for names.
NAMED_FIELDS = (
    "user",
    "group",
    "account",
    "executable",
    "queue",
    "partition",
    "qos",
    "features",
    "gpu_type",
    "state",
)

#: Fields that real logs give with a fraction; every other one is int64.
FLOAT_FIELDS = frozenset({"average_cpu_time"})
