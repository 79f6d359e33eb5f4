"""The forms for issues are those that GitHub shows."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

_FOLDER = Path(__file__).parents[3] / ".github" / "ISSUE_TEMPLATE"
_FORMS = sorted(set(_FOLDER.glob("*.yml")) - {_FOLDER / "config.yml"})


@pytest.mark.parametrize("form", _FORMS, ids=lambda form: form.stem)
def test_a_form_has_what_github_needs(form: Path) -> None:
    """GitHub leaves out a form with an error, and says it to nobody. Source: its syntax for issue forms."""
    read = yaml.safe_load(form.read_text(encoding="utf-8"))
    fields = [field for field in read["body"] if field["type"] != "markdown"]

    assert {"name", "description", "body"} <= set(read)
    assert {field["type"] for field in fields} <= {"dropdown", "input", "textarea", "checkboxes"}
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["attributes"]["label"] for field in fields)
    assert all(field["attributes"]["options"] for field in fields if field["type"] == "dropdown")
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_there_is_a_form_for_a_bug_and_for_a_request() -> None:
    """A format and an engine are asked for by the second one."""
    assert [form.stem for form in _FORMS] == ["bug", "request"]
