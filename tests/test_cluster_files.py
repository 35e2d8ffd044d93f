"""The cluster files of examples/clusters have the keys that Ray and KubeRay know, and name what is here."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray
import yaml
from ray.autoscaler._private.util import prepare_config

CLUSTERS = Path(__file__).resolve().parent.parent / "examples" / "clusters"
LAUNCHED = ("on_premise", "aws")


def read(name: str) -> Any:
    return yaml.safe_load((CLUSTERS / f"{name}.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", LAUNCHED)
def test_ray_up_takes_the_file(name: str) -> None:
    # Ray itself fills in first what a file leaves out.
    prepared = prepare_config(read(name))
    schema = json.loads((Path(ray.__file__).parent / "autoscaler" / "ray-schema.json").read_text())
    jsonschema.validate(prepared, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**prepared, "maximum_workers": 2}, schema)


@pytest.mark.parametrize("name", LAUNCHED)
def test_nodes_have_a_token_and_one_thread_for_each_worker(name: str) -> None:
    content = read(name)
    for key in ("head_start_ray_commands", "worker_start_ray_commands"):
        start = content[key][-1]
        assert "RAY_AUTH_MODE=token" in start
        assert "OMP_NUM_THREADS=1" in start
    assert "--dashboard-host=127.0.0.1" in content["head_start_ray_commands"][-1]


def shape(fields: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": list(required),
        "additionalProperties": False,
    }


TEXT, COUNT, SWITCH = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "boolean"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
ENVIRONMENT = {"type": "array", "items": shape({"name": TEXT, "value": TEXT, "valueFrom": {}}, "name")}
CONTAINER = shape(
    {
        "name": TEXT,
        "image": TEXT,
        "env": ENVIRONMENT,
        "resources": shape({"requests": TEXTS, "limits": TEXTS}, "requests", "limits"),
        "volumeMounts": {"type": "array", "items": shape({"name": TEXT, "mountPath": TEXT})},
    },
    "name",
    "image",
    "resources",
)
POD = shape(
    {
        "spec": shape(
            {
                "containers": {"type": "array", "items": CONTAINER, "minItems": 1},
                "volumes": {"type": "array"},
            },
            "containers",
        )
    },
    "spec",
)
#: Those fields of KubeRay's RayJob (ray.io/v1) that the example uses, with the types of its CRD.
RAY_JOB = shape(
    {
        "apiVersion": {"const": "ray.io/v1"},
        "kind": {"const": "RayJob"},
        "metadata": shape({"name": TEXT}, "name"),
        "spec": shape(
            {
                "entrypoint": TEXT,
                "shutdownAfterJobFinishes": SWITCH,
                "ttlSecondsAfterFinished": COUNT,
                "backoffLimit": COUNT,
                "rayClusterSpec": shape(
                    {
                        "rayVersion": TEXT,
                        "authOptions": shape({"mode": {"enum": ["token", "disabled"]}}),
                        "enableInTreeAutoscaling": SWITCH,
                        "autoscalerOptions": shape({"idleTimeoutSeconds": COUNT}),
                        "headGroupSpec": shape({"rayStartParams": TEXTS, "template": POD}, "template"),
                        "workerGroupSpecs": {
                            "type": "array",
                            "items": shape(
                                {
                                    "groupName": TEXT,
                                    "replicas": COUNT,
                                    "minReplicas": COUNT,
                                    "maxReplicas": COUNT,
                                    "rayStartParams": TEXTS,
                                    "template": POD,
                                },
                                "groupName",
                                "template",
                            ),
                        },
                    },
                    "headGroupSpec",
                ),
            },
            "entrypoint",
            "rayClusterSpec",
        ),
    },
    "apiVersion",
    "kind",
    "metadata",
    "spec",
)


def test_kuberay_takes_the_job(repository: Path) -> None:
    job = read("rayjob")
    jsonschema.validate(job, RAY_JOB)
    cluster = job["spec"]["rayClusterSpec"]
    assert cluster["authOptions"] == {"mode": "token"}
    pods = [group["template"] for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]
    for pod in pods:
        (container,) = pod["spec"]["containers"]
        assert {"name": "OMP_NUM_THREADS", "value": "1"} in container["env"]
        assert container["resources"]["requests"] == container["resources"]["limits"]
    named = re.search(r"/gridtune/(\S+\.yaml)", job["spec"]["entrypoint"])
    assert named is not None
    assert (repository / named[1]).is_file()
    constraints = (repository / "constraints.txt").read_text(encoding="utf-8")
    assert f"\nray=={cluster['rayVersion']}\n" in constraints
