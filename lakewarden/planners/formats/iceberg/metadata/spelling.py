"""One spelling for every path in metadata and listings, so that they can be compared."""

from __future__ import annotations

import os
import re

from lakewarden.planners.storage.locations import by_key, canonical_scheme

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_LOCAL = ("file", "local")
_FOLDERS = 100_000
"""How many folders are remembered. A table may have a folder for each of millions of partitions."""


class Spelling:
    """Spells paths: `file:/x/f` and `/x/f` are one, `s3a://` is `s3://`, and links to folders are resolved.

    The path of a file is taken literally, unlike the address of a table. Iceberg does not encode it in any scheme, so
    `%2F` in the folder of a partition stays `%2F`. Not for several threads.
    """

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}

    def __call__(self, path: str) -> str:
        """Return the spelling of a path."""
        found = _SCHEME.fullmatch(path)
        if found is None:
            return self._local(path)
        scheme, rest = canonical_scheme(found[1]), found[2]
        if scheme in _LOCAL:
            return self._local(rest.removeprefix("//localhost") if rest.startswith("//localhost/") else rest)
        return f"{scheme}://{re.sub(r'/{2,}', '/', rest.lstrip('/'))}"

    def folder(self, path: str) -> str:
        """Return the spelling of a folder. The spelling of a path below the folder begins with it."""
        return self(f"{path.rstrip('/')}/").rstrip("/")

    def _local(self, path: str) -> str:
        folder, _, name = path.rpartition("/")
        if folder not in self._folders:
            if len(self._folders) >= _FOLDERS:
                self._folders.clear()
            self._folders[folder] = _real(folder)
        return f"{self._folders[folder]}/{name}"


def address_of(folder: str) -> str:
    """Return the address at which a folder is listed and its files are read. It is the spelling of the folder, except
    in object stores. There `a//b` and `a/b` are two folders, so the path stays as it is.
    """
    return by_key(folder) or Spelling().folder(folder)


def _real(folder: str) -> str:
    """Return a local folder with its links resolved. Its name may hold any characters."""
    return os.path.realpath(re.sub(r"/{2,}", "/", folder) or "/").rstrip("/")


def path_alone(spelled: str) -> str:
    """Return a spelled path without scheme and host."""
    scheme, separator, rest = spelled.partition("://")
    return f"/{rest.partition('/')[2]}" if separator else scheme
