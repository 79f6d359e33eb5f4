"""Which indexes a table says it has, and which of them our commits could not keep up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.indexes.indexes import (
    COLUMNS,
    Definition,
    Indexes,
    at_once,
    index_blocker,
    switches,
    to_build,
)
from lakewarden.planners.formats.hudi.metadata.names import Layout
from lakewarden.planners.formats.hudi.metadata.properties import TableProperties, read_table_properties
from lakewarden.planners.formats.hudi.options.service_options import IndexingOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import TableView
from lakewarden.planners.storage import storage_for
from tests.support.hudi.hudi_look import look, made
from tests.support.hudi.hudi_table import HudiTable

ENABLED = {
    "column_stats": "hoodie.metadata.index.column.stats.enable",
    "partition_stats": "hoodie.metadata.index.partition.stats.enable",
    "bloom_filters": "hoodie.metadata.index.bloom.filter.enable",
    "record_index": "hoodie.metadata.global.record.level.index.enable",
}
STATS = {"column_stats": {"sourceFields": ["_hoodie_commit_time", "_hoodie_record_key", "note", "city.name"]}}


def with_indexes(
    folder: Path,
    *complete: str,
    building: str = "",
    definitions: Mapping[str, Any] | bytes | None = None,
    version: int = 9,
    **properties: str,
) -> HudiTable:
    """Return a table with one completed write, and a metadata table with these partitions."""
    said = {
        "hoodie.table.metadata.partitions": ",".join(("files", *complete)),
        "hoodie.table.metadata.partitions.inflight": building,
        **properties,
    }
    table = made(folder, version=version, properties=said)
    written = table.begin_write()
    timeline = table.home / ("metadata/.hoodie/timeline" if version >= 8 else "metadata/.hoodie")
    timeline.mkdir(parents=True)
    (timeline / (f"{written}_{written}.deltacommit" if version >= 8 else f"{written}.deltacommit")).touch()
    table.commit_write(written)
    if definitions is not None:
        file = table.home / ".index_defs" / "index.json"
        file.parent.mkdir()
        if not isinstance(definitions, bytes):
            definitions = json.dumps({"indexDefinitions": definitions}).encode()
        file.write_bytes(definitions)
    return table


def reasons(view: TableView) -> list[str]:
    """Return why every committing service of the table is held back."""
    services = set(HUDI.services) - {Service.INDEXING, Service.METADATA_VALIDATION}
    return [one.reason for one in view.blockers if all(one.concerns(service) for service in services)]


@given(st.sets(st.sampled_from(["files", *ENABLED])), st.sets(st.sampled_from([*ENABLED])))
def test_the_indexes_are_those_the_table_has(complete: set[str], building: set[str]) -> None:
    """An index is kept up if and only if it is complete. Our client builds none that is missing or being built."""
    found = switches(Indexes(complete=frozenset(complete), building=frozenset(building)))

    assert found["hoodie.metadata.enable"] == str(bool(complete)).lower()
    assert found["hoodie.metadata.index.async"] == "true"
    for index, key in ENABLED.items():
        assert found[key] == str(index in complete).lower()


@pytest.mark.parametrize("partitioned", [True, False])
def test_a_record_index_is_kept_up_in_the_layout_that_it_has(partitioned: bool) -> None:
    """An index of each partition has its own file groups, and Hudi chooses them by the switch alone (run)."""
    definitions = {"record_index": Definition(partitioned=partitioned)}
    found = switches(Indexes(complete=frozenset({"files", "record_index"}), definitions=definitions))

    assert found["hoodie.metadata.record.level.index.enable"] == str(partitioned).lower()
    assert found["hoodie.metadata.global.record.level.index.enable"] == str(not partitioned).lower()


def test_column_stats_are_of_the_columns_that_the_table_names() -> None:
    """The first 32 columns do not count, nor do those that Hudi adds itself."""
    definitions = {"column_stats": Definition(columns=("note", "city.name"))}
    found = switches(Indexes(complete=frozenset({"files", "column_stats"}), definitions=definitions))

    assert found[COLUMNS] == "note,city.name"


def test_a_table_with_indexes_that_are_known_is_served(tmp_path: Path) -> None:
    """This is the reference for all that follows."""
    table = with_indexes(tmp_path, "column_stats", "partition_stats", "record_index", definitions=STATS)
    assert reasons(look(table).view) == []


@pytest.mark.parametrize(
    ("indexes", "definitions", "reason"),
    [
        (["vector_index_v1"], STATS, "cannot keep up, 'vector_index_v1'"),
        (["secondary_index_note"], STATS, "cannot keep up, 'secondary_index_note'"),
        (["expr_index_note"], STATS, "cannot keep up, 'expr_index_note'"),
        (["column_stats", "partition_stats"], None, "column stats, and does not name their columns"),
        (["column_stats", "partition_stats"], {"column_stats": {"sourceFields": 5}}, "is not known"),
        (["column_stats", "partition_stats"], b'{"indexDefinitions": ', "is not known"),
        (["column_stats"], STATS, "column stats without partition stats"),
        (["partition_stats"], STATS, "partition stats without column stats"),
    ],
)
def test_what_no_commit_of_ours_could_keep_up_holds_back_every_service(
    tmp_path: Path, indexes: list[str], definitions: Any, reason: str
) -> None:
    """The reason is named. Every service that commits is held back, because it writes the metadata table."""
    found = reasons(look(with_indexes(tmp_path, *indexes, definitions=definitions)).view)
    assert len(found) == 1
    assert reason in found[0]


def test_definitions_outside_the_table_are_not_read(tmp_path: Path) -> None:
    """Every writer of a table can also write its `hoodie.properties`."""
    elsewhere: dict[str, Any] = {"hoodie.table.index.defs.path": "../other/index.json"}
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "index.json").write_text(json.dumps({"indexDefinitions": STATS}))
    found = reasons(look(with_indexes(tmp_path, "column_stats", "partition_stats", **elsewhere)).view)
    assert any("does not lie inside the table" in reason for reason in found)


def test_below_table_version_8_the_owner_names_the_columns() -> None:
    """Such a table has no definitions, and its column stats come without partition stats."""
    layout: dict[str, Any] = {"version": "6", "layout": Layout.V1, "timeline_folder": "", "partitioned": True}
    properties = TableProperties(name="trips", kind="COPY_ON_WRITE", zone=None, **layout)
    indexes = Indexes(complete=frozenset({"files", "column_stats"}))

    found = index_blocker(indexes, properties, conf={})
    assert found is not None
    assert COLUMNS in found.remedy
    assert index_blocker(indexes, properties, conf={COLUMNS: "note"}) is None
    assert COLUMNS not in switches(indexes)  # so that the owner's word stands


def test_while_an_index_is_being_built_nothing_runs_beside_it(tmp_path: Path) -> None:
    """A commit of ours could be missing from the index, from its request until its completion."""
    table = with_indexes(tmp_path, building="record_index")
    assert reasons(look(table).view) == []  # left by a writer that died while it built one within its commit
    time = table.next_time()
    for state in (".indexing.requested", ".indexing.inflight"):
        table.put(f"{time}{state}")
        found = reasons(look(table).view)
        assert len(found) == 1
        assert f"an index is being built (indexing {time})" in found[0]
    table.put(f"{time}_{table.next_time()}.indexing")
    assert reasons(look(table).view) == []


def test_a_metadata_table_that_is_being_made_is_waited_for(tmp_path: Path) -> None:
    """A commit of ours would be missing from it."""
    table = made(tmp_path, properties={"hoodie.table.metadata.partitions.inflight": "files"})
    table.commit_write(table.begin_write())
    assert any("is being made" in reason for reason in reasons(look(table).view))


def test_indexes_that_are_missing_or_not_wanted_are_the_backlog_of_indexing(tmp_path: Path) -> None:
    """They leave the backlog when the table has the indexes that it should have."""
    wanted = IndexingOptions.model_validate({"build": ["record_index"], "drop": ["bloom_filters"]})

    def backlog(name: str, *complete: str) -> int:
        table = with_indexes(tmp_path / name, *complete)
        return look(table, Service.INDEXING, options=wanted).view.backlogs[Service.INDEXING].commits

    assert backlog("neither") == 1
    assert backlog("both", "record_index", "bloom_filters") == 1
    assert backlog("the other", "bloom_filters") == 2
    assert backlog("as wanted", "record_index") == 0


def test_column_stats_bring_partition_stats_where_there_are_partitions(tmp_path: Path) -> None:
    """Hudi 1.2 keeps up neither alone. Below table version 8 there are no partition stats."""
    options = IndexingOptions.model_validate({"build": ["column_stats", "bloom_filters"], "columns": ["note"]})

    def planned(name: str, *complete: str, version: int = 9, **properties: Any) -> tuple[str, ...]:
        table = with_indexes(tmp_path / name, *complete, version=version, **properties)
        return to_build(options, read_table_properties(str(table.home.parent), storage_for(str(table.home.parent))))

    by_region: Any = {"hoodie.table.partition.fields": "region"}
    assert planned("with partitions", **by_region) == ("column_stats", "partition_stats", "bloom_filters")
    assert planned("half there", "column_stats", "bloom_filters", **by_region) == ("partition_stats",)
    nothing: Any = {"hoodie.table.partition.fields": ""}
    assert planned("without", **nothing) == ("column_stats", "bloom_filters")
    assert planned("old", version=6, **by_region) == ("column_stats", "bloom_filters")
    assert at_once(("column_stats", "partition_stats", "bloom_filters")) == ("column_stats", "partition_stats")
    assert at_once(("column_stats", "bloom_filters")) == ("column_stats",)
    assert at_once(()) == ()


def test_an_index_that_is_being_built_does_not_hold_back_indexing(tmp_path: Path) -> None:
    """It is a plan of the indexing service, as any other service has one."""
    table = with_indexes(tmp_path)
    time = table.next_time()
    table.put(f"{time}.indexing.requested")
    view = look(table).view
    assert [plan.time for plan in view.timeline.pending(Service.INDEXING)] == [time]
    assert not any(one.concerns(Service.INDEXING) for one in view.blockers)


@pytest.mark.parametrize(
    "options",
    [
        {"build": ["partition_stats"]},
        {"build": ["column_stats"]},
        {"columns": ["note"]},
        {"build": ["column_stats"], "columns": ["note"], "drop": ["partition_stats"]},
        {"build": ["record_index"], "drop": ["record_index"]},
        {"drop": ["files"]},
    ],
)
def test_what_makes_no_sense_to_build_or_drop_is_refused(options: dict[str, Any]) -> None:
    """The configuration is refused when it is read."""
    with pytest.raises(ValidationError):
        IndexingOptions.model_validate(options)
