"""Reading workflows: all formats, compressed or not, and what a bad file is told."""

from __future__ import annotations

import gzip
import json
import lzma

import numpy as np
import pytest

from gridtune.errors import WorkloadError
from gridtune.workload.formats.recognition import WORKFLOW, recognise
from gridtune.workload.workflows import WORKFLOW_RULES, read_workflow

DAX = """<?xml version="1.0"?>
<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="2.1" jobCount="3">
  <job id="A" name="split" runtime="1.5">
    <uses file="in" link="input" size="100"/>
    <uses file="x" link="output" size="30"/>
    <uses file="y" link="output" size="50"/>
  </job>
  <job id="B" name="work" runtime="20">
    <profile namespace="pegasus" key="cores">4</profile>
    <uses file="x" link="input" size="30"/>
    <uses file="y" link="input" size="50"/>
    <uses file="z" link="output" size="7"/>
  </job>
  <job id="C" name="work" runtime="2"><uses file="y" link="input" size="50"/></job>
  <child ref="B"><parent ref="A"/></child>
  <child ref="C"><parent ref="A"/><parent ref="B"/><parent ref="A"/></child>
</adag>
"""

PEGASUS = """x-pegasus: {apiLang: python, createdBy: me, createdOn: '05-14-26T13:58:34Z'}
pegasus: "5.0"
name: three
jobs:
- type: job
  namespace: here
  name: split
  id: A
  arguments: [-i, in]
  uses:
  - {lfn: in, type: input, size: "100"}
  - lfn: x
    type: output
    metadata: {size: "30"}
  - {lfn: y, type: output, size: 50}
  metadata: {runtime: "1.5"}
- type: job
  name: work
  id: B
  arguments: []
  uses:
  - {lfn: x, type: input}
  - {lfn: y, type: input}
  profiles:
    pegasus: {runtime: 20, nodes: 2, ppn: "2"}
- type: pegasusWorkflow
  file: work
  id: C
  arguments: []
  uses: [{lfn: y, type: input}]
  profiles: {pegasus: {runtime: 2}, condor: {request_cpus: 1}}
jobDependencies:
- id: A
  children: [B, C]
- {id: B, children: [C]}
"""


def new_wfformat():
    tasks = [
        {"id": "A", "name": "A", "parents": [], "children": ["B", "C"], "inputFiles": ["in"]},
        {"id": "B", "name": "B", "parents": ["A"], "children": ["C"], "inputFiles": ["x", "y"]},
        {"id": "C", "name": "C", "parents": ["A", "B"], "children": [], "inputFiles": ["y"]},
    ]
    tasks[0]["outputFiles"], tasks[1]["outputFiles"] = ["x", "y"], ["z"]
    sizes = {"in": 100, "x": 30, "y": 50, "z": 7}
    files = [{"id": name, "sizeInBytes": size} for name, size in sizes.items()]
    runs = [("A", 1.5, "split", 1), ("B", 20, "work", 4), ("C", 2, "work", 1)]
    executed = [
        {"id": name, "runtimeInSeconds": time, "command": {"program": kind}, "coreCount": cores}
        for name, time, kind, cores in runs
    ]
    specification = {"tasks": tasks, "files": files}
    return {"workflow": {"specification": specification, "execution": {"tasks": executed}}}


def old_wfformat():
    def file(name, link, size):
        return {"name": name, "link": link, "size": size}

    return {
        "workflow": {
            "jobs": [
                {"name": "A", "category": "split", "runtime": 1.5, "parents": [], "children": ["B", "C"]}
                | {"files": [file("in", "input", 100), file("x", "output", 30), file("y", "output", 50)]},
                {"name": "B", "category": "work", "runtime": 20, "cores": 4, "parents": ["A"]}
                | {"files": [file("x", "input", 30), file("y", "input", 50), file("z", "output", 7)]},
                {"name": "C", "category": "work", "runtime": 2, "parents": ["B"]}
                | {"files": [file("y", "input", 50)]},
            ]
        }
    }


