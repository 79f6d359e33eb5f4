"""What holds services back on an Iceberg table."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lakewarden.planners.formats.iceberg.backlog.blockers import blockers, warnings
from lakewarden.planners.formats.iceberg.metadata.parsing import parse_metadata
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.model.instant import Service
from tests.support.iceberg.iceberg_values import a_metadata, a_snapshot

SNAPSHOT = a_snapshot(1, ago=timedelta(hours=1))
EVERY = frozenset({Service.COMPACTION, Service.CLUSTERING, Service.CLEAN, Service.ORPHANS, Service.ARCHIVE})
REWRITES = frozenset({Service.COMPACTION, Service.CLUSTERING})
DELETING = frozenset({Service.CLEAN, Service.ORPHANS})


def held_back(**news: Any) -> dict[str, frozenset[Service]]:
    """Return the reasons for which services are held back, with the services. The table is in a catalog."""
    folder = f"{news.get('location', '/lake/trips')}/metadata"
    file = f"{folder}/00001-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json"
    options = IcebergTableOptions(**news.pop("options", {}))
    metadata = a_metadata(**{"snapshots": (SNAPSHOT,), "current": 1, "file": file, **news})
    found = blockers(metadata, options)
    return {one.reason: frozenset(service for service in EVERY if one.concerns(service)) for one in found}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_ordinary_table_is_served(version: int) -> None:
    """This holds in every format version, and with the new types that Spark can read."""
    types = frozenset({"struct", "long", "timestamptz", "decimal", "unknown", "list", "map", "uuid"})
    assert held_back(format_version=version, types=types) == {}


@pytest.mark.parametrize(
    ("news", "services", "said"),
    [
        ({"format_version": 4}, EVERY, "format version 4"),
        ({"properties": {"encryption.key-id": "k"}}, EVERY, "encryption.key-id"),
        ({"types": frozenset({"long", "variant", "geometry"})}, REWRITES, "geometry, variant"),
        ({"types": frozenset({"timestamp_ns"})}, REWRITES, "timestamp_ns"),
        ({"format_version": 3, "properties": {"write.format.default": "ORC"}}, REWRITES, "loses in ORC files"),
        ({"properties": {"gc.enabled": "FALSE"}}, DELETING, "gc.enabled=false"),
        ({"properties": {"nessie.commit.id": "5c1f"}}, DELETING, "nessie.commit.id"),
        ({"properties": {"nessie.catalog.content-id": "x", "gc.enabled": "true"}}, DELETING, "nessie.catalog"),
        ({"snapshots": (SNAPSHOT, replace(SNAPSHOT, id=7, manifest_list=None))}, DELETING, "snapshot 7"),
        ({"location": "s3://bucket"}, frozenset({Service.ORPHANS}), "s3://bucket"),
        ({"location": "file:"}, frozenset({Service.ORPHANS}), "not a folder of its own"),
    ],
)
def test_what_cannot_be_served_is_held_back(news: dict[str, Any], services: frozenset[Service], said: str) -> None:
    """Only the services that it concerns are held back, with a reason that names the cause."""
    found = held_back(**news)
    assert list(found.values()) == [services]
    assert said in next(iter(found))


@pytest.mark.parametrize("location", ["s3://bucket/t", "/t", "file:///t", "hdfs://nn:8020/t", "file:/t"])
def test_a_folder_is_no_root(location: str) -> None:
    """This holds for every location."""
    assert held_back(location=location) == {}


@pytest.mark.parametrize("name", ["v3.metadata.json", "v3.gz.metadata.json", "00003-9c12d441.metadata.json"])
@pytest.mark.parametrize(
    ("folder", "location", "is_it"),
    [
        ("/lake/trips", "file:///lake/trips/", True),
        ("s3://lake/trips", "s3a://lake/trips", True),
        ("/metadata of trips", "/lake/trips", False),
        ("/lake/copy", "/lake/trips", False),
        ("s3://other/trips", "s3://lake/trips", False),
        ("/lake/trips", "", False),
    ],
)
def test_a_table_lies_where_it_says(name: str, folder: str, location: str, *, is_it: bool) -> None:
    """A copied folder names the files of the table that it was copied from. In any catalog, nothing is written or
    deleted there.
    """
    found = held_back(file=f"{folder}/metadata/{name}", location=location)

    if is_it:
        assert found == {}
    else:
        assert next(iter(found.items())) == (next(said for said in found if f"{folder}/metadata/" in said), EVERY)


def test_a_table_may_keep_its_metadata_elsewhere() -> None:
    """Its metadata says where, in the property that Iceberg's writers go by."""
    told = {"properties": {"write.metadata.path": "s3a://meta/trips/"}, "options": {"outside": "leave"}}
    assert held_back(location="s3://lake/trips", file="s3://meta/trips/00003-9c.metadata.json", **told) == {}


