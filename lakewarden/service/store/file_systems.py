"""The kind of file system below a path. SQLite's log needs memory that is shared, which no network has."""

from __future__ import annotations

import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")
_KERNEL = ("afs", "beegfs", "ceph", "cifs", "gpfs", "lustre", "nfs", "nfs4", "orangefs", "smb2", "smb3", "smbfs")
_FUSE = ("blobfuse", "blobfuse2", "ceph", "gcsfuse", "glusterfs", "goofys", "juicefs", "mount-s3", "rclone", "s3fs")
_OVER_A_NETWORK = frozenset([*_KERNEL, *(f"fuse.{name}" for name in (*_FUSE, "seaweedfs", "sshfs"))])
"""Types of file systems with files on another machine."""


def network_file_system(path: Path) -> str | None:
    """Return the type of the file system of a path if it lies on a network, such as `nfs4`. Otherwise return None."""
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    kind = file_system_of(path.resolve(), mounts)
    return kind if kind in _OVER_A_NETWORK else None


def file_system_of(path: Path, mounts: str) -> str:
    """Return the type of the file system of an absolute path. Source: proc(5), mountinfo: field 5 and the first field
    after the hyphen. Of two mounts at one place, the later one hides the other.
    """
    best, kind = -1, ""
    for line in mounts.splitlines():
        before, hyphen, after = line.partition(" - ")
        fields = before.split()
        if not hyphen or len(fields) < 5:
            continue
        point = Path(_OCTAL.sub(lambda code: chr(int(code[1], 8)), fields[4]))
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), after.split()[0]
    return kind
