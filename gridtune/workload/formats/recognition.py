"""Recognition of a file by its first kilobytes; its name only settles what its content leaves open.

Kinds of files that are known and not read are recognised, too: the refusal then names the command or the
conversion that helps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from gridtune.errors import GridtuneError
from gridtune.workload.formats.accounting import SACCT_COMMAND
from gridtune.workload.formats.log import FORMATS, find_format, format_names
from gridtune.workload.formats.records import SACCT_IDS, kind_of, quantities_of
from gridtune.workload.formats.table import decoded
from gridtune.workload.formats.tables import delimiter_of

__all__ = ["HEADLESS", "WORKFLOW", "Recognition", "recognise"]

#: The names of a workflow, which is no log, and of a table whose first line has values.
WORKFLOW, HEADLESS = "a workflow", "a table without a header"


_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*")


class Recognition(NamedTuple):
    """What a file is.

    Attributes
    ----------
    name
        The name of a format, or of a kind of file that is not read.
    confidence
        From 0 to 1.
    why
        What in the content, or in the name, says so.
    hint
        The remedy, for a kind of file that is not read as a log; "" for a format.
    """

    name: str
    confidence: float
    why: str
    hint: str = ""


@dataclass(frozen=True)
class _Head:
    """The beginning of a file."""

    start: bytes

    @cached_property
    def text(self) -> str:
        return decoded(self.start).lstrip("\ufeff")

    @cached_property
    def lines(self) -> list[str]:
        """Its first lines that are not empty, without the last one if that may be cut off."""
        lines = [line.rstrip("\r") for line in self.text.split("\n")[:400]]
        return [line for line in (lines[:-1] if len(lines) > 1 else lines) if line.strip()]

    @property
    def first(self) -> str:
        return self.lines[0] if self.lines else ""

    @cached_property
    def row(self) -> list[str]:
        """The values of the first line."""
        return [name.strip().strip('"').strip() for name in self.first.split(delimiter_of(self.first))]

    @cached_property
    def json(self) -> str:
        """The text if it is JSON, else ""."""
        text = self.text.lstrip()
        return text if re.match(r'\{\s*("|\}|$)|\[\s*(\{|\]|$)', text) else ""


@dataclass(frozen=True)
class _Rule:
    """A kind of file: a form of its beginning."""

    name: str
    why: str
    form: re.Pattern[bytes]
    hint: str = ""
    confidence: float = 0.95


def _form(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode(), re.DOTALL | re.IGNORECASE)


_IS_WORKFLOW = "it is a workflow: gridtune traces describe, read_workflow and the system provisioning read it"
_UNPACK = "unpack it first: {} FILE; .gz and .xz are read as they are"
_SQUEUE = "it has waiting jobs alone and no run times; a log of jobs is written by " + SACCT_COMMAND
#: Beginnings that tell a kind of file, in the order in which they are tried.
_RULES = (
    _Rule("parquet", "it begins with PAR1", _form(r"PAR1")),
    _Rule("an Arrow file", "it begins with ARROW1", _form(r"ARROW1|FEA1"), "write it as Parquet"),
    _Rule("an ORC file", "it begins with ORC", _form(r"ORC[\x00-\x08]"), "write it as Parquet"),
    _Rule(
        "a database of SQLite",
        "its first bytes say so",
        _form(r"SQLite format 3"),
        "export its table of jobs as CSV",
    ),
    _Rule("a zip archive", "it begins with PK", _form(r"PK\x03\x04"), _UNPACK.format("unzip")),
    _Rule("bzip2 data", "it begins with BZh", _form(r"BZh[1-9]1AY"), _UNPACK.format("bunzip2")),
    _Rule("zstd data", "its first bytes say so", re.compile(rb"\x28\xb5\x2f\xfd"), _UNPACK.format("unzstd")),
    _Rule(
        "a pointer of Git LFS",
        "its first line says so",
        _form(r"version https://git-lfs"),
        "fetch the file itself: git lfs pull",
    ),
    _Rule(
        "a web page",
        "it begins as HTML does",
        _form(r"\s*<(!doctype html|html)\b"),
        "download the file itself; the server may have sent a page to log in",
    ),
    _Rule(
        "pbs",
        "its lines begin as records of PBS do",
        _form(r"\s*\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;\w+;[^;\n]*;"),
    ),
    _Rule(
        "lsf", "its lines begin as records of LSF do", _form(r'\s*"(JOB_\w+|[A-Z]+_[A-Z_]+)" "[\d.]+" \d+ ')
    ),
    _Rule(
        "accounting of Grid Engine (SGE, UGE)",
        "its lines have the 43 fields or more of Grid Engine's accounting between colons",
        _form(r"(#[^\n]*\n)*([^:\n]*:){5}\d+:[^:\n]*:\d+:\d+:\d+:\d+:([^:\n]*:){31}"),
        "write its jobs as a table: submit,start,end,cpus,user are fields 9, 10, 11, 35 (slots) and 4; "
        "read it with --columns",
    ),
    _Rule(
        "output of qacct (Grid Engine)",
        "it has qname and hostname below a line of =",
        _form(r"\s*={20,}\s*\nqname\s"),
        "write a table with a job a row (qsub_time, start_time, end_time, slots, owner)",
    ),
    _Rule(
        "a history of HTCondor",
        "its lines are attributes of ClassAds",
        _form(r"(?=.*\n?(ClusterId|GlobalJobId|QDate|JobStatus)\s*=)\s*(\*\*\*[^\n]*\n\s*)?[A-Za-z]\w* = "),
        "write a table: condor_history -af:ht, QDate JobStartDate CompletionDate RequestCpus Owner",
    ),
    _Rule(
        "an event log of HTCondor",
        "its lines are numbered events",
        _form(r"\d{3} \(\d+\.\d+\.\d+\) \d"),
        "write a table: condor_history -af:ht, QDate JobStartDate CompletionDate RequestCpus Owner",
    ),
    _Rule(
        "output of sacct for the eye",
        "its second line is made of dashes below names of sacct",
        _form(r"\s*JobID[^|\n]*\n-+( +-+)+\s*(\n|$)"),
        f"its columns are cut off; write it with {SACCT_COMMAND}",
    ),
    _Rule(
        "an output of Batsim that has no jobs",
        "its first line has the names of one",
        _form(
            r"[^\n]*\b(nb_computing_machines|nb_switching_on|new_pstate|event_type,epower|nb_jobs_in_queue)\b"
        ),
        "the jobs are in out_jobs.csv",
    ),
    _Rule(
        "a log of workflows of the Grid Workloads Archive",
        "its first line names WorkflowID and Dependencies, 7 columns between commas",
        _form(r"WorkflowID\s*,\s*JobID\b"),
        "write its tasks as a table: SubmitTime,RunTime,ReqNProcs",
    ),
    _Rule(
        "Google's events of tasks",
        "its first line has their names",
        _form(r"#?\s*time ?stamp[^\n]*(missing info|event type)"),
        "write a table with a job a row from its SUBMIT, SCHEDULE and FINISH events",
    ),
    _Rule(
        "Bitbrains' samples of a machine",
        "its first line has their names",
        _form(r"Timestamp \[ms\];"),
        "it has samples of usage and no jobs; OpenDC publishes its machines as tasks.parquet",
    ),
    _Rule(
        "Azure's table of virtual machines",
        "its lines have the hashes and the eleven columns of vmtable",
        _form(r"[\w+/]{60,}={0,2},[\w+/]{60,}={0,2},[\w+/]{60,}={0,2},\d"),
        "name its columns by position: --columns job=1,submit=4,start=4,end=5,processors=10 --format csv",
    ),
    _Rule(
        "output of squeue",
        "its first line has the names of squeue",
        _form(r"\s*JOBID\s+PARTITION\s+NAME\b"),
        _SQUEUE,
    ),
    _Rule(
        WORKFLOW,
        "its root element is a DAX's",
        _form(r"(\xef\xbb\xbf)?\s*<(.*<)?([\w.-]+:)?adag\b"),
        _IS_WORKFLOW,
    ),
    _Rule(
        "a platform of SimGrid",
        "its root element is platform",
        _form(r"\s*(<\?xml[^>]*>\s*)?(<!doctype[^>]*>\s*)?(<!--.*?-->\s*)*<platform\b"),
        "it describes a machine: platform=FILE of the system shutdown reads it",
    ),
    _Rule(
        WORKFLOW,
        "it names the version of Pegasus",
        _form(r"""(\s*\{.*|[^{].*\n)?["']?(x-pegasus["']?\s*:|pegasus["']?\s*:\s*["']?5)"""),
        _IS_WORKFLOW,
    ),
    _Rule(WORKFLOW, "it is JSON with an object workflow", _form(r'\s*\{.*"workflow"\s*:\s*\{'), _IS_WORKFLOW),
)


