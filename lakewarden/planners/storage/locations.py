"""The one spelling of a table's address."""

from __future__ import annotations

import os
import posixpath
import re
from urllib.parse import unquote

from lakewarden.planners.model.errors import PermanentError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_LOCAL = ("file", "local")
_CATALOG = "catalog"
_ONE_STORE = {"s3a": "s3", "s3n": "s3", "abfs": "abfss"}
_CONTAINER_AT_ACCOUNT = ("abfss",)
_FORBIDDEN = {"*": "a wildcard", "?": "a query or wildcard", "[": "a wildcard", "#": "a fragment", "\0": "a NUL"}


def canonical_location(text: str) -> str:
    """Return the one spelling of a table's address, under which it is known whoever names it.

    `file:///x`, `file:/x` and `/x/` are the local path `/x` with symbolic links resolved; `s3a://b/t` is `s3://b/t`;
    `catalog://lake/sales.orders` is the table `orders` in the namespace `sales` of the catalog that is named `lake`.
    Raises PermanentError for an address that is not absolute, holds credentials, a query, a wildcard or a chain of
    protocols (`::`), or climbs with `..` beyond what a path alone can tell.
    """
    for sign, what in _FORBIDDEN.items():
        if sign in text:
            raise PermanentError(f"{text!r} holds {what}, which is no table's address")
    if "::" in text:
        raise PermanentError(f"{text!r} chains protocols, which is no table's address")
    found = _SCHEME.fullmatch(text)
    if found is None:
        return _local(text)
    scheme, rest = canonical_scheme(found[1]), found[2]
    if scheme in _LOCAL:
        return _local(unquote(_without_empty_host(rest, text)))
    if scheme == _CATALOG:
        return f"{_CATALOG}://{'/'.join(_names(rest, text))}"
    return _remote(scheme, rest, text)


def hadoop_location(location: str) -> str:
    """Return a canonical location as Hadoop spells it, and therefore the table's writers: `s3a://` for `s3://`.

    Plans name their files by it, and Hadoop's S3A refuses a file of the other spelling.
    """
    return re.sub(r"\As3://", "s3a://", location)


def is_in_catalog(location: str) -> bool:
    """Whether a canonical location is a name in a catalog, so that it does not tell where the table's files are."""
    return location.startswith(f"{_CATALOG}://")


def named_in_catalog(location: str) -> tuple[str, str]:
    """Return the catalog's name and the table's identifier (`sales.orders`) of such a location."""
    catalog, _, identifier = location.removeprefix(f"{_CATALOG}://").partition("/")
    return catalog, identifier


def canonical_scheme(scheme: str) -> str:
    """Return the one name of a scheme that has several: `s3a` and `s3n` are `s3`."""
    return _ONE_STORE.get(scheme.lower(), scheme.lower())


def _without_empty_host(rest: str, text: str) -> str:
    """Return the path of a file URI: `///x`, `//localhost/x` and `/x` are all `/x`."""
    path = rest.removeprefix("//localhost") if rest.startswith("//localhost/") else rest
    if path.startswith("//") and not path.startswith("///"):
        raise PermanentError(f"{text!r} names a file on another host")
    return path


def _local(path: str) -> str:
    if not path.startswith("/"):
        raise PermanentError(f"{path!r} is not absolute")
    return os.path.realpath(re.sub(r"/{2,}", "/", path))


def _names(rest: str, text: str) -> tuple[str, str]:
    """Return the catalog and the identifier that an address names, exactly as they are spelled."""
    catalog, _, identifier = rest.removeprefix("//").partition("/")
    levels = identifier.split(".")
    if not rest.startswith("//") or not catalog or "/" in identifier or len(levels) < 2 or not all(levels):
        raise PermanentError(f"{text!r} needs the form {_CATALOG}://name/namespace.table")
    if "@" in catalog:
        raise PermanentError(f"the address of {identifier!r} holds credentials")
    return catalog, identifier


def _remote(scheme: str, rest: str, text: str) -> str:
    if not rest.startswith("//"):
        raise PermanentError(f"{text!r} needs the form {scheme}://bucket/path")
    host, _, path = rest[2:].partition("/")
    if not host:
        raise PermanentError(f"{text!r} names no bucket or host")
    if "@" in host and scheme not in _CONTAINER_AT_ACCOUNT:
        raise PermanentError(f"the address of a table on {host.rpartition('@')[2]!r} holds credentials")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise PermanentError(f"{text!r} climbs with '..'")
    return f"{scheme}://{posixpath.join(host, *parts)}"