FILES = {
    "three.dax": DAX,
    "three.dax.xml": DAX,
    "new.json": json.dumps(new_wfformat(), indent=1),
    "old.json": json.dumps(old_wfformat(), indent=1),
    "five.yml": PEGASUS,
    "five": PEGASUS,
    "xml": DAX,
    "recorded": json.dumps(new_wfformat()),
}


def written(folder, name, text):
    packed = text.encode() if isinstance(text, str) else text
    if name.endswith(".gz"):
        packed = gzip.compress(packed)
    elif name.endswith(".xz"):
        packed = lzma.compress(packed)
    path = folder / name
    path.write_bytes(packed)
    return path


@pytest.mark.parametrize("compression", ["", ".gz", ".xz"])
@pytest.mark.parametrize("name", FILES)
def test_all_formats_tell_the_same(tmp_path, name, compression):
    workflow = read_workflow(written(tmp_path, name + compression, FILES[name]))
    assert workflow.names == ("A", "B", "C")
    assert workflow.run_time.tolist() == [1.5, 20, 2]
    assert workflow.processors.tolist() == [1, 4, 1]
    edges = {
        (int(a), int(b)): v for a, b, v in zip(workflow.parent, workflow.child, workflow.volume, strict=True)
    }
    assert edges == {(0, 1): 80, (0, 2): 50, (1, 2): 0}
    assert workflow.name == name.partition(".")[0]


def changed(text, old, new):
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("name", "text", "line", "message"),
    [
        ("a.dax", changed(DAX, 'parent ref="A"', 'parent ref="Q"'), 15, "'B' refers to its parent 'Q'"),
        ("a.dax", changed(DAX, 'child ref="B"', 'child ref="Q"'), 15, "'Q' refers to itself"),
        ("a.dax", changed(DAX, 'runtime="20"', 'runtime="-20"'), 8, "task 'B' runs for -20 s"),
        ("a.dax", changed(DAX, 'runtime="20"', 'runtime="long"'), 8, "task 'B': 'long' is not a number"),
        ("a.dax", changed(DAX, ' runtime="20"', ""), 8, "task 'B' has no run time"),
        ("a.dax", changed(DAX, 'id="B"', 'id="A"'), 8, "two jobs are called 'A'"),
        ("a.dax", changed(DAX, 'id="B" ', ""), 8, "an element 'job' without 'id'"),
        ("a.dax", changed(DAX, 'size="30"', 'size="-3"'), 5, "task 'A' uses 'x' of -3 bytes"),
        ("a.dax", changed(DAX, "</adag>", ""), 18, "is not XML"),
        ("a.dax", "<x/>", 1, "its root element is 'x'"),
        ("a.dax", "<adag/>", 1, "has no job"),
        ("a.dax", " ", None, "is empty"),
        ("a.dax", '<!DOCTYPE a [<!ENTITY b "c">]><adag/>', 1, "declares the entity 'b'"),
        ("a.json", changed(FILES["old.json"], '"B"\n', '"Q"\n'), None, "is not a task of the file"),
        ("a.json", changed(FILES["new.json"], '"id": "B"', '"id": "A"'), 22, "two tasks are called 'A'"),
        ("a.json", changed(FILES["old.json"], '"runtime": 20', '"runtime": "x"'), 34, "is not a number"),
        (
            "a.json",
            changed(FILES["old.json"], '"runtime": 20', '"runtime": -1'),
            31,
            "task 'B' runs for -1 s",
        ),
        ("a.json", changed(FILES["old.json"], '"runtime": 20', '"rrr": 20'), 31, "task 'B' has no run time"),
        ("a.json", '{"workflow": 3}', None, "needs an object 'workflow'"),
        ("a.json", '{"workflow": {"tasks": 3}}', 1, "expected a list, but got 3"),
        ("a.json", '{"workflow": {"tasks": []}}', 1, "has no task"),
        ("a.json", "{", 1, "is not JSON"),
        ("a.txt", "x", None, "content is of no known workflow format"),
        ("a.dax", changed(PEGASUS, "id: B\n", "id: A\n"), 17, "two jobs are called 'A'"),
        ("a.yml", changed(PEGASUS, "runtime: 20", "runtime: long"), 25, "task 'B': 'long' is not a number"),
        ("a.yml", changed(PEGASUS, "runtime: 20, ", ""), 17, "task 'B' has no run time"),
        ("a.yml", changed(PEGASUS, "children: [C]", "children: [Q]"), 35, "'Q' refers to itself"),
        ("a.yml", changed(PEGASUS, "[B, C]", "[B, C"), 35, "is not YAML"),
        ("a.yml", changed(PEGASUS, "uses: [{lfn: y, type: input}]", "uses: &a [*a]"), 30, "has an alias"),
        ("a.yml", f"pegasus: 5\njobs: {'[' * 100_000}", 2, "nests too deeply"),
        ("a.yml", "pegasus: 5\n---\njobs: []", None, "holds 2 documents"),
        ("tc.yml", 'pegasus: "5.0"\ntransformations: []', 1, "has no job"),
    ],
)
def test_bad_files_are_told_where(tmp_path, name, text, line, message):
    path = written(tmp_path, name, text)
    with pytest.raises(WorkloadError, match=message) as caught:
        read_workflow(path)
    assert caught.value.path == path
    if line is not None:
        assert caught.value.line == line


