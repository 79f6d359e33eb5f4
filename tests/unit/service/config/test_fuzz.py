"""Whatever stands in the file, it loads or is refused in lines: no other exception, and no end that does not come."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.config.checks import Facts, place_of
from lakewarden.service.config.document import read_document
from lakewarden.service.config.loading import examine
from lakewarden.service.config.problems import Weight

EXAMPLE = Path(__file__).parents[3] / "fixtures" / "every_setting.yaml"
DOCUMENT = copy.deepcopy(read_document(EXAMPLE).values)
assert DOCUMENT is not None


def _paths(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if at:
        yield at
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in entries:
        yield from _paths(below, (*at, key))


PATHS = list(_paths(DOCUMENT))

_NUMBERS = st.sampled_from(
    [0, -1, 1, True, 10**18, -(10**18), 10**25, 10**400, 0.5, 1e308, math.inf, -math.inf, math.nan, 2**63, 2**64]
)
_TEXTS = st.text(max_size=20) | st.sampled_from(
    [
        *("999999999999d", "-1s", "10min", "1e9s", "0s", "1ms", "9" * 5000 + "d", "NaN", "2026-11-22", "22:00", "yes"),
        *("/", "//", "/../..", "s3://", "s3://b/../c", "catalog://", "catalog://a/b.c", "catalog://lake/sales.orders"),
        *("*", "~", "\x1b[31m", "\x85", "\U0001d518", "a" * 10_000, "{env: X}", "::", "hudi", "iceberg", "fake", "act"),
    ]
)
_SCALARS = st.none() | st.booleans() | _NUMBERS | _TEXTS | st.integers() | st.floats()
_KEYS = st.sampled_from(sorted({str(part) for path in PATHS for part in path})) | st.text(max_size=5)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=10,
)


def _nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = {"all_of": [value]}
    return value


_DEEP = st.integers(1, 60).map(_nested)


@st.composite
def _documents(draw: st.DrawFn) -> dict[str, Any]:
    """Return the example with some of its values replaced, some keys taken away, and some that were never there."""
    document = copy.deepcopy(DOCUMENT)
    assert document is not None
    for path in draw(st.lists(st.sampled_from(PATHS), min_size=1, max_size=4)):
        here: Any = document
        try:
            for part in path[:-1]:
                here = here[part]
            if draw(st.integers(0, 5)) == 0 and isinstance(here, dict):
                del here[path[-1]]
                here[draw(_KEYS)] = draw(_VALUES)
            else:
                here[path[-1]] = draw(_VALUES | _DEEP)
        except (KeyError, IndexError, TypeError):  # an earlier change took it away
            continue
    return document


def _dumped(document: object) -> str:
    """Return the document as YAML, written by libyaml where it is there: without, it takes longer than loading it."""
    dumper = yaml.CDumper if yaml.__with_libyaml__ else yaml.Dumper
    return str(yaml.dump(document, Dumper=dumper, allow_unicode=True))


def _no_file_system(**asked: Any) -> Facts:
    return Facts(places={text: place_of(text, follow_links=False) for text in asked["addresses"]})


def _seen(file: Path) -> None:
    """Load the file; the settings that come of it are bounded, and the lines that do not are printable."""
    examined = examine(file, to_serve=False, ask=_no_file_system)

    for weight in Weight:
        for line in examined.of(weight):
            assert line.startswith(f"{file}")
            assert line.isprintable(), line
            assert len(line) < 2_000
    if examined.config is None:
        assert examined.of(Weight.ERROR)
        with pytest.raises(PermanentError):
            examined.accepted()
    else:
        assert timedelta(milliseconds=100) <= examined.config.settings.defaults.poll <= timedelta(days=1)


@pytest.mark.long
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(document=_documents())
def test_whatever_is_changed_in_the_example_is_read_or_refused_in_lines(
    document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Wrong types, huge numbers, deep nesting, dates, NaN, unknown units, foreign letters, keys in wrong places."""
    file = tmp_path_factory.getbasetemp() / "changed.yaml"
    file.write_text(_dumped(document), encoding="utf-8")

    _seen(file)


@pytest.mark.long
def test_a_long_value_in_any_place_is_refused_in_a_short_line(tmp_path: Path) -> None:
    """Whichever key it stands behind: its own check says what was wrong with it, and none writes it out whole."""
    file = tmp_path / "long.yaml"
    for path in PATHS:
        document = copy.deepcopy(DOCUMENT)
        here: Any = document
        for part in path[:-1]:
            here = here[part]
        if isinstance(here[path[-1]], dict | list):
            continue
        here[path[-1]] = "(" * 10_000
        file.write_text(_dumped(document), encoding="utf-8")

        _seen(file)


@pytest.mark.long
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_whatever_is_changed_in_the_text_of_the_example_is_read_or_refused_in_lines(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Bytes cut out, put in or doubled: broken quotes, brackets, indentation, encodings."""
    content = bytearray(EXAMPLE.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content)))
        length = data.draw(st.integers(0, 40))
        chunk = data.draw(
            st.binary(max_size=8) | st.sampled_from([b"\t", b"\r\n", b": ", b"- ", b"&a ", b"*a", b"!x "])
        )
        content[place : place + length] = chunk
    file = tmp_path_factory.getbasetemp() / "torn.yaml"
    file.write_bytes(bytes(content))

    _seen(file)


def test_the_fuzz_begins_with_what_is_right(tmp_path: Path) -> None:
    """Else it would only ever see one early refusal."""
    file = tmp_path / "same.yaml"
    file.write_text(yaml.dump(DOCUMENT))

    assert examine(file, to_serve=False, ask=_no_file_system).of(Weight.ERROR) == []
    assert len(PATHS) > 200
