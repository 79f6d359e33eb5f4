"""The Hudi tables of the fleet: copies of seeds under names of their own, and what is wrong with some."""

from __future__ import annotations

import binascii
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from live.fleet.kinds import Made, Wrong
from live.fleet.making.lock_nodes import LockNodes
from live.fleet.making.seeds import LOCKS

FUTURE = "29991231235959999"


def folder_of(lake: Path, table: Made) -> Path:
    """Return where a table lies."""
    return lake / "hudi" / table.name


def make_nodes(tables: Iterable[Made], nodes: LockNodes) -> None:
    """Make the lock of each table whose writers use the right one. To be called before a seed is written."""
    for table in tables:
        nodes.make(f"{LOCKS}/{table.name}") if table.wrong is not Wrong.LOCK else None


def copy_tables(tables: Iterable[Made], *, seeds: Path, lake: Path, nodes: LockNodes) -> None:
    """Copy the seed of each table, with the times of its files, and spoil what is to be wrong."""
    for table in tables:
        target = folder_of(lake, table)
        shutil.copytree(seeds / table.seed, target, copy_function=shutil.copy2)
        _rename(target / ".hoodie" / "hoodie.properties", table.name)
        if table.wrong is not Wrong.LOCK:
            nodes.take(f"{LOCKS}/{table.name}", 2 * len(completed(target)))
        _spoil(target, table.wrong)


def completed(table: Path) -> list[Path]:
    """Return the files of the completed commits of a table, the newest last."""
    return sorted(path for path in _timeline(table).iterdir() if re.search(r"\d\.(delta)?commit$", path.name))


def _timeline(table: Path) -> Path:
    newer = table / ".hoodie" / "timeline"
    return newer if newer.is_dir() else table / ".hoodie"


def _rename(properties: Path, name: str) -> None:
    """Give the copy its own name. `hoodie.table.checksum` is the CRC-32 of `DATABASE.TABLE` (HoodieTableConfig). The
    file beside it has Hadoop's sums of the seed's file.
    """
    (properties.parent / f".{properties.name}.crc").unlink(missing_ok=True)
    text = properties.read_text(encoding="utf-8")
    text = re.sub(r"(?m)^hoodie\.table\.name=.*$", f"hoodie.table.name={name}", text)
    checksum = binascii.crc32(f".{name}".encode())
    properties.write_text(re.sub(r"(?m)^hoodie\.table\.checksum=.*$", f"hoodie.table.checksum={checksum}", text))


def _spoil(table: Path, wrong: Wrong) -> None:
    properties = table / ".hoodie" / "hoodie.properties"
    match wrong:
        case Wrong.PROPERTIES:
            properties.write_bytes(properties.read_bytes()[:60])
        case Wrong.VERSION:
            text = properties.read_text(encoding="utf-8")
            properties.write_text(re.sub(r"hoodie\.table\.version=\d+", "hoodie.table.version=42", text))
        case Wrong.COMMIT:
            newest = completed(table)[-1]
            newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
        case Wrong.PLAN:
            plan = "compaction" if (table / ".hoodie" / "hoodie.properties").read_text().find("MERGE") > 0 else "clean"
            time = str(int(re.match(r"\d+", completed(table)[-1].name).group()) + 1000)  # type: ignore[union-attr]
            (_timeline(table) / f"{time}.{plan}.requested").write_bytes(b"Obj\x01 this is no plan")
        case Wrong.FUTURE:
            (_timeline(table) / f"{FUTURE}.commit.requested").touch()
        case _:
            pass