def by_name(*rows, version="1.4", tasks="tasks"):
    """Return a file of (name, id, seconds, parents, children)."""
    keys = ("name", "id", "runtimeInSeconds", "parents", "children")
    listed = [dict(zip(keys, row, strict=True)) | {"type": "compute", "files": []} for row in rows]
    return json.dumps({"name": "w", "schemaVersion": version, "workflow": {"machines": [], tasks: listed}})


@pytest.mark.parametrize("version", ["1.2", "1.3", "1.4"])
def test_tasks_before_version_1_5_refer_by_name(tmp_path, version):
    rows = [("a_ID1", "ID1", 1, [], ["b_ID2", "c_ID3"]), ("b_ID2", "ID2", 2, ["a_ID1"], ["d_ID4"])]
    rows += [("c_ID3", "ID3", 3, ["a_ID1"], ["d_ID4"]), ("d_ID4", "ID4", 2, [], [])]
    text = by_name(*rows, version=version, tasks="jobs" if version == "1.2" else "tasks")
    workflow = read_workflow(written(tmp_path, "w.json", text))
    assert (len(workflow), len(workflow.parent), workflow.critical_path) == (4, 4, 6)


def test_names_and_ids_that_cross(tmp_path):
    """The schema decides where a reference could be both."""
    rows = [("1", "2", 5, [], []), ("2", "1", 7, ["1"], [])]
    older = read_workflow(written(tmp_path, "w.json", by_name(*rows)))
    assert (older.parent.tolist(), older.child.tolist()) == ([0], [1])
    document = json.loads(by_name(*rows, version="1.5"))
    tasks = document["workflow"].pop("tasks")
    document["workflow"] |= {"specification": {"tasks": tasks}, "execution": {"tasks": tasks}}
    with pytest.raises(WorkloadError, match="'1' → '1'"):
        read_workflow(written(tmp_path, "w.json", json.dumps(document)))


