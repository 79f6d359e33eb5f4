"""Damaged, hostile and newer tables: each is refused by the name of its file, and none is counted wrongly."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.ports import Observation
from tests.support.hostile.hostile_avro import of_doubled_names, of_itself, of_nulls, of_zeros
from tests.support.paimon.paimon_look import observe
from tests.support.paimon.paimon_table import DELETE, PaimonTable


def lived(folder: Path) -> PaimonTable:
    """Return a table with all kinds of files."""
    clock = ManualClock()
    table = PaimonTable(folder, clock=clock, codec="deflate")
    table.append(table.file(0), table.file(1), user="job", identifier=1)
    table.append(table.file(0), user="job", identifier=2)
    clock.advance(timedelta(minutes=1))
    table.compact(p=0)
    table.delete_vectors({table.live()[0].name: 2})
    table.append(table.file(0), table.file(2), user="job", identifier=3)
    table.tag("daily")
    table.branch("try")
    table.consume("reader", 2)
    return table


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    return lived(tmp_path / "trips")


def files_of(table: PaimonTable) -> list[Path]:
    """Return the files that a look reads, hints apart."""
    found = (path for path in sorted(table.folder.rglob("*")) if path.is_file())
    return [path for path in found if path.name not in ("LATEST", "EARLIEST")]


def needed(table: PaimonTable) -> Iterator[Path]:
    """Yield the files without which the newest snapshot cannot be told."""
    newest = table.snapshots[table.newest]
    yield from (table.folder / "schema" / "schema-0", table.snapshot_file())
    for key in ("baseManifestList", "deltaManifestList", "indexManifest"):
        yield table.folder / "manifest" / newest[key]
    yield from map(table.manifest_file, table.manifests[table.newest])


def counted(observation: Observation) -> list[tuple[str, ...]]:
    """Return the counts that must not be wrong: the files, and those with deletion vectors."""
    said = " ".join(observation.view.notes[Service.COMPACTION])
    found = (re.search(form, said) for form in (r"(\d+) files?, ", r"(\d+) deletion vector"))
    return [() if one is None else one.groups() for one in found]


@pytest.mark.parametrize(("sign", "name"), [(b"ORC", "orc"), (b"PAR1", "parquet")])
def test_manifests_in_another_format_are_refused_by_their_option(table: PaimonTable, sign: bytes, name: str) -> None:
    """The table is sound: it is not to be restored."""
    file = table.folder / "manifest" / table.snapshots[table.newest]["baseManifestList"]
    file.write_bytes(sign.ljust(len(file.read_bytes()), b"x"))
    with pytest.raises(PermanentError, match=f"manifest.format={name}") as refused:
        observe(table)
    assert "restore" not in str(refused.value)


def test_a_needed_file_that_is_damaged_is_named(table: PaimonTable) -> None:
    """Half of it is not enough, and nothing of it is made up."""
    for path in needed(table):
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(PermanentError, match=rf"{path.name} is not a valid .* of a Paimon table .*restore it"):
            observe(table)
        path.write_bytes(whole)


def test_a_needed_file_that_is_gone_is_named(table: PaimonTable) -> None:
    """An expiry may be at work: it is asked for again later."""
    for path in needed(table):
        if path.name in ("schema-0", table.snapshot_file().name):
            continue
        whole = path.read_bytes()
        path.unlink()
        with pytest.raises(TemporaryError, match=f"{path.name}, which the table names, is not there"):
            observe(table)
        path.write_bytes(whole)
    (table.folder / "schema" / "schema-0").unlink()
    with pytest.raises(PermanentError, match="schema holds no schema, and the table has snapshots"):
        observe(table)


@pytest.mark.parametrize("folder", ["tag", "consumer"])
def test_a_damaged_file_that_holds_snapshots_is_a_fault(table: PaimonTable, folder: str) -> None:
    """The table is shown, and the view is not kept. The folder of `tag.create-success-file` is none."""
    (path,) = (table.folder / folder).iterdir()
    (table.folder / "tag" / "tag-success-file").mkdir()
    assert observe(table).view.faults == ()
    path.write_text("{}")
    seen = observe(table)
    assert path.name in seen.view.faults[0]
    assert seen.keep_until == table.clock.now()


@pytest.mark.parametrize(("what", "version"), [("snapshot", 4), ("schema", 4)])
def test_a_newer_version_is_refused_by_name(table: PaimonTable, what: str, version: int) -> None:
    """With the newest that is known, and what to do."""
    path = table.snapshot_file() if what == "snapshot" else table.folder / "schema" / "schema-0"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": version}))
    with pytest.raises(PermanentError, match=rf"{path.name} is a {what} of version 4, .* up to 3: upgrade Lakewarden"):
        observe(table)


def test_a_newer_manifest_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tests.support.paimon.paimon_table as support  # noqa: PLC0415

    for function, name in (("_record", r"manifest-\w+-0 is a manifest"), ("_listed", "is a manifest list")):
        made = getattr(support, function)
        with monkeypatch.context() as patched:
            patched.setattr(support, function, lambda *a, made=made: {**made(*a), "_VERSION": 3})
            table = PaimonTable(tmp_path / function)
            table.append()
        with pytest.raises(PermanentError, match=rf"{name} of version 3, .* up to 2"):
            observe(table)


def test_files_that_are_deleted_and_were_never_added_are_a_contradiction(tmp_path: Path) -> None:
    table = PaimonTable(tmp_path / "t")
    table.append()
    monster = table.file(3)
    table.manifests[1] = (*table.manifests[1],)
    entries = [(DELETE, monster)]
    with pytest.raises(KeyError):
        table.commit(entries)
    table.manifests.pop(2)
    table.live = lambda snapshot=None: []  # type: ignore[method-assign]
    table.commit(entries)
    with pytest.raises(PermanentError, match=r"snapshot-2 contradict each other .* that none of them adds"):
        observe(table)


@pytest.mark.parametrize("name", ["../../../secret", "a/b", "", "..", "x" * 600, 7])
def test_no_file_outside_of_the_table_is_read(table: PaimonTable, name: object) -> None:
    """A snapshot names files of the table's own folder."""
    path = table.snapshot_file()
    path.write_text(json.dumps({**json.loads(path.read_text()), "deltaManifestList": name}))
    with pytest.raises(PermanentError, match="snapshot-4 is not a valid snapshot"):
        observe(table)


