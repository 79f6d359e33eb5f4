"""A Paimon table in an object store is the same table: the one that lies on a local disk, seen through S3."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from lakewarden.planners.formats.paimon import PaimonFormat
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.storage import LocalStorage, Storages
from tests.support.object_stores.s3_server import S3Server

FIXTURES = Path(__file__).parents[2] / "fixtures" / "paimon"
NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("name", ["spark_keyed", "spark_expired"])
def test_a_table_in_a_store_is_seen_as_on_a_disk(s3_server: S3Server, tmp_path: Path, name: str) -> None:
    """Snapshots, backlogs, references and readers are equal. What differs is that nothing commits there: a rename may
    replace a commit. A place without a table is refused there, too.
    """
    with zipfile.ZipFile(FIXTURES / f"{name}.zip") as archive:
        archive.extractall(tmp_path)
    s3_server.start()
    location = s3_server.upload(tmp_path, f"{name}-{uuid4().hex}")
    storage = Storages([s3_server.store()]).of(location)
    table = Table(id=TableId("t"), format="paimon", location=str(tmp_path))
    there = replace(table, location=location)
    by = PaimonFormat()
    on_disk = PaimonFormat().observe(table, LocalStorage(), None, now=NOW).view
    in_store = by.observe(there, storage, None, now=NOW)

    seen = replace(in_store.view, identity=on_disk.identity, name=on_disk.name, blockers=on_disk.blockers)
    assert seen == on_disk
    assert ["renaming a file" in one.reason for one in set(in_store.view.blockers) - set(on_disk.blockers)] == [True]
    assert in_store.vouched_for(token=by.token(there, storage), now=NOW)
    with pytest.raises(PermanentError, match="no Paimon table"):
        by.token(replace(there, location=f"{location}/none"), storage)
