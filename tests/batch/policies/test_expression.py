"""Expressions: what they mean, how they are written, and which faults they name."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtune.batch.policies import JobView, get_queue_order
from gridtune.batch.policies.expression import FIELDS, read_expression
from gridtune.errors import PolicyError

VIEW = JobView(100, 50, 4, 1, 2, 3, 4, 25, 125, 10.0, 20.0, 0.25, 40.0)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("walltime", 50),
        ("walltime + 2 * processors", 58),
        ("(walltime + 2) * processors", 208),
        ("-wait / walltime ** 2", -25 / 2500),
        ("log10(submit_time) + log2(processors) + sqrt(now - wait)", 2 + 2 + 10),
        ("exp(log(walltime))", 50),
        ("min(walltime, prediction) - max(abs(-3), 2)", 37),
        ("(walltime > 49) + (walltime < 49)", 1),
        ("2 * -3 + 6 + user_usage", 10),
        # What is not defined goes last; what only has no bound does not.
        ("log(walltime - 51)", math.inf),
        ("0 / (wait - 25)", math.inf),
        ("log(wait - 25)", -math.inf),
        ("-1 / (wait - 25)", -math.inf),
    ],
)
def test_it_is_arithmetic(text, value):
    assert get_queue_order(text)(VIEW) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (" wait+walltime ", "wait + walltime"),
        ("walltime+wait", "wait + walltime"),
        ("walltime*1.50", "1.5 * walltime"),
        ("((walltime))*(2e0)", "2 * walltime"),
        ("2*3*walltime", "6 * walltime"),
        ("+walltime - -1", "walltime - -1"),
        ("(wait-now)-walltime", "wait - now - walltime"),
        ("wait-(now-walltime)", "wait - (now - walltime)"),
        ("1/3*wait", "0.3333333333333333 * wait"),
    ],
)
def test_equal_expressions_are_written_alike(text, canonical):
    assert read_expression(text).text == canonical
    assert read_expression(canonical).text == canonical


def _grown(inner):
    pairs = st.tuples(inner, inner)
    return st.one_of(
        pairs.map(lambda two: f"({two[0]} + {two[1]})"),
        pairs.map(lambda two: f"({two[0]} - {two[1]})"),
        pairs.map(lambda two: f"({two[0]} * {two[1]})"),
        pairs.map(lambda two: f"max({two[0]}, {two[1]})"),
        inner.map(lambda one: f"-{one}"),
        inner.map(lambda one: f"log({one})"),
    )


EXPRESSIONS = st.recursive(
    st.one_of(st.sampled_from(FIELDS), st.floats(0, 1e9).map(repr), st.integers(0, 9).map(str)), _grown
)


@given(EXPRESSIONS)
def test_the_one_form_means_the_same(text):
    expression = read_expression(text)
    again = read_expression(expression.text)
    assert (again.text, again.instructions) == (expression.text, expression.instructions)
    names = {**VIEW._asdict(), "max": max, "log": lambda x: -math.inf if x == 0 else math.log(x)}
    try:
        expected = eval(text, {}, names)
    except (ValueError, OverflowError):
        return
    expected = math.inf if math.isnan(expected) else expected
    assert expression(VIEW) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("log(walltime", "was never closed"),
        ("walltime * run_time", r"run_time.*never sees run times.*column 12"),
        ("walltme * 2", r"no field 'walltme'; did you mean 'walltime'\?.*column 1 "),
        ("wait + lot", r"no field 'lot'"),
        ("__import__('os').system('true')", "no function"),
        ("wait.real", "no arithmetic"),
        ("[wait][0]", "no arithmetic"),
        ("(lambda: wait)()", "no function"),
        ("wait if walltime else 2", "no arithmetic"),
        ("wait // 2", "an operator other than"),
        ("not wait", r"only \+ and -"),
        ("log(1, 2)", "log takes 1 operand"),
        ("max(wait)", "max takes 2 operands"),
        ("log(x=2) + 1", "log takes 1 operand"),
        ("1 < wait < 3", "no single < or >"),
        ("wait == 3", "no single < or >"),
        ("1e999 * wait", "no finite number"),
        ("10 ** 400 + 'a'", "no finite number"),
        ("True + wait", "no finite number"),
        ("(" * 300 + "wait" + ")" * 300, "cannot be read"),
        ("wait + " * 200 + "1", "at most 1000 characters"),
        ("w+" * 200 + "1", "at most 150 terms"),
        ("w1 * wait", "no field 'w1'"),
    ],
)
def test_a_fault_is_named_with_its_place(text, message):
    with pytest.raises(PolicyError, match=message):
        get_queue_order(text)


@pytest.mark.parametrize("text", ["sjff", "fcfs-2", "saff(exponent=2)", "my-order"])
def test_what_looks_like_a_name_is_one(text):
    with pytest.raises(PolicyError, match="no queue order is named"):
        get_queue_order(text)


def test_names_of_orders_come_before_arithmetic():
    assert get_queue_order("fair-user").name == "fair-user"
    assert get_queue_order("now-wait").name == "now - wait"


def test_coefficients_are_numbers_or_names():
    text = "w1 * log(walltime) + w2 * wait"
    named = read_expression(text, (("w1", math.nan), ("w2", math.nan)))
    assert named.text == "log(walltime) * w1 + w2 * wait"
    assert {"w1", "w2"} <= named.names
    assert get_queue_order(text, {"w1": 2.0, "w2": -0.5}).name == "-0.5 * wait + 2 * log(walltime)"


def test_an_expression_is_static_where_its_fields_are():
    assert get_queue_order("walltime * processors").static
    for field in ("wait", "now", "user_usage", "group_usage", "prediction"):
        assert not get_queue_order(f"walltime + {field}").static
