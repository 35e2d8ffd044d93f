"""The generated reference is complete: every key, error, environment and system has its words."""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import TypeAdapter

from gridtune import errors
from gridtune.core.system import SYSTEMS
from gridtune.registry import is_ours

SITE = Path(__file__).parents[1] / "scripts" / "site"
# They are scripts of MkDocs, which imports them so.
sys.path.insert(0, str(SITE))
import messages  # noqa: E402
import observations  # noqa: E402
import reference  # noqa: E402
import space_keys  # noqa: E402


def test_every_key_of_a_search_space_has_a_meaning_and_an_example() -> None:
    lacking = [
        f"{model.__name__}.{name}"
        for _, model in space_keys.models()
        for name, _, meaning, example in space_keys.key_rows(model)
        if not meaning or example is None
    ]
    assert not lacking
    page = space_keys.space_keys()
    assert "| `system` | text | `batch` | The registered system whose parameters are searched. |" in page
    assert "| `trials` | whole number | needed | Configurations that are tried. |" in page


def test_examples_of_keys_are_valid() -> None:
    models = {model.__name__: model for _, top in space_keys.models() for model in top.__mro__}
    for (model, key), example in space_keys.EXAMPLES.items():
        field = models[model].model_fields[key]  # type: ignore[attr-defined]
        TypeAdapter(field.rebuild_annotation()).validate_python(example)


def test_every_family_of_errors_has_advice() -> None:
    assert set(messages.ADVICE) == {name for name in errors.__all__ if name.endswith("Error")}


def test_messages_are_found_where_they_are_raised() -> None:
    by_text = {message.text: message for message in messages.messages()}
    assert len(by_text) > 500
    one = by_text["is a folder, not a log"]
    assert one.hint == "name one of its files (from Python, read_workloads reads all of them)"
    assert messages.section_of(one.module) == "Logs"
    # An f-string, its hint in a variable.
    assert "whose tables those of … would replace" in " ".join(by_text)
    assert by_text["the log does not say how large the machine is"].hint.startswith("give --processors N")
    page = messages.messages_page()
    for title, _, _ in messages.SECTIONS:
        assert f"\n## {title}\n" in page, title


def test_every_environment_shows_what_it_shows() -> None:
    for system in SYSTEMS.values():
        for name in system.environments:
            assert len(observations.observation_of(name)) > 100, name


def test_every_system_has_its_choices() -> None:
    page = reference.pages()["reference/policies.md"]
    ours = {name for name, system in SYSTEMS.items() if is_ours(type(system).__module__)}
    assert set(reference.PAGES) == ours
    for name, of_system in reference.PAGES.items():
        assert f"## Choices of {name}\n" in page
        assert (SITE.parents[1] / "docs" / of_system).is_file()
    assert "| `policy` | `timeout`, `adaptive`, `lookahead`" in page