def recognise(start: bytes, name: str = "") -> Recognition | None:
    """Return what a file is.

    Parameters
    ----------
    start
        Its first bytes, decompressed: some kilobytes are enough.
    name
        Its name, which settles what its content leaves open; "" for none.

    Returns
    -------
    Recognition or None
        The likeliest; None where neither content nor name tells.
    """
    head = _Head(start)
    found = list(_found(head))
    match = find_format(name) if name else None
    if match is not None:
        found.append(Recognition(match[0].name, 0.5, f"its name ends in {match[0].suffix}"))
    elif not found:
        found += _announced(start)
    return max(found, key=lambda other: other.confidence, default=None)


def _found(head: _Head) -> Iterator[Recognition]:
    for rule in _RULES:
        if rule.form.match(head.start):
            yield Recognition(rule.name, rule.confidence, rule.why, rule.hint)
            return
    for rules in (_json, _numbers, _table):
        if (one := rules(head)) is not None:
            yield one


def _announced(start: bytes) -> Iterator[Recognition]:
    """Ask the formats of other packages, which are imported only where nothing else knows a file."""
    for name in format_names():
        try:
            knows = FORMATS.find(name).recognises(start)
        except GridtuneError:
            continue
        if knows:
            yield Recognition(name, 0.9, f"the format {name} recognises it")


