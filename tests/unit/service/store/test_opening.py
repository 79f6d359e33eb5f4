"""The configuration says which store it is."""

from __future__ import annotations

import os
import socket
import stat
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.service.store import file_systems
from lakewarden.service.store.file_systems import file_system_of, network_file_system
from lakewarden.service.store.opening import open_patiently, open_store
from lakewarden.service.store.settings import DatabaseSettings

POSTGRES = DatabaseSettings(url="postgresql://lakewarden@db.example.com/lakewarden")


def test_without_a_url_it_is_a_file_in_the_data_folder(tmp_path: Path) -> None:
    """A daemon that nobody gave a database needs none."""
    open_store(DatabaseSettings(), data_dir=tmp_path).close()

    assert (tmp_path / "lakewarden.db").exists()
    assert not DatabaseSettings().shared


def test_the_file_and_its_log_are_for_their_owner_alone(tmp_path: Path) -> None:
    """It has the hashes of keys and the audit log. That holds whatever the mask of the user, and for an older file."""
    file, before = tmp_path / "lakewarden.db", os.umask(0o022)
    try:
        for _ in range(2):
            store = open_store(DatabaseSettings(), data_dir=tmp_path)
            modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}
            store.close()
            assert modes == dict.fromkeys(modes, 0o600)
            assert {"lakewarden.db", "lakewarden.db-wal"} <= set(modes)
            file.chmod(0o644)
    finally:
        os.umask(before)


def test_a_driver_that_is_missing_is_named_with_what_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra: most daemons need none. No file is made in its stead."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for module in ("lakewarden.service.store.sql.postgres", "lakewarden.planners.postgres_connection"):
        monkeypatch.delitem(sys.modules, module, raising=False)

    with pytest.raises(PermanentError, match=r"database.url needs PostgreSQL's driver: pip install '\.\[post"):
        open_store(POSTGRES, data_dir=tmp_path)

    assert list(tmp_path.iterdir()) == []
    assert POSTGRES.shared


def test_a_database_that_is_away_at_the_start_is_waited_for_and_not_for_ever(tmp_path: Path) -> None:
    """A pod often starts before its database. After `database.wait` the daemon ends, and says that it waited."""
    with socket.socket() as reserved:  # nothing listens at its port
        reserved.bind(("127.0.0.1", 0))
        url = f"postgresql://lakewarden@127.0.0.1:{reserved.getsockname()[1]}/lakewarden"
        settings = DatabaseSettings.model_validate({"url": url, "wait": "10s"})
        clock = ManualClock()
        slept: list[float] = []

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            clock.advance(timedelta(seconds=seconds))

        with pytest.raises(TemporaryError, match=r"waited for 10s \(database.wait\)"):
            open_patiently(settings, data_dir=tmp_path, clock=clock, sleep=sleep)

    assert slept == [2, 2, 2, 2, 2]


def test_what_only_an_operator_can_mend_is_not_waited_for(tmp_path: Path) -> None:
    """A file that is no database stays one."""
    (tmp_path / "lakewarden.db").write_bytes(b"no database, " * 100)

    with pytest.raises(PermanentError, match=r"lakewarden\.db"):
        open_patiently(DatabaseSettings(), data_dir=tmp_path, sleep=lambda _: pytest.fail("it waited"))


# The kind of file system on which the store would lie.


MOUNTS = """\
22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:40 / /var/lib/lakewarden rw,relatime shared:9 - nfs4 store:/exports/lake rw,vers=4.2
31 30 0:41 / /var/lib/lakewarden/local\\040disk rw - xfs /dev/vdb rw
32 22 0:42 / /lake rw master:1 propagate_from:2 - fuse.gcsfuse lake rw
33 22 0:43 / /twice rw - nfs a:/b rw
34 22 0:44 / /twice rw - ext4 /dev/vdc rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/lake", "ext4"),
        ("/var/lib/lakewarden", "nfs4"),
        ("/var/lib/lakewarden/below", "nfs4"),
        ("/var/lib/lakewarden-beside", "ext4"),
        ("/var/lib/lakewarden/local disk", "xfs"),
        ("/lake/store", "fuse.gcsfuse"),
        ("/twice", "ext4"),
    ],
)
def test_a_path_is_on_the_innermost_mount(path: str, kind: str) -> None:
    """A name that only begins like a mount point is beside it. Of two mounts at one place, the later one counts."""
    assert file_system_of(Path(path), MOUNTS) == kind


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "ceph", "fuse.sshfs"])
def test_a_sqlite_store_on_a_network_is_refused(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pods could write one file, each with a log of its own. Nothing is made there, and the remedy is named."""
    mounts = tmp_path / "mounts"
    mounts.write_text(f"1 0 0:1 / / rw - ext4 a rw\n2 1 0:2 / {tmp_path}/data rw - {kind} b rw\n")
    monkeypatch.setattr(file_systems, "_MOUNTS", mounts)
    (tmp_path / "data").mkdir()

    with pytest.raises(PermanentError, match=rf"network file system \({kind}\).* set database.url"):
        open_store(DatabaseSettings(), data_dir=tmp_path / "data")

    assert [*(tmp_path / "data").iterdir()] == []
    assert network_file_system(tmp_path) is None
