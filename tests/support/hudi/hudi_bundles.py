"""The Hudi releases whose tables are tried, ours among them, and the places of their bundles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakewarden.executors.on_spark import Bundle
from lakewarden.executors.programs.hudi.on_spark import HUDI

assert HUDI.bundle is not None
_OURS: Bundle = HUDI.bundle


def _release(version: str, *, sha256: str, size: int) -> Bundle:
    return replace(_OURS, version=version, sha256=sha256, size=size)


HUDI_BUNDLES: Mapping[str, Bundle] = {
    "0.15.0": _release(
        "0.15.0", sha256="aab6ecdb5c65fcd20406b980b31ccec294fae95693de947d5778f0b3fb4e302a", size=109_001_611
    ),
    "1.0.2": _release(
        "1.0.2", sha256="2c2ab65a11e91265e4b7346f954448c46df52d66fb72f52dad83767b621deae8", size=110_844_131
    ),
    "1.1.1": _release(
        "1.1.1", sha256="5470908f0d26897fb6e0768790e6c75e3d05d2fa013f7d81c8f90c74056d1604", size=80_205_727
    ),
    _OURS.version: _OURS,
}
