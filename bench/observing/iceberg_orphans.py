"""Orphans of a table of ten million files: the cost of finding them among the files that the table knows."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.observing.big_iceberg_table import file_name, newest_version
from lakewarden.planners.formats.iceberg.deletion.orphan_files import Probe, listed, spare_known
from lakewarden.planners.formats.iceberg.metadata.files import read_table
from lakewarden.planners.formats.iceberg.options.service_options import OrphansOptions
from lakewarden.planners.ports import FileEntry
from lakewarden.planners.storage import LocalStorage

_OLD = timedelta(days=9)
_LOST_EVERY = 20
_OLDER_THAN = timedelta(days=7)


class ShownFiles(LocalStorage):
    """Shows the data files of a table, which do not exist, and beside every twentieth one that no commit names. All of
    them are old. `lost` is the number of the latter.
    """

    def __init__(self, folder: Path, *, files: int, partitions: int) -> None:
        (folder / "data").mkdir()
        self.folder, self.lost = folder, -(-files // _LOST_EVERY)
        self._data = f"{folder}/data"
        self._files, self._partitions = files, partitions
        self._at = datetime.now(UTC) - _OLD

    def entries(self, location: str) -> Iterator[FileEntry]:
        """Yield the entries of the folder."""
        if location == self._data:
            for p in range(self._partitions):
                yield FileEntry(name=f"p={p}", size=0, modified=self._at, is_folder=True)
        elif location.endswith("/metadata") and location.startswith(self._data):
            raise FileNotFoundError(location)
        elif location.startswith(self._data):
            for number in range(int(location.rpartition("=")[2]), self._files, self._partitions):
                yield FileEntry(name=file_name(number), size=1, modified=self._at)
                if number % _LOST_EVERY == 0:
                    yield FileEntry(name=file_name(number + 10 * self._files), size=1, modified=self._at)
        else:
            yield from super().entries(location)


def orphans(shown: ShownFiles, *, memory: int) -> dict[str, float]:
    """Find the orphans of a table as a run does, in a process with so much memory. Return the time on a core and the
    peak of memory in bytes.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    newest = newest_version(shown.folder)
    probe = newest.with_name("lakewarden-orphans.json")
    probe.write_bytes(b"{}")
    begun = time.process_time()
    metadata = read_table(str(newest), shown)
    written = Probe(path=f"metadata/{probe.name}", size=2)
    listing = listed(metadata, shown, older_than=_OLDER_THAN, probe=written, now=datetime.now(UTC))
    unknown = 0
    for candidates in listing.candidates():
        spare_known(candidates, listing, metadata, OrphansOptions(), shown, lists=())
        unknown += len(candidates.unknown())
    if unknown != shown.lost:
        raise RuntimeError(f"{unknown} files are orphans, and {shown.lost} were lost")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
    return {"seconds": time.process_time() - begun, "memory": peak}
