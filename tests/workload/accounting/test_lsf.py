"""LSF's lsb.acct: elements of arrays are jobs, and the limit on the run time is where the version puts it."""

import numpy as np
import pytest

from gridtune.workload import read_workload

USAGE = "1.0 1.0 -1 0 -1 0 0 0 0 0 0 0 -1 0 0 0 0 0 -1"
BEFORE_PAIRS = '0 0 "" "" "" "" 0 "" 0 "" -1 "" "" "" "" -1 "" "" 5136 "" 1700000100 "" ""'


def record(element=0, end=1700001000, later="0 0 3600 0 0", hosts=("n1", "n1")):
    """Return a record; `later` begins with the number of pairs."""
    listed = " ".join([str(len(hosts)), *(f'"{host}"' for host in hosts)])
    return (
        f'"JOB_FINISH" "10.108" {end} 501 1001 33554435 {len(hosts)} 1700000000 0 0 1700000100 "ann" "q" '
        f'"" "" "" "host0" "/home" "" "" "" "1700000000.501" 0 {listed} 64 1.0 "sweep[1-4]" "sleep 900" '
        f'{USAGE} "" "default" 0 2 "" "" {element} {BEFORE_PAIRS} {later} "select[type == any]" "" -1\n'
    )


def read(folder, *records):
    path = folder / "lsb.acct"
    path.write_text("".join(records))
    return read_workload(path)


def test_elements_of_an_array_that_end_in_one_second_are_jobs(tmp_path):
    log = read(tmp_path, record(1), record(2), record(2), record(3, end=1700001500))
    np.testing.assert_array_equal(log.run_time, [900, 900, 1400])
    np.testing.assert_array_equal(log.job_id, [501, 501, 501])
    assert log.header["Import"] == ("1 records of jobs that are there already",)


@pytest.mark.parametrize(
    ("later", "limit"),
    [
        ("0 0 3600 0 0", 3600),
        ('1 1032 "0" 0 3600 0 0', 3600),
        ('1 1086 "-1 -1 -1 -1 -1 -1 -1 -1 -1 7200 -1 -1 " 0 -1 0 0', 7200),
        ('1 1086 "-1 -1 -1 -1 -1 -1 -1 -1 -1 7200 -1 -1 " 0 3600 0 0', 3600),
        ("0 2 n1 1306 0 1287486 242 0 n2 1291 0 643768 66 0 43200 0 8688640", 43200),
        ("0 0 0 3600 0 0", 3600),
        ("0 0 0 0 0", -1),
        ("", -1),
    ],
)
def test_the_limit_on_the_run_time(tmp_path, later, limit):
    assert read(tmp_path, record(later=later)).requested_time.tolist() == [limit]


def test_a_record_that_ends_with_the_command_has_no_limit(tmp_path):
    short = record().partition(USAGE)[0] + "1.0\n"
    log = read(tmp_path, short)
    assert (log.run_time.tolist(), log.requested_time.tolist()) == ([900], [-1])
