"""Queue orders: registration, parameters, and whether they can be indexed."""

from __future__ import annotations

import pytest

import gridtune as gt
from gridtune.batch.policies import JobView, get_queue_order, queue_order, queue_order_names
from gridtune.core.user_code.plugins import load_plugins
from gridtune.errors import PolicyError

VIEW = JobView(100, 50, 4, 1, 2, 3, 4, 25, 125, 10.0, 20.0, 0.25)


def test_the_view_has_no_run_time():
    assert not {name for name in JobView._fields if "run" in name}


#: Submitted at 0 without a walltime, and waiting for 3 s.
EDGE = JobView(0, 0, 1, 1, 2, 3, 4, 3, 3, 0.0, 0.0, 0.0)

BY_HAND = {
    # The scores of VIEW and of EDGE.
    "fcfs": (100, 0),
    "sjf": (50, 0),
    "ljf": (-50, 0),
    "saf": (200, 0),
    "laf": (-200, 0),
    "narrowest": (4, 1),
    "widest": (-4, -1),
    "wfp3": (-4 * 0.5**3, -27),
    "wfp3(exponent=2)": (-1.0, -9),
    "unicef": (-25 / (2 * 50), -3),
    "xfactor": (-1.5, -3),
    "edf": (150, 0),
    "edf(slack=1)": (200, 0),
    "fair-user": (10, 0),
    "fair-group": (20, 0),
    "random": (0.25, 0),
    # The logarithm of 50 to the base 10 is 1.69897; that of 100 is 2.
    "f1": (1.69897 * 4 + 870 * 2, 0),
    "f2": (50**0.5 * 4 + 25_600 * 2, 0),
    "f3": (200 + 6_860_000 * 2, 0),
    "f4": (50 * 2 + 530_000 * 2, 0),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_scores_by_hand(name):
    order = get_queue_order(name)
    assert (order(VIEW), order(EDGE)) == pytest.approx(BY_HAND[name])


def test_every_shipped_order_is_worked_out_by_hand():
    shipped = {
        name
        for name in queue_order_names()
        if get_queue_order(name).score.__module__ == "gridtune.batch.policies.orders"
    }
    assert shipped <= set(BY_HAND)


@pytest.mark.parametrize(("other", "name"), [("swf", "sjf"), ("lwf", "ljf"), (" swf ", "sjf")])
def test_an_order_is_found_by_its_other_name(other, name):
    assert get_queue_order(other) is get_queue_order(name)
    assert other.strip() not in queue_order_names()


def test_every_order_says_what_it_does():
    for name in queue_order_names():
        order = get_queue_order(name)
        if order.score.__module__ == "gridtune.batch.policies.orders":
            assert len(order.description) > 10, name


@pytest.mark.parametrize("name", BY_HAND)
def test_static_orders_are_proven_from_their_source(name):
    later = VIEW._replace(wait=75, now=175, user_usage=30.0, group_usage=70.0, prediction=9.0)
    order = get_queue_order(name)
    assert order.static == (order(VIEW) == order(later))


def test_an_order_that_hands_the_job_on_counts_as_changing():
    def helper(job):
        return job.wait

    @queue_order("test-handed-on")
    def handed_on(job):
        """Hand the job to a helper."""
        return helper(job)

    assert not get_queue_order("test-handed-on").static


def test_a_name_is_never_overwritten():
    @queue_order("test-taken")
    def one(job):
        """One."""
        return job.walltime

    with pytest.raises(PolicyError, match="registered already"):

        @queue_order("test-taken")
        def other(job):
            """Other."""
            return -job.walltime


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("wfp3(power=2)", "no parameter 'power'"),
        ("wfp3(exponent=two)", "must be a number, got two"),
        ("wfp3(exponent=2", "closing parenthesis"),
        ("", "no queue order is named ''"),
    ],
)
def test_bad_references(reference, message):
    with pytest.raises(PolicyError, match=message):
        get_queue_order(reference)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        ("run_time", "a job has no field 'run_time': a policy never sees run times"),
        ("wait_time", "a job has no field 'wait_time'; did you mean 'wait'?"),
        ("colour", "a job has no field 'colour'\n"),
    ],
)
def test_a_field_that_a_job_lacks_is_refused_with_its_line(tmp_path, read, message):
    plugin = tmp_path / "my_orders.py"
    lines = (
        "import gridtune as gt",
        "",
        "",
        f"@gt.queue_order('test-reads-{read}')",
        "def f(job, scale=1.0):",
    )
    plugin.write_text("\n".join([*lines, "    old = job.wait", f"    return scale * job.{read} - old", ""]))
    with pytest.raises(PolicyError) as failed:
        load_plugins([plugin])
    assert str(failed.value).startswith(f"{plugin}:7: {message}")
    assert "submit_time, walltime, processors" in str(failed.value)
    assert f"test-reads-{read}" not in queue_order_names()


@pytest.mark.parametrize("fault", ["undefined_name", "sorted([1, 'a'])[0]", "len('a' + 1)", "'abcdefg'"])
def test_the_compilers_reason_is_given_without_its_own_files(tmp_path, fault):
    plugin, name = tmp_path / "my_orders.py", f"test-{len(fault)}-letters"
    plugin.write_text(f"import gridtune as gt\n@gt.queue_order('{name}')\ndef f(job):\n    return {fault}\n")
    load_plugins([plugin])
    with pytest.raises(PolicyError, match=f"'{name}' does not compile: ") as failed:
        gt.simulate(gt.generate_workload("poisson", jobs=10, seed=1), order=name)
    for word in ("nopython", "JobView(int64", "File ", "During"):
        assert word not in str(failed.value)


def test_a_function_that_takes_no_job_is_refused():
    with pytest.raises(PolicyError, match=r"test_queue_order.py:\d+: nobody takes no job") as failed:

        @queue_order("test-nobody")
        def nobody():
            return 1

    assert "def score(job)" in str(failed.value)
    assert "test-nobody" not in queue_order_names()


def test_what_does_not_compile_says_so():
    @queue_order("test-uncompilable")
    def uncompilable(job):
        """Use what numba has not."""
        return len({"a": object()}) + job.walltime

    log = gt.generate_workload("poisson", jobs=10, seed=1)
    with pytest.raises(PolicyError, match="'test-uncompilable' does not compile"):
        gt.simulate(log, order="test-uncompilable")


def test_a_score_that_is_no_number_is_refused():
    @queue_order("test-nan")
    def nan(job):
        """Give no number."""
        return job.walltime * float("nan")

    log = gt.generate_workload("poisson", jobs=10, seed=1)
    with pytest.raises(PolicyError, match="no finite number"):
        gt.simulate(log, order="test-nan")


def test_plugins_are_loaded_once_and_fail_with_their_file(tmp_path):
    good = tmp_path / "good.py"
    source = (
        "import gridtune as gt",
        "@gt.queue_order('test-plugin')",
        "def f(job):",
        "    return job.queue",
    )
    good.write_text("\n".join(source))
    load_plugins([good])
    load_plugins([good])
    assert get_queue_order("test-plugin").static
    bad = tmp_path / "bad.py"
    bad.write_text("raise RuntimeError('broken')\n")
    with pytest.raises(PolicyError, match=r"bad\.py.*RuntimeError: broken"):
        load_plugins([bad])
    with pytest.raises(PolicyError, match="no such plug-in"):
        load_plugins([tmp_path / "absent.py"])