def test_ambiguous_names_are_refused_unless_ids_settle_them(tmp_path):
    rows = [("map", "1", 5, [], []), ("map", "2", 7, [], []), ("reduce", "3", 1, ["map"], [])]
    with pytest.raises(
        WorkloadError, match="'3' has the parent 'map', which is the name of several"
    ) as caught:
        read_workflow(written(tmp_path, "w.json", by_name(*rows)))
    assert "1.5" in caught.value.hint
    by_id = [*rows[:2], ("reduce", "3", 1, ["1", "2"], [])]
    assert len(read_workflow(written(tmp_path, "w.json", by_name(*by_id))).parent) == 2
    unrelated = [*rows[:2], ("reduce", "3", 1, [], [])]
    assert len(read_workflow(written(tmp_path, "w.json", by_name(*unrelated)))) == 3


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.dax", DAX.replace(' runtime="', ' wanted="')),
        ("a.yaml", PEGASUS.replace("runtime:", "maxwalltime:")),
        ("a.json", by_name(("a", "1", 0, [], []), ("b", "2", 0, [], [])).replace("runtimeIn", "plannedIn")),
        ("a.json", json.dumps({"workflow": {"specification": {"tasks": [{"id": "a"}, {"id": "b"}]}}})),
    ],
)
def test_templates_are_refused_by_name(tmp_path, name, text):
    with pytest.raises(WorkloadError, match=r"is a template: none of its \d tasks has a run time"):
        read_workflow(written(tmp_path, name, text))


NEXTFLOW = "task_id\thash\tnative_id\tname\tstatus\texit\tsubmit\tduration\trealtime\n1\ta1/b2\t77\tFASTQC"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (NEXTFLOW, "is no workflow: .* a trace of Nextflow", "Nextflow parser of WfCommons"),
        ('{"jobs": [{"workflow": "w", "subtime": 3}]}', "is no workflow: .*subtime", "it is a log"),
        ('{\n "frequencies": {"microstructure_9f": [[1]]}}', "a recipe", "WorkflowGenerator"),
        ("<!DOCTYPE html><html><body>Sign in", "is no workflow: it begins as HTML", "download the file"),
    ],
)
def test_other_files_are_refused_by_what_they_are(tmp_path, text, message, hint):
    path = written(tmp_path, "file.txt.gz", text)
    with pytest.raises(WorkloadError, match=message) as caught:
        read_workflow(path)
    assert hint in caught.value.hint


def test_pegasus_as_json(tmp_path):
    """Pegasus writes its workflows as JSON, too; profiles and the workflow's name come where they may."""
    job = {"type": "job", "name": "n", "arguments": [], "uses": [], "profiles": {"pegasus": {"runtime": "7"}}}
    document = {"name": "w", "jobs": [job | {"id": "a"}, job | {"id": "b"}], "pegasus": "5.0.4"}
    document["jobDependencies"] = [{"id": "a", "children": ["b"]}]
    path = written(tmp_path, "w.json", json.dumps(document))
    assert read_workflow(path).critical_path == 14


def test_jobs_inherit_the_profiles_of_their_program(tmp_path):
    yaml = """pegasus: 5.0
name: w
transformationCatalog:
  transformations:
  - {namespace: n, name: sort, sites: [], profiles: {pegasus: {runtime: 30, cores: 4}}}
jobs:
- {type: job, namespace: n, name: sort, id: a, arguments: [], uses: []}
- {type: job, namespace: n, name: sort, id: b, arguments: [], uses: [], profiles: {pegasus: {runtime: 5}}}
"""
    dax = """<adag version="3.4" name="w">
      <executable namespace="n" name="sort">
        <profile namespace="pegasus" key="runtime">30</profile><profile key="cores">4</profile></executable>
      <job namespace="n" name="sort" id="a"/>
      <job namespace="n" name="sort" id="b" runtime="5"/></adag>"""
    workflow = read_workflow(written(tmp_path, "w.yml", yaml))
    assert (workflow.run_time.tolist(), workflow.processors.tolist()) == ([30, 5], [4, 4])
    workflow = read_workflow(written(tmp_path, "w.dax", dax))
    assert (workflow.run_time.tolist(), workflow.processors.tolist()) == ([30, 5], [4, 4])


