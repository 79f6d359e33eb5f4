"""One spelling for every path that metadata and listings name, so that they can be compared."""

from __future__ import annotations

import os
import re

from lakewarden.planners.storage.locations import canonical_scheme

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_LOCAL = ("file", "local")


class Spelling:
    """Spells paths: `file:/x/f` and `/x/f` are one, `s3a://` is `s3://`, links to folders are resolved.

    Unlike the address of a table a file's path is taken letter by letter: Iceberg does not encode it, whatever its
    scheme, so that `%2F` in the name of a partition's folder is just that. Not for several threads.
    """

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}

    def __call__(self, path: str) -> str:
        """Return the path's one spelling."""
        found = _SCHEME.fullmatch(path)
        if found is None:
            return self._local(path)
        scheme, rest = canonical_scheme(found[1]), found[2]
        if scheme in _LOCAL:
            return self._local(rest.removeprefix("//localhost") if rest.startswith("//localhost/") else rest)
        return f"{scheme}://{re.sub(r'/{2,}', '/', rest.lstrip('/'))}"

    def folder(self, path: str) -> str:
        """Return a folder's one spelling: what is below it is spelled with this in front."""
        return self(f"{path.rstrip('/')}/").rstrip("/")

    def _local(self, path: str) -> str:
        folder, _, name = path.rpartition("/")
        if folder not in self._folders:
            self._folders[folder] = _real(folder)
        return f"{self._folders[folder]}/{name}"


def _real(folder: str) -> str:
    """Return a local folder with its links resolved, whatever signs its name holds."""
    return os.path.realpath(re.sub(r"/{2,}", "/", folder) or "/").rstrip("/")


def path_alone(spelled: str) -> str:
    """Return what of a spelled path is left without scheme and host."""
    scheme, separator, rest = spelled.partition("://")
    return f"/{rest.partition('/')[2]}" if separator else scheme
