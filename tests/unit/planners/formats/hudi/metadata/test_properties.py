"""`hoodie.properties` is read as Java reads it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi.metadata.properties import parse_properties

JAVA_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "=": "\\=", ":": "\\:", "#": "\\#"}


def as_java_stores(text: str, *, key: bool) -> str:
    """Escape as `java.util.Properties.store` does."""
    out = []
    for position, char in enumerate(text):
        if char == " " and (key or position == 0):
            out.append("\\ ")
        elif char in JAVA_ESCAPES or char == "!":
            out.append(JAVA_ESCAPES.get(char, "\\!"))
        elif ord(char) > 0x7E or ord(char) < 0x20:
            out.append(f"\\u{ord(char):04X}")
        else:
            out.append(char)
    return "".join(out)


TEXT = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=12)


@given(st.dictionaries(TEXT.filter(bool), TEXT, max_size=5))
def test_what_java_stores_is_read_back(values: dict[str, str]) -> None:
    """Keys and values round-trip through Java's escapes."""
    lines = [f"{as_java_stores(k, key=True)}={as_java_stores(v, key=False)}\n" for k, v in values.items()]
    assert parse_properties(("#a comment\n" + "".join(lines)).encode("latin-1")) == values


@pytest.mark.parametrize(
    ("content", "values"),
    [
        ("a=b", {"a": "b"}),
        ("a : b", {"a": "b"}),
        ("a b c", {"a": "b c"}),
        ("a=", {"a": ""}),
        ("a", {"a": ""}),
        ("  a = b ", {"a": "b "}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("!no\n#no\n\na=1\na=2", {"a": "2"}),
        ("url=s3\\://b/x", {"url": "s3://b/x"}),
        ("a=\\u00e9\\", {"a": "é"}),
    ],
)
def test_javas_notation_is_understood(content: str, values: dict[str, str]) -> None:
    """Separators, continuation lines, comments and escapes mean what they mean in Java."""
    assert parse_properties(content.encode("latin-1")) == values


@given(st.binary(max_size=60))
def test_any_bytes_can_be_read(content: bytes) -> None:
    """A damaged file raises nothing here. A missing key is noticed by name."""
    parse_properties(content)


@pytest.mark.parametrize(
    ("content", "values"),
    [
        ("a=\\ud83d\\ude00", {"a": "\U0001f600"}),
        ("a=\\ud800", {"a": "\ufffd"}),
        ("a=\\ude00\\ud83d.", {"a": "\ufffd\ufffd."}),
    ],
)
def test_a_pair_of_surrogates_is_one_sign_and_half_a_pair_is_a_mark(content: str, values: dict[str, str]) -> None:
    """Text that cannot be written anywhere does not get further."""
    assert parse_properties(content.encode("latin-1")) == values


@pytest.mark.parametrize("line", ["\\\n", "a\\\n", "\\\\\\\n", "a=b\n", "\n", "#\n", "\\u00e9\\\n"])
def test_a_megabyte_of_lines_takes_time_by_its_length(line: str) -> None:
    """Continued lines were joined one by one: two million of them took over a minute."""
    content = (line * (2**20 // len(line))).encode()
    begun = time.process_time()
    parse_properties(content)
    assert time.process_time() - begun < 60
