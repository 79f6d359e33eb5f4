"""The data files of a table by Hudi's two listings: of its metadata table, and of its folders."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from lakewarden.executors.programs.hudi.client.write_client import HudiClient

AT_ONCE = 200
"""How many partitions are listed at a time. All their files are in memory."""

_PATH = re.compile(r"StoragePathInfo\{path=(.*?), length=\d+, isDirectory=")
_SIZE = re.compile(r", length=(\d+), isDirectory=")
"""How `StoragePathInfo.toString` begins (1.2.0)."""


class Listings:
    """Both listings, made anew each time (`HoodieBackedTableMetadata` and `FileSystemBackedTableMetadata`, which lists
    folders in Spark tasks).
    """

    def __init__(self, client: HudiClient) -> None:
        self._client = client

    def partitions(self) -> list[str]:
        """Return the paths of all partitions that either of the two knows."""
        return sorted({*_partitions(self._known()), *_partitions(self._stored())})

    def known(self, partitions: Sequence[str]) -> Mapping[str, frozenset[str]]:
        """Return the names of the data files in partitions, as the metadata table knows them."""
        return self._files(self._known(), partitions)

    def stored(self, partitions: Sequence[str]) -> Mapping[str, frozenset[str]]:
        """Return the names of the data files that lie in the folders of partitions."""
        return self._files(self._stored(), partitions)

    def count_stored(self) -> int:
        """Return how many data files lie in the table's folders."""
        partitions = _partitions(self._stored())
        chunks = (partitions[start : start + AT_ONCE] for start in range(0, len(partitions), AT_ONCE))
        return sum(len(names) for chunk in chunks for names in self.stored(chunk).values())

    def bytes_stored(self) -> int:
        """Return how many bytes lie in the table's folders."""
        total = 0
        with contextlib.closing(self._stored()) as listing:
            partitions = [str(path) for path in listing.getAllPartitionPaths()]
            for start in range(0, len(partitions), AT_ONCE):
                folders = self._folders(partitions[start : start + AT_ONCE])
                found = listing.getAllFilesInPartitions(self._client.java_list([*folders]))
                total += sum(int(size) for files in found.values() for size in _SIZE.findall(str(files.toString())))
        return total

    def _known(self) -> Any:
        made = self._client.hudi.metadata.HoodieBackedTableMetadata
        settings = self._client.java.getConfig().getMetadataConfig()
        return made(self._client.java.getEngineContext(), self._client.storage, settings, self._client.location)

    def _stored(self) -> Any:
        made = self._client.hudi.metadata.FileSystemBackedTableMetadata
        return made(self._client.java.getEngineContext(), self._client.storage, self._client.location)

    def _folders(self, partitions: Sequence[str]) -> Mapping[str, str]:
        """Return the paths of partitions by their folders."""
        base = self._client.base
        return {f"{base}/{path}" if path else base: path for path in partitions}

    def _files(self, listing: Any, partitions: Sequence[str]) -> Mapping[str, frozenset[str]]:
        folders = self._folders(partitions)
        with contextlib.closing(listing):
            found = listing.getAllFilesInPartitions(self._client.java_list([*folders]))
        return {folders[str(folder)]: _data_files(str(found[folder].toString())) for folder in found}


def _partitions(listing: Any) -> list[str]:
    with contextlib.closing(listing):
        return [str(path) for path in listing.getAllPartitionPaths()]


def _data_files(listed: str) -> frozenset[str]:
    """Return the names of data files in the text of a list of files: one call of Java for any number of them."""
    names = {path.rsplit("/", 1)[-1] for path in _PATH.findall(listed)}
    return frozenset(name for name in names if _is_data(name))


def _is_data(name: str) -> bool:
    """Whether a file in a partition's folder is data, and neither Hudi's partition metadata nor a checksum."""
    return not name.startswith(".hoodie_partition_metadata") and not name.endswith(".crc")
