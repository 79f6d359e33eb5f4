"""Names that an expiry has taken with it are found in the log of earlier versions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.deletion.refs import LostRefs, lost_refs
from lakewarden.planners.formats.iceberg.metadata.files import read_table
from lakewarden.planners.formats.iceberg.metadata.metadata import Ref
from lakewarden.planners.storage import LocalStorage
from tests.support.iceberg.iceberg_table import IcebergTable

STORAGE = LocalStorage()


def logged(table: IcebergTable, *, most: int = 100) -> None:
    """Let the newest version name the versions before it, as writers do."""
    versions = [table.metadata / f"v{one}.metadata.json" for one in range(1, table.metadata_version)]
    log = [{"timestamp-ms": 0, "metadata-file": str(one)} for one in versions[-most:]]
    raw = {**json.loads(table.metadata_file.read_bytes()), "metadata-log": log}
    table.metadata_file.write_text(json.dumps(raw))


def tag(table: IcebergTable, name: str, snapshot: int) -> None:
    """Make a tag, or move it."""
    table.refs[name] = {"snapshot-id": snapshot, "type": "tag", "max-ref-age-ms": 7}
    table.save()


def expire(table: IcebergTable, *snapshots: int) -> None:
    """Expire snapshots as a REST server does it: it removes what stands for them."""
    table.refs = {name: ref for name, ref in table.refs.items() if ref["snapshot-id"] not in snapshots}
    for one in snapshots:
        table.snapshots.pop(one)
    table.save()


def lost(table: IcebergTable, *expired: int, chosen: Sequence[tuple[str, int]] = (), most: int = 100) -> LostRefs:
    """Return what was lost with the expired snapshots."""
    logged(table, most=most)
    return lost_refs(expired, chosen, read_table(str(table.metadata_file), STORAGE), STORAGE)


def test_a_name_of_the_version_before_the_expiry_is_lost(tmp_path: Path) -> None:
    """Its retention is known, too. Later commits of writers do not hide it."""
    table = IcebergTable(tmp_path / "trips")
    old, _ = table.append(), table.append()
    tag(table, "audited", old)
    before = str(table.metadata_file)
    expire(table, old)
    for _ in range(3):
        table.append()
    found = lost(table, old)
    assert found.before == before
    assert [(one.name, one.snapshot, one.is_branch) for one in found.refs] == [("audited", old, False)]
    assert found.refs[0].max_ref_age is not None


def test_a_name_that_was_to_go_or_is_there_again_is_not_lost(tmp_path: Path) -> None:
    """A name that was chosen for another snapshot is lost."""
    table = IcebergTable(tmp_path / "trips")
    old, older, head = table.append(), table.append(), table.append()
    for name in ("chosen", "again", "moved"):
        tag(table, name, old)
    expire(table, old, older)
    tag(table, "again", head)
    found = lost(table, old, older, chosen=[("chosen", old), ("moved", older)])
    assert [one.name for one in found.refs] == ["moved"]


def test_a_log_that_does_not_reach_the_expiry_does_not_tell(tmp_path: Path) -> None:
    """The table keeps few earlier versions, or one is deleted."""
    table = IcebergTable(tmp_path / "trips")
    old, _ = table.append(), table.append()
    expire(table, old)
    before = table.metadata / f"v{table.metadata_version - 1}.metadata.json"
    table.append()
    table.append()
    assert lost(table, old, most=2) == LostRefs(before=None)
    assert lost(table, old, most=3) == LostRefs(before=str(before))
    before.unlink()
    assert lost(table, old, most=3) == LostRefs(before=None)


STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "tag", "untag"]), st.integers(0, 2), st.integers(0, 5)), max_size=8
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(before=STEPS, after=STEPS, expired=st.integers(1, 3))
def test_exactly_the_names_that_the_expiry_took_are_lost(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[tuple[str, int, int]],
    after: list[tuple[str, int, int]],
    expired: int,
) -> None:
    """This holds for whatever was committed before and after it."""
    table = IcebergTable(tmp_path_factory.mktemp("t") / "trips")
    ids = [table.append() for _ in range(4)]

    def take(step: str, name: int, of: int) -> None:
        there = sorted(table.snapshots)
        if step == "append":
            table.append()
        elif step == "tag":
            tag(table, f"tag-{name}", there[of % len(there)])
        elif table.refs.pop(f"tag-{name}", None):
            table.save()

    for one in before:
        take(*one)
    gone = ids[:expired]
    taken = {name for name, ref in table.refs.items() if ref["snapshot-id"] in gone}
    expire(table, *gone)
    for one in after:
        take(*one)
    names = {ref.name for ref in _refs(lost(table, *gone))}
    assert names == taken - table.refs.keys()


def _refs(found: LostRefs) -> tuple[Ref, ...]:
    assert found.before is not None
    return found.refs