@pytest.mark.parametrize("crafted", [of_itself(20), of_nulls(), of_doubled_names(5), of_zeros(2**20)])
def test_a_crafted_manifest_is_refused(table: PaimonTable, crafted: bytes) -> None:
    """It is neither followed nor inflated without bound."""
    path = table.manifest_file(table.manifests[table.newest][0])
    path.write_bytes(crafted)
    with pytest.raises(PermanentError, match=f"{path.name} is not a valid manifest"):
        observe(table)


def test_a_field_of_an_index_manifest_that_is_not_known_is_said(tmp_path: Path) -> None:
    """Where its name was changed, by damage or by a newer release, nothing is counted without a word."""
    known = b"_DELETIONS_VECTORS_RANGES"
    table = lived(tmp_path / "t")
    [path] = (table.folder / "manifest").glob("index-manifest-*")
    path.write_bytes(path.read_bytes().replace(known, known[:-1] + b"X"))
    with pytest.raises(PermanentError, match="_DELETIONS_VECTORS_RANGEX"):
        observe(table)


@pytest.mark.long
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_is_cut_or_flipped_is_said_or_changes_no_count(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Any byte of any file: an error, a fault or a warning says so, or every count is as before. Blocks of Avro have no
    checksum, so a value that was changed in place within a sound block cannot be told. Sums of files are held against
    the list, and sums of rows against the snapshot.
    """
    table = lived(tmp_path_factory.mktemp("bad") / "t")
    before = counted(observe(table))
    path = data.draw(st.sampled_from(files_of(table)))
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        path.write_bytes(whole[:place])
    else:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << data.draw(st.integers(0, 7))]) + whole[place + 1 :])
    after, said = observed_or_said(table)
    if after is None:
        assert str(table.folder) in said
    elif not after.view.faults and not after.view.warnings:
        sums = 1 if path.name.startswith("index-manifest") else None  # nothing else counts the deletion vectors
        assert counted(after)[:sums] == before[:sums]


def observed_or_said(table: PaimonTable) -> tuple[Observation | None, str]:
    """Return what is seen of a table, or what is said of it."""
    try:
        return observe(table), ""
    except LakewardenError as error:
        return None, str(error)
