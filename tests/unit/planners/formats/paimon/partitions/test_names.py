"""Partitions are called as Paimon calls them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.paimon.metadata.schemas import Schema
from lakewarden.planners.formats.paimon.options.service_options import PartitionOptions
from lakewarden.planners.formats.paimon.partitions.names import escaped, name_of
from tests.support.paimon.paimon_look import facts_of
from tests.support.paimon.paimon_table import PaimonTable, partition_row


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    return facts_of(PaimonTable(tmp_path / "t")).schema


def of_type(schema: Schema, kind: str, options: PartitionOptions | None = None) -> Schema:
    core = replace(schema.options, partitions=options or PartitionOptions())
    return replace(schema, partition_types=(kind,), options=core)


def text_row(text: str) -> bytes:
    """Return a row with a text that stands behind its field."""
    raw = text.encode()
    return (1).to_bytes(4, "big") + bytes(8) + len(raw).to_bytes(4, "little") + (16).to_bytes(4, "little") + raw


@pytest.mark.parametrize(
    ("options", "folder"), [(PartitionOptions(), "p=7"), (PartitionOptions(legacy_names=False), "p=1970-01-08")]
)
def test_the_folder_of_a_date_has_the_number_of_its_day_unless_the_table_says_otherwise(
    schema: Schema, options: PartitionOptions, folder: str
) -> None:
    """Paimon's client takes the date in any case."""
    name = name_of(partition_row(7), of_type(schema, "DATE", options))
    assert name is not None
    assert (name.folder, dict(name.values)) == (folder, {"p": "1970-01-08"})


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        *((partition_row(7), kind) for kind in ("TIMESTAMP", "DECIMAL", "FLOAT", "NESTED")),
        ((1).to_bytes(4, "big") + b"\0\1" + bytes(14), "INT"),
        *((text_row(text), "STRING") for text in ("", "  ", "__DEFAULT_PARTITION__")),
    ],
)
def test_a_partition_without_a_value_or_with_one_that_is_not_read_has_no_name(
    schema: Schema, row: bytes, kind: str
) -> None:
    assert name_of(row, of_type(schema, kind)) is None


@given(text=st.text(min_size=1, max_size=300))
def test_a_text_is_escaped_so_that_it_is_one_level_of_a_path(text: str) -> None:
    found = escaped(text)
    assert not set(found) & set('/:=?*"')
    assert unquote(found, errors="strict") == text


def test_colons_are_escaped_and_letters_beyond_ascii_are_not() -> None:
    """As `PartitionPathUtils.generatePartitionPath` of Paimon 1.3.1 does (run, for each letter up to U+017F)."""
    assert escaped("12:30 ü[]{}|<>~") == "12%3A30 ü%5B%5D%7B%7D|<>~"
    assert escaped("".join(map(chr, range(0x20, 0x80)))) == (
        " !%22%23$%25&%27()%2A+,-.%2F0123456789%3A;<%3D>%3F@ABCDEFGHIJKLMNOPQRSTUVWXYZ%5B%5C%5D%5E_`"
        "abcdefghijklmnopqrstuvwxyz%7B|%7D~%7F"
    )
