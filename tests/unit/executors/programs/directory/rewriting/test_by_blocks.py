"""Avro files are joined into one that holds each row of them once, by any reader."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakewarden.executors.programs.directory.rewriting.by_blocks import joined_blocks
from lakewarden.executors.programs.directory.rewriting.by_lines import NotRewrittenError
from live.paimon.avro import records

FIXTURES = Path(__file__).parents[5] / "fixtures" / "paimon"
SCHEMA: Mapping[str, Any] = {
    "type": "record",
    "name": "click",
    "fields": [{"name": "id", "type": "long"}, {"name": "what", "type": ["null", "string"]}],
}
Rows = Sequence[Mapping[str, Any]]


def written(file: Path, rows: Rows, **more: Any) -> Path:
    with file.open("wb") as opened:
        fastavro.writer(opened, more.pop("schema", SCHEMA), rows, **more)
    return file


def read(*files: Path) -> list[Any]:
    found: list[Any] = []
    for file in files:
        with file.open("rb") as opened:
            found += fastavro.reader(opened)
    return found


def clicks(*ids: int) -> Rows:
    return [{"id": one, "what": None if one % 3 else f"click {one}"} for one in ids]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    parts=st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30), min_size=1, max_size=6),
    codec=st.sampled_from(["null", "deflate", "bzip2", "xz"]),
    block=st.integers(1, 200),
    size=st.sampled_from([1, 400, 2**30]),
)
def test_the_new_files_hold_the_rows_of_the_old_ones(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[int]], codec: str, block: int, size: int
) -> None:
    """In their order, whatever the codec, the size of a block and the number of rows. A file may be empty."""
    folder = tmp_path_factory.mktemp("avro")
    files = [
        written(folder / f"part-{number}", clicks(*ids), codec=codec, sync_interval=block)
        for number, ids in enumerate(parts)
    ]
    made = joined_blocks(files, folder / "out", target_size=size)
    assert read(*made) == read(*files) == [row for ids in parts for row in clicks(*ids)]
    assert len(made) <= len(files)
    if size == 2**30:
        assert len(made) == 1


@pytest.mark.parametrize("name", ["spark_keyed", "spark_events", "pypaimon_keyed"])
def test_files_of_other_programs_are_joined(name: str, tmp_path: Path) -> None:
    """Avro's Java library has written the manifests of Paimon's own client, and fastavro those of pypaimon."""
    with zipfile.ZipFile(FIXTURES / f"{name}.zip") as archive:
        archive.extractall(tmp_path)
    files = sorted(one for one in (tmp_path / "manifest").glob("manifest-*") if "list" not in one.name)
    assert len(files) > 1
    [made] = joined_blocks(files, tmp_path / "out", target_size=2**30)
    assert list(records(made)) == [row for file in files for row in records(file)]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"codec": "deflate"}, "different schemas, codecs"),
        ({"metadata": {"owner": "us"}}, "different schemas, codecs"),
        ({"schema": {**SCHEMA, "fields": SCHEMA["fields"][:1]}}, "different schemas, codecs"),
    ],
)
def test_files_that_differ_are_left_as_they_are(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    """Readers find one schema and one codec in a file. What else it says of itself may have a meaning."""
    files = [written(tmp_path / "a", clicks(1)), written(tmp_path / "b", [{"id": 2, "what": None}], **more)]
    with pytest.raises(NotRewrittenError, match=said):
        joined_blocks(files, tmp_path / "out", target_size=100)
    assert not (tmp_path / "out").exists()


def snappy(file: Path, rows: Rows) -> Path:
    """Write blocks of snappy as the specification has them: compressed, and a checksum of what was compressed."""
    plain = written(file, rows, sync_interval=1)
    content = plain.read_bytes().replace(b"\x14avro.codec\x08null", b"\x14avro.codec\x0csnappy")
    header, *blocks = content.split(content[-16:])[:-1]
    sync = content[-16:]
    told = [header + sync]
    for block in blocks:  # one byte each for the number of rows and of bytes
        data = block[2:]
        packed = pa.compress(data, "snappy", asbytes=True) + zlib.crc32(data).to_bytes(4, "big")
        told.append(block[:1] + bytes([2 * len(packed)]) + packed + sync)
    file.write_bytes(b"".join(told))
    return file


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "snappy", "zstandard"])
def test_a_block_that_cannot_be_inflated_keeps_its_file_from_the_others(tmp_path: Path, codec: str) -> None:
    """A reader passes over a damaged file, and finds the rows of the others."""
    if codec == "snappy":
        files = [snappy(tmp_path / f"part-{number}", clicks(number)) for number in range(2)]
    elif codec == "zstandard":
        with zipfile.ZipFile(FIXTURES / "spark_keyed.zip") as archive:
            archive.extractall(tmp_path)
        files = sorted(one for one in (tmp_path / "manifest").glob("manifest-*") if "list" not in one.name)
    else:
        files = [written(tmp_path / f"part-{number}", clicks(*range(99)), codec=codec) for number in range(2)]
    assert joined_blocks(files, tmp_path / "whole", target_size=2**30)
    content = bytearray(files[1].read_bytes())
    if codec in ("snappy", "zstandard"):
        content[-20] ^= 0xFF
    else:
        content[content.index(content[-16:]) + 20] = 0x07  # behind two numbers of two bytes: no block begins so
    files[1].write_bytes(content)
    with pytest.raises(NotRewrittenError, match="cannot be inflated"):
        joined_blocks(files, tmp_path / "out", target_size=2**30)


def test_a_file_that_is_cut_or_changed_anywhere_is_refused_or_joined_as_readers_read_it(tmp_path: Path) -> None:
    """No row is made up, and none is left out in silence."""
    good, whole = written(tmp_path / "a", clicks(1, 2)), written(tmp_path / "b", clicks(3, 4), sync_interval=1)
    content = whole.read_bytes()
    damaged = [content[:end] for end in range(len(content))]
    damaged += [content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :] for at in range(len(content))]
    joined = 0
    for number, one in enumerate(damaged):
        file = tmp_path / f"damaged-{number}"
        file.write_bytes(one)
        try:
            made = joined_blocks([good, file], tmp_path / f"out-{number}", target_size=2**30)
        except NotRewrittenError:
            continue
        joined += 1
        try:
            expected: Any = read(good, file)
        except Exception as error:  # noqa: BLE001 - a damaged block can make fastavro raise any error
            expected = type(error)
        try:
            found: Any = read(*made)
        except Exception as error:  # noqa: BLE001 - as above
            found = type(error)
        assert found == expected
    assert joined < len(damaged) / 2


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz"])
def test_a_small_file_that_would_grow_without_a_bound_stays_as_it_is(tmp_path: Path, codec: str) -> None:
    """Some kilobytes of zeros would take the memory of a session worker, and of its other runs."""
    zeros = [{"id": 1, "what": "0" * 24 * 2**20}]
    files = [written(tmp_path / f"part-{number}", zeros, codec=codec) for number in range(2)]
    assert files[0].stat().st_size < 2**16
    with pytest.raises(NotRewrittenError, match="a block cannot be inflated: its compressed content grows beyond"):
        joined_blocks(files, tmp_path / "out", target_size=2**30)


def test_a_codec_that_no_specification_names_keeps_its_files_apart(tmp_path: Path) -> None:
    """Whether a block of it is whole is not known."""
    files = [written(tmp_path / f"part-{number}", clicks(number)) for number in range(2)]
    for file in files:
        file.write_bytes(file.read_bytes().replace(b"\x14avro.codec\x08null", b"\x14avro.codec\x08mine"))
    with pytest.raises(NotRewrittenError, match="codec 'mine' is unknown"):
        joined_blocks(files, tmp_path / "out", target_size=2**30)
