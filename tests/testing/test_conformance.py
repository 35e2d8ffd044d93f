"""Everything that comes with gridtune passes the suites that are shipped for what others add."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from gridtune.batch.metrics import METRICS
from gridtune.batch.policies.queue_order import ORDERS
from gridtune.core.system import SYSTEMS
from gridtune.registry import Registry
from gridtune.testing import (
    EnvironmentConformance,
    FormatConformance,
    MetricConformance,
    PredictorConformance,
    QueueOrderConformance,
    SystemConformance,
)
from gridtune.workload.formats.log import FORMATS
from tests.extras import AGENTS

#: A few days of a small cluster.
DAYS = {"trace": "taurus_days", "cluster": "taurus", "first": 12}


def own(registry: Registry, module: str) -> list[str]:
    """The names of what comes with gridtune; other tests and installed packages register things too."""
    return [name for name, item in registry.items() if module_of(item, module).startswith("gridtune.")]


def module_of(item: object, attribute: str) -> str:
    return getattr(item, attribute).__module__


class TestMetrics(MetricConformance):
    names = own(METRICS, "function")


class TestQueueOrders(QueueOrderConformance):
    names = own(ORDERS, "score")


class TestPredictors(PredictorConformance):
    names = ("last-two", "template", "early-end")


class TestFormats(FormatConformance):
    names = own(FORMATS, "read")


class TestBatch(SystemConformance):
    system = "batch"
    example: ClassVar = {
        "trace": "quickstart",
        "first": 300,
        "order": "wfp3",
        "walltime": "noise",
        "noise": 0.5,
    }


class TestBatchPower(SystemConformance):
    system = "batch"
    example: ClassVar = {"trace": "quickstart", "first": 300, "power": "timeout", "idle_timeout": 60}


@pytest.mark.skipif(not AGENTS, reason="needs the extra agents")
@pytest.mark.usefixtures("cluster")
@pytest.mark.slow
class TestBatchPPO(SystemConformance):
    system = "batch/ppo"
    example: ClassVar = {
        "trace": "quickstart",
        "first": 1000,
        "iterations": 1,
        "environments": 2,
        "steps": 48,
        "jobs": 64,
        "candidates": 8,
    }


class TestDispatch(SystemConformance):
    system = "dispatch"
    example: ClassVar = {
        "mode": "assist",
        "learner": "naive_bayes",
        "rule": "random",
        "learning_jobs": 120,
        "batches": 2,
        "batch_jobs": 80,
    }


@pytest.mark.skipif(not AGENTS, reason="needs the extra agents")
@pytest.mark.usefixtures("cluster")
@pytest.mark.slow
class TestDispatchPPO(SystemConformance):
    system = "dispatch/ppo"
    example: ClassVar = {"batch_jobs": 40, "iterations": 1, "environments": 2, "steps": 48}


class TestGangs(SystemConformance):
    system = "gangs"
    example: ClassVar = {"drawn_jobs": 60}


class TestPlacement(SystemConformance):
    system = "placement"
    example: ClassVar = {"drawn_nodes": 4, "drawn_pods": 40}


class TestProvisioning(SystemConformance):
    system = "provisioning"
    example: ClassVar = {"trace": "quickstart", "first": 200, "tasks": 12, "search": "nsga2", "iterations": 3}


class TestResponsive(SystemConformance):
    system = "responsive"
    example: ClassVar = {
        "trace": "egee",
        "first": 300,
        "policy": "esn-sarsa",
        "sweeps": 1,
        "pretraining_sweeps": 1,
    }


class TestShutdown(SystemConformance):
    system = "shutdown"
    example: ClassVar = {**DAYS, "policy": "random"}


@pytest.mark.skipif(not AGENTS, reason="needs the extra agents")
@pytest.mark.usefixtures("cluster")
@pytest.mark.slow
class TestShutdownPPO(SystemConformance):
    system = "shutdown/ppo"
    example: ClassVar = {**DAYS, "iterations": 1, "environments": 2, "steps": 48}


class TestSlurm(SystemConformance):
    system = "slurm"
    example: ClassVar = {
        "trace": "quickstart",
        "first": 300,
        "slurm": str(Path(__file__).parent / "small_cluster"),
        "changes": "PriorityMaxAge=2-0",
    }


@pytest.mark.skipif(not AGENTS, reason="needs the extra agents")
@pytest.mark.usefixtures("cluster")
@pytest.mark.slow
class TestResponsiveESNQ(SystemConformance):
    system = "responsive/esnq"
    example: ClassVar = {"trace": "egee", "first": 200, "neurons": 10, "iterations": 1}


class TestShutdownEnvironment(EnvironmentConformance):
    environment = "gridtune/Shutdown-v0"
    steps = 3000


class TestBatchEnvironment(EnvironmentConformance):
    environment = "gridtune/Batch-v0"
    options: ClassVar = {"jobs": 64}


class TestBatchEnvironmentOfBackfilling(EnvironmentConformance):
    environment = "gridtune/Batch-v0"
    options: ClassVar = {"trace": "sessions", "jobs": 64, "mode": "backfill", "candidates": 16}


class TestResponsiveEnvironment(EnvironmentConformance):
    environment = "gridtune/Responsive-v0"


class TestProvisioningEnvironment(EnvironmentConformance):
    environment = "gridtune/Provisioning-v0"
    options: ClassVar = {"instances": 4}
    steps = 200


class TestDispatchEnvironment(EnvironmentConformance):
    environment = "gridtune/Dispatch-v0"


class TestDispatchEnvironmentThatHolds(EnvironmentConformance):
    environment = "gridtune/Dispatch-v0"
    options: ClassVar = {"hold": True, "batch_jobs": 40}


def test_every_system_is_tested() -> None:
    systems = {name for name, system in SYSTEMS.items() if type(system).__module__.startswith("gridtune.")}
    suites = [suite for suite in globals().values() if isinstance(suite, type)]
    tested = {
        suite.system for suite in suites if issubclass(suite, SystemConformance) and "Test" in suite.__name__
    }
    trainings = {f"{name}/{algorithm}" for name in systems for algorithm in SYSTEMS[name].trainings}
    assert tested == systems | trainings
