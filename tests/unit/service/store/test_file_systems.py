"""The kind of file system on which the store would lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.store import file_systems
from lakewarden.service.store.file_systems import file_system_of, network_file_system
from lakewarden.service.store.opening import open_store
from lakewarden.service.store.settings import DatabaseSettings

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
