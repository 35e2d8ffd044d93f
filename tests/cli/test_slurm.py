"""`gridtune slurm whatif`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import gridtune as gt
from gridtune.cli.main import cli
from gridtune.tracking.store import connect

SACCT = """\
JobID|User|Account|Partition|QOS|Submit|Start|End|State|AllocCPUS|ReqCPUS|AllocNodes|ReqNodes|TimelimitRaw|ReqMem
1|u|a|all|high|2026-01-05T00:00:00|2026-01-05T00:00:00|2026-01-05T00:10:00|COMPLETED|4|4|2|2|20|10M
2|v|b|all|high|2026-01-05T00:01:00|2026-01-05T00:20:00|2026-01-05T00:25:00|COMPLETED|2|1|1|1|10|10M
3|v|b|all|high|2026-01-05T00:01:00|2026-01-05T00:20:00|2026-01-05T00:25:00|COMPLETED|64|64|1|1|10|10M
"""
CONF = """\
SelectType=select/cons_tres
PriorityType=priority/multifactor
PriorityWeightQOS=5
SuspendTime=300
SlurmctldPort=7000
NodeName=n[1-2] CPUs=2 RealMemory=1000
PartitionName=all Nodes=ALL Default=YES
"""


@pytest.fixture
def paths(tmp_path):
    (tmp_path / "slurm.conf").write_text(CONF)
    (tmp_path / "scontrol_show_config.txt").write_text("SlurmUser = slurm(64)\nSLURM_VERSION  = 22.05.8\n")
    (tmp_path / "sacct.txt").write_text(SACCT)
    return str(tmp_path / "sacct.txt"), str(tmp_path)


def whatif(*arguments: str):
    return CliRunner().invoke(cli, ["slurm", "whatif", *arguments])


def test_a_change_without_effect_changes_nothing(paths):
    log, folder = paths
    result = whatif(
        log, "--slurm", folder, "--draws", "3", "--change", "PriorityWeightAge=9", "--json", "--anyway"
    )
    assert result.exit_code == 0, result.output
    report = json.loads(result.output)
    assert report["trust"]["level"] == "no"
    everything = report["classes"]["all jobs"]
    assert report["jobs"] == everything["jobs"] == 2
    assert everything["recorded"] == (0 + 19 * 60) / 2
    # Job 2 waits for the end of job 1, and for the next pass.
    assert 540 / 2 <= everything["simulated"] <= (540 + 60) / 2
    assert everything["relative"] == 0
    assert report["verdict"] == "not sure"
    assert report["not_modelled"][0] == "1 jobs left out: more than the cluster could ever hold"
    assert report["not_modelled"][2:] == [
        "requests: jobs have the allocated processors, 1.014 × as many",
        "slurm.conf:4: suspendtime=300",
    ]
    assert report["slurm_conf"] == ["+PriorityWeightAge=9"]
    # That of the whole log, with the job that is left out.
    assert report["processors_allocated_to_requested"] == 1.014
    assert report["left_out"] == {
        "more than the cluster could ever hold": 1,
    }
    assert report["taken_otherwise"] == {
        "have a QOS without a known priority, taken as 0 (high): run `sacctmgr show qos -P > "
        "sacctmgr_qos.txt` in the folder of slurm.conf": 2,
    }


def test_more_nodes_end_a_wait(paths, tmp_path):
    log, folder = paths
    other = tmp_path / "larger"
    other.mkdir()
    larger = CONF.replace("n[1-2]", "n[1-3]").replace("7000", "8000")
    (other / "slurm.conf").write_text(larger)
    command = [log, "--slurm", folder, "--draws", "8", "--to", str(other)]
    refused = json.loads(whatif(*command, "--json").output)
    assert (refused["advice"].partition(":")[0], refused["classes"]) == ("No answer", {})
    command.append("--anyway")
    report = json.loads(whatif(*command, "--json").output)
    changed = report["classes"]["all jobs"]["changed"]
    # Both start at the next pass.
    assert changed <= 60
    assert report["verdict"] == "better"
    # Ports decide nothing.
    assert report["slurm_conf"] == [
        "-NodeName=n[1-2] CPUs=2 RealMemory=1000",
        "+NodeName=n[1-3] CPUs=2 RealMemory=1000",
    ]
    printed = whatif(*command).output
    assert printed.startswith("Not to be trusted. Make this change: jobs wait less.")
    assert "+NodeName=n[1-3]" in printed
    assert "account b" in printed


def test_jobs_that_could_no_longer_run_are_named_and_lose(paths):
    log, folder = paths
    command = [log, "--slurm", folder, "--draws", "6", "--anyway"]
    down = ["--change", "NodeName=n1 State=DOWN"]
    report = json.loads(whatif(*command, *down, "--json").output)
    text = "1 jobs of partition all could never run, more than the cluster could ever hold: 1"
    assert report["excluded"] == [text]
    assert (report["jobs"], report["verdict"]) == (1, "better")
    # The present configuration still has all jobs.
    assert report["classes"]["all jobs"]["simulated"] > 500
    assert "if these losses are acceptable" in report["advice"]
    assert text in " ".join(whatif(*command, *down).output.split())
    limited = ["--change", "PartitionName=all MaxTime=15"]
    assert json.loads(whatif(*command, *limited, "--json").output)["excluded"] == [
        "1 jobs of partition all could never run, a time limit above MaxTime: 1"
    ]
    nobody = whatif(*command, "--change", "PartitionName=all MaxTime=5")
    assert "no job could run after the change" in str(nobody.exception)


def test_more_load_is_a_denser_log_graded_as_it_was(paths, tmp_path):
    log, folder = paths
    # A job of 12 minutes each 10 minutes: each waits 2 minutes longer than the one before it.
    clock = [f"2026-01-05T{minute // 60:02}:{minute % 60:02}:00" for minute in range(400)]
    rows = SACCT.splitlines()[:1] + [
        f"{k + 1}|u|a|all|high|{clock[10 * k]}|{clock[12 * k]}|{clock[12 * k + 12]}|COMPLETED|4|4|2|2|20|10M"
        for k in range(30)
    ]
    (tmp_path / "sacct.txt").write_text("\n".join(rows) + "\n")
    command = [log, "--slurm", folder, "--draws", "8", "--load", "1.6"]
    report = json.loads(whatif(*command, "--json").output)
    assert report["advice"].endswith("At 1.6 times the load jobs wait longer than now.")
    assert report["slurm_conf"] == ["-load 1", "+load 1.6"]
    both = report["classes"]["all jobs"]
    assert both["simulated"] < 2000
    assert both["changed"] > 4000
    assert f"mean {both['simulated']:,.0f} s, recorded 1,740 s" in report["trust"]["reason"]
    refused = whatif(*command, "--predict", str(tmp_path / "later.json"))
    assert "later jobs have a load of their own" in str(refused.exception)


def test_an_answer_is_tracked_once_with_its_trust(paths, store_uri):
    log, folder = paths
    command = [log, "--slurm", folder, "--draws", "3", "--change", "bf_interval=300", "--anyway"]
    command += ["--tracking-uri", store_uri]
    for _ in range(2):
        tracked = whatif(*command)
        assert tracked.exit_code == 0, tracked.output
        assert "tracked in " in tracked.output
    client = connect(store_uri)
    experiment = client.get_experiment_by_name("slurm whatif")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.metrics["classes.all jobs.recorded"] == 19 * 60 / 2
    assert run.data.params["change"] == "bf_interval=300"
    assert run.data.tags["trust"].startswith("no: ")
    assert run.data.tags["advice"].startswith("Not to be trusted.")
    assert [file.path for file in client.list_artifacts(run.info.run_id)] == ["answer.json"]


def test_a_store_that_cannot_be_one_is_refused_before_the_work(paths):
    log, folder = paths
    refused = whatif(log, "--slurm", folder, "--tracking-uri", "mlruns")
    assert "is no tracking URI" in str(refused.exception)
    assert not refused.output


def test_a_prediction_is_verified_unless_it_was_edited(paths, tmp_path):
    log, folder = paths
    stored = tmp_path / "prediction.json"
    command = [
        log,
        "--slurm",
        folder,
        "--draws",
        "3",
        "--change",
        "bf_interval=300",
        "--predict",
        str(stored),
    ]
    assert "no prediction is stored" in str(whatif(*command).exception)
    assert not stored.exists()
    assert whatif(*command, "--anyway").exit_code == 0
    verify = ["slurm", "verify", str(stored), log, "--draws", "3", "--json"]
    answer = json.loads(CliRunner().invoke(cli, verify).stdout)
    assert answer["trust"]["level"] == "no"
    assert answer["advice"].startswith("No answer")
    assert "jobs are from before the day of the prediction" in answer["next_steps"][0]
    assert "1 jobs left out: more than the cluster could ever hold" in answer["not_modelled"]
    stored.write_text(stored.read_text().replace("bf_interval=300", "bf_interval=3000"))
    assert "was changed after it was written" in str(CliRunner().invoke(cli, verify).exception)


def test_a_change_to_the_running_configuration_is_refused(paths):
    log, folder = paths
    for options in (["--change", "PriorityWeightQOS=5"], ["--to", folder]):
        error = str(whatif(log, "--slurm", folder, *options).exception)
        assert "nothing changes" in error
        assert "give those from before it" in error


def test_a_prediction_without_an_interval_is_verified(paths, tmp_path):
    log, folder = paths
    one = gt.whatif(log, slurm=folder, change=["bf_interval=300"], draws=1, anyway=True)
    assert one.effects["all jobs"].low is None
    answer = gt.verify(one.write(tmp_path / "prediction.json"), log, draws=1)
    assert answer.trust.level == "no"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("bf_interval=120", "+SchedulerParameters=bf_interval=120"),
        ("PartitionName=all PriorityTier=2", "+PartitionName=all Nodes=ALL Default=YES PriorityTier=2"),
        ("priorityweightqos=9", "+priorityweightqos=9"),
    ],
)
def test_the_lines_of_slurm_conf_that_change_are_printed(paths, change, line):
    log, folder = paths
    report = json.loads(whatif(log, "--slurm", folder, "--draws", "2", "--change", change, "--json").output)
    assert line in report["slurm_conf"]


UNKNOWN = """\
AccountingStorageEnforce=limits
PriorityWeightFairshare=5
SchedulerParameters=bf_busy_nodes,bf_licenses
"""


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ((), "2 jobs have no known association, taken as one share of their account: run `sacctmgr show"),
        ((), "limits that AccountingStorageEnforce sets: no sacctmgr_assoc.txt; run `sacctmgr show assoc"),
        ((), "limits that AccountingStorageEnforce sets: no sacctmgr_qos.txt; run `sacctmgr show qos"),
        (("User",), "2 jobs have no user or no account in the log, on which fair share depends"),
        (("QOS",), "2 jobs have no QOS in the log, taken as one of priority 0"),
        (("TimelimitRaw",), "2 jobs have no time limit, taken as that of their partition"),
    ],
)
def test_what_priorities_and_plans_lack_is_named(paths, tmp_path, columns, sentence):
    log, folder = paths
    (tmp_path / "slurm.conf").write_text(UNKNOWN + CONF)
    rows = [row.split("|") for row in SACCT.splitlines()]
    kept = [place for place, name in enumerate(rows[0]) if name not in columns]
    (tmp_path / "sacct.txt").write_text("\n".join("|".join(row[k] for k in kept) for row in rows))
    command = [log, "--slurm", folder, "--draws", "2", "--change", "bf_interval=60", "--anyway"]
    report = json.loads(whatif(*command, "--json").output)
    assert any(text.startswith(sentence) for text in report["not_modelled"])
    # The details have all of them, and a setting that the change shares once.
    printed = " ".join(whatif(*command, "--details").output.split())
    assert all(text in printed for text in report["not_modelled"])
    assert printed.count("SchedulerParameters=bf_busy_nodes") == 3  # a remark, and the line before and after


def test_files_that_say_it_leave_nothing_to_name(paths, tmp_path):
    log, folder = paths
    (tmp_path / "slurm.conf").write_text(UNKNOWN + CONF)
    (tmp_path / "sacctmgr_qos.txt").write_text("Name|Priority\nhigh|9\n")
    (tmp_path / "sacctmgr_assoc.txt").write_text("Account|User|Share\nroot||1\na||1\na|u|1\nb||1\nb|v|1\n")
    command = [log, "--slurm", folder, "--draws", "2", "--change", "bf_interval=60", "--json"]
    named = json.loads(whatif(*command).output)["not_modelled"]
    assert not any("sacctmgr show qos" in text or "association" in text for text in named)


@pytest.mark.slow
def test_weeks_are_what_intervals_are_made_of(paths, tmp_path):
    _, folder = paths
    days = "".join(
        f"{number}|u|a|all||2026-{month:02}-{day:02}T0{hour}:00:00|2026-{month:02}-{day:02}T0{hour}:10:00|"
        f"2026-{month:02}-{day:02}T0{hour}:50:00|COMPLETED|4|4|2|2|60|10M\n"
        for number, (month, day, hour) in enumerate(
            ((month, day, hour) for month in (1, 2) for day in range(1, 29) for hour in (1, 1)), start=1
        )
    )
    log = tmp_path / "weeks.txt"
    log.write_text(SACCT.partition("\n")[0] + "\n" + days)
    command = [str(log), "--slurm", folder, "--draws", "2", "--change", "bf_interval=120", "--json"]
    assert json.loads(whatif(*command).output)["replicate"] == "week"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "nothing to change"),
        (["--change", "bf_intervall=9"], "did you mean 'bf_interval'"),
        (["--change", "PartitionName=nowhere PriorityTier=2"], "no partition 'nowhere'"),
        (["--to", "nowhere"], "does not exist"),
    ],
)
def test_bad_input_is_refused(paths, options, message):
    log, folder = paths
    result = whatif(log, "--slurm", folder, *options)
    assert result.exit_code != 0
    assert message in result.output + str(result.exception)


def test_the_release_is_that_of_the_site_or_asked_for(paths, tmp_path):
    log, folder = paths
    command = [log, "--slurm", folder, "--draws", "2", "--change", "PriorityWeightAge=9", "--json"]
    stated = tmp_path / "scontrol_show_config.txt"
    stated.write_text("SLURM_VERSION = 23.02.7\n")
    unverified = "Slurm 23.02.7: rules of its source, not confirmed by recorded runs"
    assert unverified in json.loads(whatif(*command).output)["not_modelled"]
    given = json.loads(whatif(*command, "--slurm-version", "24.11").output)
    assert given["not_modelled"][3:] == ["slurm.conf:4: suspendtime=300"]
    # Another folder may be of another release: an upgrade.
    other = tmp_path / "newer"
    other.mkdir()
    (other / "slurm.conf").write_text(CONF)
    upgrade = [log, "--slurm", folder, "--draws", "2", "--to", str(other), "--json"]
    assert "nothing changes" in str(whatif(*upgrade).exception)
    (other / "scontrol_show_config.txt").write_text("SLURM_VERSION = 24.11.5\n")
    assert json.loads(whatif(*upgrade).output)["slurm_conf"] == ["-Slurm 23.02.7", "+Slurm 24.11.5"]
    stated.unlink()
    for asked in (
        ["slurm", "whatif", *command[:-1]],
        ["slurm", "fit", log, "--slurm", folder, "--out", str(tmp_path / "fit")],
        ["slurm", "waits", "--squeue", log, "--slurm", folder],
        ["init", log, "--slurm", folder, "--out", str(tmp_path / "study.yaml")],
    ):
        result = CliRunner().invoke(cli, asked)
        assert "--slurm-version" in result.output + str(result.exception), asked
        assert "scontrol show config >" in result.output + str(result.exception)


SQUEUE = """\
JOBID|PARTITION|USER|ACCOUNT|QOS|STATE|SUBMIT_TIME|START_TIME|TIME|TIME_LIMIT|CPUS|NODES|NODELIST
7|all|u|a|high|RUNNING|2026-01-05T01:00:00|2026-01-05T01:00:00|1:00|20:00|2|1|n1
8|all|u|a|high|PENDING|2026-01-05T01:00:30|N/A|0:00|20:00|4|2|
"""


def test_predicted_starts_carry_their_trust_in_a_notebook_too(paths, tmp_path):
    _, folder = paths
    held = SQUEUE.replace("NODELIST", "NODELIST|REASON").replace("|n1\n", "|n1|None\n")
    held = (
        held.removesuffix("\n")
        + "|Priority\n9|all|u|a|high|PENDING|2026-01-05T01:00:30|N/A|0:00|20:00|4|2||JobHeldUser\n"
    )
    (tmp_path / "squeue.txt").write_text(held)
    found = gt.waits(squeue=tmp_path / "squeue.txt", slurm=folder, draws=2)
    shown = found._repr_html_()
    assert "trust not graded: without --fit" in shown
    assert "1 are not predicted: JobHeldUser" in shown
    assert "not modelled: 2 jobs have a QOS without a known priority" in shown
    assert found.not_modelled[0] in " ".join(found.lines)
    # The same where nothing shows HTML.
    printed = str(found)
    assert "trust not graded: without --fit" in printed
    assert "job | user | partition | processors | Slurm plans | likely start | 80 % from | to" in printed
    assert len(printed.splitlines()) == 2 + len(found.lines) + len(found.pending)


@pytest.mark.parametrize("command", ["whatif", "waits", "init", "run"])
def test_commands_name_what_is_not_modelled(paths, tmp_path, monkeypatch, command):
    log, folder = paths
    monkeypatch.chdir(tmp_path)
    head, first, *rows = SACCT.splitlines()
    rows = [
        f"{head}|SubmitLine",
        f"{first}|sbatch -d afterok:9 x.sh",
        *(f"{row}|sbatch x.sh" for row in rows),
    ]
    (tmp_path / "sacct.txt").write_text("\n".join(rows))
    (tmp_path / "squeue.txt").write_text(SQUEUE)
    commands = {
        "whatif": [
            "slurm",
            "whatif",
            log,
            "--slurm",
            folder,
            "--draws",
            "2",
            "--change",
            "PriorityWeightAge=9",
        ],
        "waits": [
            "slurm",
            "waits",
            "--squeue",
            "squeue.txt",
            "--slurm",
            folder,
            "--log",
            log,
            "--draws",
            "2",
        ],
        "init": ["init", log, "--slurm", folder, "--out", "study.yaml"],
        "run": ["run", "slurm", f"trace={log}", f"slurm={folder}"],
    }
    result = CliRunner().invoke(cli, commands[command], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "slurm.conf:4: suspendtime=300" in text
    assert "dependencies, in 1 jobs" in text
