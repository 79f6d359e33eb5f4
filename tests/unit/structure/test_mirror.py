"""A unit test has the same path as the code that it tests, so that each is found by the other."""

from __future__ import annotations

from pathlib import Path

_UNIT = Path(__file__).parents[1]
_ROOT = _UNIT.parents[1]
_OF_THE_WHOLE = {"structure"}
"""Folders with tests of the package's own order."""


def _tested_by(folder: Path) -> list[Path]:
    """Return the possible places of the code that a folder of tests is about: in the package, or beside it."""
    path = folder.relative_to(_UNIT)
    places = [_ROOT / "lakewarden" / path, _ROOT / path]
    return [*places, *(place.with_suffix(".py") for place in places)]


def test_the_unit_tests_mirror_the_package() -> None:
    """A folder of tests has the name of a room or a module of the package, or of a folder or a script beside it."""
    folders = {file.parent for file in _UNIT.rglob("test_*.py")}
    assert len(folders) > 40
    astray = {
        str(folder.relative_to(_UNIT))
        for folder in folders
        if folder.name not in _OF_THE_WHOLE and not any(place.exists() for place in _tested_by(folder))
    }
    assert not astray


def test_no_unit_test_lies_beside_the_rooms() -> None:
    """Each test is in a folder."""
    assert not [*_UNIT.glob("test_*.py")]