@pytest.mark.parametrize("key", ["write.data.path", "write.object-storage.path", "write.metadata.path"])
def test_a_table_that_writes_outside_its_folder_is_cleaned_where_its_owner_has_named_that(key: str) -> None:
    """Other tables may write there too. So no file is deleted or left behind without a message."""
    table: dict[str, Any] = {"location": "s3://lake/trips", "properties": {key: "s3a://rows/trips/"}}
    found = held_back(**table)
    assert list(found.values()) == [frozenset({Service.CLEAN})]
    assert f"{key} is s3a://rows/trips/, outside the table's folder s3://lake/trips" in next(iter(found))
    assert held_back(**table, options={"folders": ["s3://rows/trips"]}) == {}
    assert held_back(**table, options={"outside": "leave"}) == {}
    assert held_back(location="s3://lake/trips", properties={key: "s3a://lake/trips/rows"}) == {}


def test_files_outside_the_tables_folder_are_told() -> None:
    """The orphans service looks for no files there. The owner should know this; nothing is in danger."""
    inside = {"write.data.path": "/lake/trips/rows"}
    assert warnings(a_metadata(properties=inside)) == ()
    (warning,) = warnings(a_metadata(properties={**inside, "write.metadata.path": "/elsewhere/metadata"}))
    assert (
        warning
        == "write.metadata.path is /elsewhere/metadata, outside the table's folder: orphans looks for none there"
    )


def test_a_table_that_was_migrated_where_it_lies_tells_of_its_backup() -> None:
    """Its owner may need the backup, and the files of the backup are deleted one by one."""
    (warning,) = warnings(a_metadata(properties={"migrated": "true"}))
    assert "_BACKUP_" in warning
    assert warnings(a_metadata(properties={"migrated": "false"})) == ()


def test_a_metadata_file_that_needs_a_large_heap_names_the_setting() -> None:
    """The worker would end in the middle of a run, and nothing would tell why."""
    (warning,) = warnings(a_metadata(size=600 * 2**20))
    assert "600MiB" in warning
    assert "spark.<profile>.memory" in warning
    assert warnings(a_metadata(size=2**20)) == ()


def test_types_are_found_however_deep_they_are() -> None:
    """They are found in structs, lists and maps. Only the current schema counts, or in version 1 the only one."""
    deep = (
        b'{"type":"struct","schema-id":1,"fields":[{"id":1,"name":"a","required":false,"type":{"type":"list",'
        b'"element-id":2,"element":{"type":"map","key-id":3,"key":"string","value-id":4,"value":{"type":"struct",'
        b'"fields":[{"id":5,"name":"g","required":false,"type":"geometry(srid:1)"},'
        b'{"id":6,"name":"d","required":false,"type":"decimal(9, 2)"},'
        b'{"id":7,"name":"f","required":false,"type":"fixed[16]"}]}}}}]}'
    )
    old = b'{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"v","required":false,"type":"variant"}]}'
    head = b'{"format-version":3,"location":"/t","last-updated-ms":0,"partition-specs":[],'
    both = parse_metadata(head + b'"current-schema-id":1,"schemas":[' + old + b"," + deep + b"]}", file="m")
    alone = parse_metadata(head.replace(b":3", b":1") + b'"schema":' + old + b"}", file="m")

    assert both.types == {"struct", "list", "map", "string", "geometry", "decimal", "fixed"}
    assert alone.types == {"struct", "variant"}


def test_a_table_bucket_gets_no_plan_beside_the_table() -> None:
    """It takes only files that Iceberg names. The other services are not concerned. Another bucket is none of these."""
    [(reason, services)] = held_back(location="s3://63a8e430--table-s3/tables/orders").items()

    assert services == DELETING
    assert "in a table bucket of S3 Tables" in reason
    assert held_back(location="s3://lake/orders--table-s3/x") == {}