#: Keys that JSON of a kind has, all of one of the tuples; the first kind that fits counts.
_KEYS = (
    (
        (("jobs", "application_model"), ("jobs", "num_nodes_min")),
        "a workload of ElastiSim",
        "its run times depend on a model of the machine; write a table of submit, run time and nodes from "
        "ElastiSim's output",
    ),
    ((("jobs", "subtime"), ("jobs", "nb_res"), ("jobs", "profiles")), "batsim", ""),
    ((("association",), ("jobs", "openapi")), "sacct", ""),
    ((("jobs", "job_state"),), "output of squeue --json", _SQUEUE),
    ((("attempts", "submitted_time"),), "csv", ""),
    (
        (("assigned_resources",), ("launching_directory",), ("resource_id", "cpuset")),
        "output of OAR in JSON",
        "write a table with a job a row from OAR's database: submission_time, start_time, stop_time, cores",
    ),
)


def _json(head: _Head) -> Recognition | None:
    """Recognise JSON by its keys; objects that are none of these kinds may be a job each."""
    for choices, name, hint in _KEYS if head.json else ():
        keys = next((keys for keys in choices if all(f'"{key}"' in head.json for key in keys)), None)
        if keys is not None:
            return Recognition(name, 0.95, f"it is JSON with the keys {', '.join(keys)}", hint)
    objects = head.json.startswith("[") or (len(head.lines) > 1 and head.lines[1].lstrip().startswith("{"))
    if objects and re.search(r"[{,]\s*\"\w*submi\w*\"\s*:", head.json, re.IGNORECASE):
        return Recognition("csv", 0.8, "it is JSON with an object a job")
    return None


def _numbers(head: _Head) -> Recognition | None:
    """Recognise logs of the archives by the number of fields in the first job."""
    job = next((line for line in head.lines if line.lstrip()[:1] not in (";", "#")), "")
    fields = job.partition(";")[0].split()
    numeric = sum(re.fullmatch(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", value) is not None for value in fields)
    comments = (
        ";" if head.first.lstrip().startswith(";") else "#" if head.first.lstrip().startswith("#") else ""
    )
    if len(fields) == 29 and numeric >= 11 and comments != ";":
        return Recognition("gwf", 0.85, "its first job has the 29 fields of the Grid Workloads Archive")
    if len(fields) >= 18 and numeric >= 18:
        return Recognition("swf", 0.9 if comments == ";" else 0.8, "its first job has the 18 fields of SWF")
    if comments == ";" and re.match(r"\s*;\s*(Version|Computer|Max|Unix|Acknowledge|Conversion)", head.first):
        return Recognition("swf", 0.8, "its first line is a header of SWF")
    return None


def _table(head: _Head) -> Recognition | None:
    """Recognise tables by the names in their first line."""
    row = head.row
    if len(row) < 2 or head.json:
        return None
    kind, known = kind_of(row), quantities_of(row)
    if kind.steps or ({name.lower() for name in row} & SACCT_IDS and "|" in head.first):
        # sacct quotes nothing: quoted values are those of a table.
        quoted = head.first.lstrip().startswith('"')
        return Recognition("csv" if quoted else "sacct", 0.9, "its first line has the names of sacct")
    if kind.has or len(known) > 1:
        why = f"has the columns of {kind.title}" if kind.has else f"names {', '.join(list(known)[:4])}"
        return Recognition("csv", 0.9 if kind.has else 0.7, f"its first line {why}")
    if re.match(r"\d", row[0]) and ("|" in head.first or any(map(_MOMENT.fullmatch, row))):
        return Recognition(
            HEADLESS,
            0.85,
            "its first line has values and no names",
            "write it again with its header (sacct without --noheader), or say which column is which: "
            "--columns job=1,submit=7,… (with --format csv)",
        )
    return None
