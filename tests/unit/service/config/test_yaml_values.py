"""What a YAML text becomes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.service.config.document import Values, read_document
from lakewarden.service.config.problems import KeyPath

_WORDS = st.sampled_from(
    ["a", "b", "name", "22:00", "0123", "yes", "1.5", "true", "~", "", "two words", "*", "[", "x: y"]
)
_LEAVES = _WORDS | st.integers(-(10**6), 10**6) | st.booleans() | st.none() | st.sampled_from([0.5, -1.25])
_TREES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=3), max_leaves=12
)


def _places(value: Any, at: KeyPath = ()) -> list[KeyPath]:
    """Return the paths of all keys and entries, in the order of a file that has each on a line of its own."""
    match value:
        case dict():
            return [place for key, one in value.items() for place in ((*at, key), *_places(one, (*at, key)))]
        case list():
            return [
                place for number, one in enumerate(value) for place in ((*at, number), *_places(one, (*at, number)))
            ]
        case _:
            return []


@given(tree=_TREES, indent=st.none() | st.just(1))
def test_values_are_read_as_they_were_written(tree: Any, indent: int | None) -> None:
    """JSON is YAML. A text in quotes stays a text, and true is not 1. Lines change no value."""
    text = json.dumps(tree, indent=indent)
    lines: dict[KeyPath, int] = {}

    assert repr(Values(text).read()) == repr(Values(text, lines).read()) == repr(tree)
    assert list(lines) == _places(tree)
    assert sorted(lines.values()) == list(lines.values())


def test_each_key_has_its_line(tmp_path: Path) -> None:
    """Also a key behind one that stands twice, or that is no text. Those are left out."""
    file = tmp_path / "lakewarden.yaml"
    file.write_text("a: 1\n? [x, {y: 1}]\n: {z: [2]}\na: {b: [3]}\nc:\n  - d: 4\n  - [5,\n     6]\ne: 7\n")
    document = read_document(file)

    assert document.values == {"a": 1, "c": [{"d": 4}, [5, 6]], "e": 7}
    assert [problem.line for problem in document.problems] == [2, 4]
    places: list[KeyPath] = [("a",), ("c",), ("c", 0, "d"), ("c", 1, 1), ("e",), ("c", 0, "missing"), ("missing",)]
    assert [document.line(place) for place in places] == [1, 5, 6, 8, 9, 6, None]


def test_equal_texts_are_held_once() -> None:
    """Thousands of tables have the same keys, and mostly the same words."""
    first, second = Values("- {format: hudi the first, id: a}\n- {format: hudi the first, id: b}\n").read()

    assert first["format"] is second["format"]
    assert all(one is other for one, other in zip(first, second, strict=True))


def test_a_text_with_a_nul_is_refused_with_its_line(tmp_path: Path) -> None:
    """No path, name or option can have one. The operating system would refuse it only when the daemon runs."""
    file = tmp_path / "lakewarden.yaml"
    file.write_text('tables: []\ndaemon: {data_dir: "a\\0b"}\n')
    [problem] = read_document(file).problems
    assert (problem.line, "has a NUL character" in problem.sentence) == (2, True)
