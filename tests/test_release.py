"""What a release consists of agrees with itself: version, changelog, citation, extras, container."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

import gridtune


@pytest.fixture(scope="module")
def project(repository: Path) -> Any:
    return tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_changelog_begins_with_what_is_unreleased_or_with_this_version(repository: Path) -> None:
    headings = re.findall(
        r"^## (.+)$", (repository / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    versions = [
        heading.split()[0].strip("[]") for heading in headings if not heading.startswith("Unreleased")
    ]
    assert headings.index("Unreleased") == 0 if "Unreleased" in headings else versions
    assert versions == sorted(versions, key=Version, reverse=True)
    assert not versions or versions[0] == gridtune.__version__


def test_the_citation_is_of_this_package(repository: Path, project: Any) -> None:
    citation = yaml.safe_load((repository / "CITATION.cff").read_text(encoding="utf-8"))
    described = project["project"]
    assert str(citation["version"]) == gridtune.__version__
    assert citation["license"] == described["license"]
    assert citation["keywords"] == described["keywords"]
    assert [author["name"] for author in citation["authors"]] == [
        author["name"] for author in described["authors"]
    ]


def test_the_other_descriptions_are_of_this_package_too(repository: Path, project: Any) -> None:
    codemeta = json.loads((repository / "codemeta.json").read_text(encoding="utf-8"))
    zenodo = json.loads((repository / ".zenodo.json").read_text(encoding="utf-8"))
    citation = yaml.safe_load((repository / "CITATION.cff").read_text(encoding="utf-8"))
    described = project["project"]
    assert codemeta["version"] == gridtune.__version__
    assert codemeta["description"] == described["description"]
    assert codemeta["keywords"] == zenodo["keywords"] == described["keywords"]
    assert zenodo["title"] == citation["title"]
    assert zenodo["license"] == described["license"]


#: What the channel of conda-forge calls a package of the package index, and what an extra of it brings.
CONDA_NAMES = {
    "matplotlib": {"matplotlib-base"},
    "pooch": {"pooch", "tqdm"},
    "ray": {"ray-default", "ray-tune"},
}


def test_the_conda_recipe_needs_what_the_project_needs(repository: Path, project: Any) -> None:
    recipe = yaml.safe_load((repository / "conda/recipe.yaml").read_text(encoding="utf-8"))
    described = project["project"]
    wanted = {"python": SpecifierSet(described["requires-python"])}
    for requirement in map(Requirement, described["dependencies"]):
        for name in CONDA_NAMES.get(requirement.name, {requirement.name}):
            wanted[name] = SpecifierSet() if name == "tqdm" else requirement.specifier
    named = (line.partition(" ") for line in recipe["requirements"]["run"])
    assert {name: SpecifierSet(versions) for name, _, versions in named} == wanted
    assert recipe["context"]["version"] == gridtune.__version__
    command, entry = next(iter(described["scripts"].items()))
    assert recipe["build"]["python"]["entry_points"] == [f"{command} = {entry}"]


def test_the_workflows_run_what_people_run(repository: Path, project: Any) -> None:
    folder = repository / ".github/workflows"
    tests = yaml.safe_load((folder / "test.yml").read_text(encoding="utf-8"))["jobs"]["test"]
    assert ".ci/run" in [step.get("run") for step in tests["steps"]]
    supported = SpecifierSet(project["project"]["requires-python"])
    assert all(version in supported for version in tests["strategy"]["matrix"]["python"])
    release = yaml.safe_load((folder / "release.yml").read_text(encoding="utf-8"))["jobs"]["build"]
    commands = [step["run"] for step in release["steps"] if "run" in step]
    assert [command for command in commands if (repository / command).exists()] == [
        "scripts/package",
        "scripts/docs",
    ]


def test_the_version_is_written_once(project: Any) -> None:
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "gridtune.__version__"}
    assert str(Version(gridtune.__version__)) == gridtune.__version__


def test_what_is_pinned_runs_on_the_first_python_that_is_named(repository: Path) -> None:
    """Distributions of Linux stay at the Python that they began with: Debian 12 at 3.11.2."""
    constraints = (repository / "constraints.txt").read_text(encoding="utf-8")
    wanted: dict[str, str] = {}
    for name, version in re.findall(r"^([\w.-]+)(?:\[.*\])?==(\S+)", constraints, re.MULTILINE):
        with contextlib.suppress(metadata.PackageNotFoundError):
            package = metadata.distribution(name)
            if package.version == version:
                wanted[name] = package.metadata.get("Requires-Python") or ""
    assert len(wanted) > 50
    assert [name for name, python in wanted.items() if "3.11.2" not in SpecifierSet(python)] == []


def test_every_extra_is_on_the_page_and_has_a_tested_version(repository: Path, project: Any) -> None:
    page = (repository / "docs" / "install.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    extras = project["project"]["optional-dependencies"]
    assert sorted(listed) == sorted(extras)
    constraints = (repository / "constraints.txt").read_text(encoding="utf-8")
    tested = {_normal(name) for name in re.findall(r"^([\w.-]+)(?:\[.*\])?==", constraints, re.MULTILINE)}
    wanted = {_normal(Requirement(text).name) for texts in extras.values() for text in texts}
    assert wanted - {"gridtune"} <= tested


def test_the_container_file_copies_what_a_wheel_is_made_of(repository: Path, project: Any) -> None:
    stages, copied = _instructions(repository / "Containerfile"), set()
    for words in stages["COPY"]:
        if not words[0].startswith("--from="):
            copied |= set(words[:-1])
    for name in copied:
        assert (repository / name).exists(), f"Containerfile copies {name}, which is not there"
    described, tool = project["project"], project["tool"]["setuptools"]
    wanted = {"pyproject.toml", "constraints.txt", described["readme"], *described["license-files"]}
    wanted |= {pattern.split("/")[0] for patterns in tool["data-files"].values() for pattern in patterns}
    wanted |= {pattern.rstrip("*") for pattern in tool["packages"]["find"]["include"]}
    manifest = (repository / "MANIFEST.in").read_text(encoding="utf-8")
    wanted |= set(re.findall(r"^include (.+)$", manifest, re.MULTILINE)[0].split()) - {"Containerfile"}
    assert wanted <= copied


def test_the_container_runs_the_command_on_a_python_that_fits(repository: Path, project: Any) -> None:
    stages = _instructions(repository / "Containerfile")
    (version,) = (words[0].removeprefix("PYTHON=") for words in stages["ARG"] if "PYTHON" in words[0])
    assert f"{version}.1" in SpecifierSet(project["project"]["requires-python"])
    assert all(words[0] == "docker.io/library/python:${PYTHON}-slim" for words in stages["FROM"])
    (entry,) = stages["ENTRYPOINT"]
    assert entry[0].strip('["]') in project["project"]["scripts"]
    assert stages["USER"] == [["gridtune"]]


def _instructions(path: Path) -> dict[str, list[list[str]]]:
    """Return the words of each instruction of a container file, by its name."""
    lines = path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    instructions: dict[str, list[list[str]]] = {}
    for name, _, rest in (line.partition(" ") for line in lines if line and not line.startswith("#")):
        assert name in {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "ENTRYPOINT", "CMD"}
        instructions.setdefault(name, []).append(shlex.split(rest))
    return instructions


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
