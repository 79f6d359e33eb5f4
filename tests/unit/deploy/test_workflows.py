"""The workflows run commands of this repository, with few rights. None has run yet: they are only read."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

_ROOT = Path(__file__).parents[3]
_FOLDER = _ROOT / ".github" / "workflows"
_FILES = sorted(_FOLDER.glob("*.yml"))
_OF_DEV = set(re.findall(r"^    ([a-z]+)\)", (_ROOT / "dev").read_text(encoding="utf-8"), re.MULTILINE))


def _jobs(file: Path) -> dict[str, dict[str, Any]]:
    jobs: dict[str, dict[str, Any]] = yaml.safe_load(file.read_text(encoding="utf-8"))["jobs"]
    return jobs


def _steps(file: Path) -> Iterator[dict[str, Any]]:
    for job in _jobs(file).values():
        yield from job["steps"]


@pytest.mark.parametrize("file", _FILES, ids=lambda file: file.stem)
def test_each_step_runs_a_command_of_the_repository(file: Path) -> None:
    """A developer can run it in a clone. An action does only what a clone cannot do."""
    commands = [step["run"] for step in _steps(file) if "run" in step]
    assert commands
    for command in commands:
        program, *arguments = shlex.split(command)
        assert os.access(_ROOT / program, os.X_OK), command
        assert program != "./dev" or arguments[0] in _OF_DEV, command


@pytest.mark.parametrize("file", _FILES, ids=lambda file: file.stem)
def test_no_job_has_more_rights_than_it_names(file: Path) -> None:
    """By default it reads the repository. An action is named with its major version."""
    workflow = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    given = [job.get("permissions", {}) for job in _jobs(file).values()]
    written = {right for rights in given for right, how in rights.items() if how != "read"}
    assert written <= ({"id-token", "packages", "pages"} if file.stem == "release" else set())
    actions = [step["uses"] for step in _steps(file) if "uses" in step]
    assert [action for action in actions if not re.fullmatch(r"[\w-]+/[\w-]+@(release/)?v\d+", action)] == []


def test_the_gate_and_the_release_have_a_workflow() -> None:
    """The gate is what `.ci/run` does."""
    assert [file.stem for file in _FILES] == ["ci", "release"]
    assert ".ci/run" in [step.get("run") for step in _steps(_FOLDER / "ci.yml")]