def test_namespaces_files_and_profiles_of_dax_3(tmp_path):
    text = """<d:adag xmlns:d="http://pegasus.isi.edu/schema/DAX" version="3.4" name="n">
      <d:job id="1" namespace="g" name="one" version="4.0">
        <d:profile namespace="pegasus" key="runtime">60</d:profile>
        <d:profile namespace="condor" key="request_cpus">8</d:profile>
        <d:uses name="f" link="output"><d:metadata key="size">9</d:metadata></d:uses>
      </d:job>
      <d:dax id="2" file="inner.dax">
        <d:profile namespace="pegasus" key="runtime">5</d:profile><d:uses name="f" link="input"/>
      </d:dax>
      <d:child ref="2"><d:parent ref="1" edge-label="f"/></d:child>
    </d:adag>"""
    workflow = read_workflow(written(tmp_path, "n.dax", text))
    assert (workflow.run_time.tolist(), workflow.processors.tolist()) == ([60, 5], [8, 1])
    assert (workflow.volume.tolist(), workflow.critical_path) == ([9], 65)


def test_a_cycle_names_its_tasks_and_the_file(tmp_path):
    path = written(tmp_path, "a.dax", changed(DAX, '<child ref="B">', '<child ref="B"><parent ref="C"/>'))
    with pytest.raises(WorkloadError, match=r"wait for each other: 'B' → 'C' → 'B'") as caught:
        read_workflow(path)
    assert caught.value.path == path


def test_rules_take_care_of_what_cannot_be(tmp_path):
    text = changed(changed(DAX, 'runtime="20"', 'runtime="-20"'), 'size="30"', 'size="-3"')
    workflow = read_workflow(written(tmp_path, "a.dax", text), clean=WORKFLOW_RULES)
    assert workflow.run_time.tolist() == [1.5, 0, 2]
    assert workflow.cleaning == {"zero_negative_times": 1, "zero_negative_sizes": 1}
    with pytest.raises(WorkloadError, match="no cleaning rule"):
        read_workflow(tmp_path / "a.dax", clean=["tidy"])


def test_a_file_that_is_no_file(tmp_path):
    with pytest.raises(WorkloadError, match="no such file"):
        read_workflow(tmp_path / "a.dax")
    with pytest.raises(WorkloadError, match="holds more than 100 bytes"):
        read_workflow(written(tmp_path, "a.dax.gz", DAX), max_bytes=100)


TASKS = {"CyberShake_1000.dax.xml.gz": 1000, "Epigenomics_997.dax.xml.gz": 997, "Sipht_100.dax.xml.gz": 97}
TASKS |= {"1000genome-chameleon-2ch-100k-001.json.xz": 52, "soykb-chameleon-10fastq-10ch-001.json.xz": 96}


@pytest.mark.real_traces
def test_published_files(trace_dir):
    read = {
        path.name: read_workflow(path, clean=WORKFLOW_RULES) for path in (trace_dir / "workflows").iterdir()
    }
    assert {name: len(read[name]) for name in TASKS} == TASKS
    cleaned = {name for name, workflow in read.items() if any(workflow.cleaning.values())}
    assert cleaned <= {"Epigenomics_997.dax.xml.gz"}
    for workflow in read.values():
        assert workflow.level.max() + 1 > 1
        assert np.isfinite(workflow.critical_path)
        assert 0 < workflow.critical_path <= workflow.work


def test_a_workflow_is_described(tmp_path):
    description = read_workflow(written(tmp_path, "a.dax", DAX)).describe()
    assert (description["tasks"], description["edges"], description["levels"]) == (3, 3, [1, 1, 1])
    assert description["work_processor_seconds"] == 1.5 + 80 + 2
    assert description["critical_path_seconds"] == 23.5
    assert description["bytes_sent"] == 130


@pytest.mark.parametrize(
    ("text", "is_workflow"),
    [
        (DAX, True),
        (FILES["new.json"], True),
        (FILES["old.json"], True),
        (PEGASUS, True),
        ("\ufeff" + DAX, True),
        ("<platform/>", False),
        ('{"jobs": [{"workflow": "w"}], "profiles": {}}', False),
        ("", False),
    ],
)
def test_workflows_are_told_from_logs(text, is_workflow):
    found = recognise(text.encode())
    assert (found is not None and found.name == WORKFLOW) == is_workflow
