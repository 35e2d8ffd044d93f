"""Deviations from publications: what of the code they are held against, and that none is left out."""

from __future__ import annotations

import pytest

from gridtune.core.system import get_system
from gridtune.testing.systems import _value_in_code

#: The elements of each paper, read line by line, that are not done as published. Where one is built, or
#: another is found to differ, this and the deviations change together.
DIFFERING = {
    "responsive": {
        "the PBS log of the site LAL",
        "NAT is what the site's scheduler did, as logged",
        "run times and overheads of 17 million jobs of the whole grid",
        "four VOs with target shares 0.53, 0.19, 0.1 and 0.18",
        "a pool that changes every 15 minutes, though the site is rigid",
        "a termination with an empty queue: its sample and the values that resize the pool are not given",
        "any number of cores can be requested",
        "no ceiling of the pool",
        "a state has the time until a core is free",
        "features are not said to be scaled",
        "spectral radius, leak, input scale and ridge are not given",
        "candidates are inputs of a network with memory; the manner is not given",
        "the jobs of the pre-training, and its few sweeps, are not given",
        "the network is trained from scratch at each new example",
        "fitted Q learns from one set of samples",
        "costs and their minimum",
        "stochastic on-line learning, the second of two ways to learn",
        "several queues, and fairness in the reward of the elastic site, in further work",
    },
    "provisioning": {
        "the log of CTC SP2 on 430 nodes, from 28 June 1996",
        "loads of 63, 76 and 88 %",
        "slots of several sites under conservative backfilling",
        "rank and sharing of the genetic search: 'as in [16]'",
        "crossover rate, and population and iterations except for CyberShake (10 × 10), are not given",
        "the processor that a job gets is not given",
        "figure 4 is a drawing of three reservations and six slots",
        "queues that know the dependencies of tasks, and let waiting tasks gain priority",
        "the edges of CyberShake",
        "figures 5 to 7 and 9 are printed without numbers",
        "a discount for early reservation, in future work",
        "offers are advice that may be refused and asked for again, and wrong requests are fined",
    },
}


@pytest.mark.parametrize("name", DIFFERING)
def test_every_element_that_differs_is_a_deviation(name: str) -> None:
    deviations = get_system(name).reproductions[name].deviations
    assert {deviation.element for deviation in deviations} == DIFFERING[name]
    for deviation in deviations:
        assert all((deviation.source, deviation.here, deviation.reason)), deviation.element


def test_values_are_found_where_a_deviation_names_them() -> None:
    system = get_system("responsive")
    assert _value_in_code(system, "split") == 0.5
    assert _value_in_code(system, "gridtune.systems.responsive.metrics:LEFT_OUT") == 500
    assert _value_in_code(system, "gridtune.systems.responsive.metrics:measure_site") is True
    space = "search_spaces/responsive_published.yaml"
    assert _value_in_code(system, f"{space}:fixed.part") == "all"
    assert _value_in_code(system, f"{space}:fixed.neither.nor") is None
    cybershake = "search_spaces/provisioning_cybershake.yaml:workloads.0.population"
    assert _value_in_code(get_system("provisioning"), cybershake) == 10
    for gone in ("no_parameter", "gridtune.systems.responsive.metrics:GONE", "gridtune.systems.gone:X"):
        with pytest.raises((KeyError, AttributeError, ImportError)):
            _value_in_code(system, gone)
