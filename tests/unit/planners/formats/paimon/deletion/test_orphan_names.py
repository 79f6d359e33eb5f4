"""Which names may be those of orphans: the ones that Paimon gives, in the folders in which it gives them."""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.formats.paimon.deletion.names import FOLDERS, Naming, naming_of
from lakewarden.planners.formats.paimon.deletion.orphans_beside import (
    LastRun,
    content_of,
    file_of,
    last_run,
    seen_file_of,
    stamp_of,
)
from lakewarden.planners.formats.paimon.metadata.schemas import Schema
from lakewarden.planners.formats.paimon.options.core_options import core_options
from lakewarden.planners.storage import LocalStorage
from tests.support.values import NOW

ONE = str(uuid.UUID(int=7))


def naming(*keys: str, **options: str) -> Naming:
    raw = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    core = core_options(raw, version=3, has_key=True, key_has_partition=True)
    types = ("STRING",) * len(keys)
    schema = Schema(
        id=0, version=3, primary_keys=("id",), partition_keys=keys, partition_types=types, options=core, at=None
    )
    return naming_of(schema)


@pytest.mark.parametrize(
    "name",
    [
        f"data-{ONE}-0.parquet",
        f"data-{ONE}-12.orc",
        f"data-{ONE}-0.zstd.parquet",
        f"changelog-{ONE}-1.avro",
        f"data-{ONE}-0.parquet.index",
        f"data-{ONE}-0.parquet-1.index",
        f"data-{ONE}-3.index",
    ],
)
def test_a_data_file_of_every_release_is_known_by_its_name(name: str) -> None:
    """As the core of 0.9.0 and 1.3.1 and pypaimon write them."""
    assert naming().is_data(name)


@pytest.mark.parametrize(
    "name",
    [
        "part-0.parquet",
        "_SUCCESS",
        f"data-{ONE}.parquet",
        f"data-{ONE}-0.parquet.bak",
        f"data-{ONE}-0.parquet.crc",
        f".data-{ONE}-0.parquet",
        f"index-{ONE}-0",
        f"my-{ONE}-0.parquet",
        f"data-{ONE}-0",
        f"data-{ONE}-0.parquet\n",
        f"data-u-job-s-0-w-{ONE}-0.parquet",
    ],
)
def test_a_name_that_paimon_does_not_give_is_never_an_orphan(name: str) -> None:
    """It is the file of another program, or of a release that is not known."""
    assert not naming().is_data(name)


def test_the_prefixes_of_the_table_count_too() -> None:
    """Letter by letter. The usual ones go on to count."""
    own = naming(data_file__prefix="d.", changelog_file__prefix="log-")
    assert all(own.is_data(f"{prefix}{ONE}-0.orc") for prefix in ("d.", "log-", "data-", "changelog-"))
    assert not own.is_data(f"dx{ONE}-0.orc")


def test_a_bucket_lies_below_all_partition_keys_in_their_order() -> None:
    """Any other folder is that of another program."""
    own = naming("dt", "a b")
    assert own.is_partition("dt=2026-01-01", 0)
    assert own.is_partition("a%20b=x", 1)
    assert not own.is_partition("hr=07", 0)
    assert not own.is_partition("dt=1", 2)
    assert own.is_bucket("bucket-0", 2)
    assert not own.is_bucket("bucket-0", 1)
    assert not own.is_bucket("bucket-postpone", 2)


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("manifest", f"manifest-{ONE}-0"),
        ("manifest", f"manifest-list-{ONE}-1"),
        ("manifest", f"index-manifest-{ONE}-0"),
        ("index", f"index-{ONE}-0"),
        ("statistics", f"stat-{ONE}-0"),
        ("snapshot", f".snapshot-7.{ONE}.tmp"),
        ("snapshot", f".LATEST.{ONE}.tmp"),
        ("snapshot", f".snapshot-7.{uuid.UUID(int=7).hex}.tmp"),
        ("snapshot", ".EARLIEST.0123456789abcdef.tmp"),
        ("schema", f".schema-0.{ONE}.tmp"),
        ("tag", f".tag-may.{ONE}.tmp"),
    ],
)
def test_what_a_killed_commit_leaves_may_be_an_orphan(folder: str, name: str) -> None:
    assert FOLDERS[folder].fullmatch(name)
    assert not naming().is_data(name)


@pytest.mark.parametrize(
    "name",
    ["snapshot-1", "LATEST", "EARLIEST", "schema-0", "tag-may", "consumer-a", "changelog-3", "service-a-lookup"],
)
def test_what_names_files_is_never_an_orphan(name: str) -> None:
    """Neither are schemas, consumers, hints and the files of services."""
    assert not any(pattern.fullmatch(name) for pattern in FOLDERS.values())
    assert not {"branch", "service", "_lakewarden"} & FOLDERS.keys()


# What a run of orphans remembers beside the table.


STORAGE = LocalStorage()
LAST = LastRun(created="5", at=NOW, waiting=3, waits_until=NOW + timedelta(days=1))


def write(folder: Path, content: bytes) -> None:
    file = Path(file_of(str(folder)))
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)


@pytest.mark.parametrize("last", [LAST, LastRun(created="5", at=NOW)])
def test_what_is_written_down_is_read_again(tmp_path: Path, last: LastRun) -> None:
    """Unless the table was made again in the same folder."""
    write(tmp_path, content_of(last))
    assert last_run(str(tmp_path), STORAGE, created="5") == last
    assert last_run(str(tmp_path), STORAGE, created="6") is None


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", content_of(LAST)[:-3], content_of(LAST).replace(b'"waiting": 3', b'"waiting": -3')],
)
def test_a_damaged_file_tells_of_no_run(tmp_path: Path, content: bytes) -> None:
    """Then the service is due, as if it never ran."""
    write(tmp_path, content)
    assert last_run(str(tmp_path), STORAGE, created="5") is None


def test_each_run_changes_the_stamp(tmp_path: Path) -> None:
    """So the table is looked at again although nobody has committed."""
    stamps = [stamp_of(str(tmp_path), STORAGE)]
    for waiting in (1, 22):
        write(tmp_path, content_of(LastRun(created="5", at=NOW, waiting=waiting)))
        stamps.append(stamp_of(str(tmp_path), STORAGE))
    assert len(set(stamps)) == 3
    assert Path(seen_file_of(str(tmp_path))).parent == Path(file_of(str(tmp_path))).parent
