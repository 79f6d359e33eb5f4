"""The one spelling of a table's address."""

from __future__ import annotations

import os
import posixpath
import re

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage.hadoop_defaults import default_host

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_LOCAL = ("file", "local")
_CATALOG = "catalog"
HDFS = "hdfs"
_ONE_STORE = {"s3a": "s3", "s3n": "s3", "abfs": "abfss"}
_CONTAINER_AT_ACCOUNT = ("abfss",)
_FORBIDDEN = {"*": "a wildcard", "?": "a query or wildcard", "[": "a wildcard", "#": "a fragment", "\0": "a NUL"}


LONGEST_BYTES = 4096
"""What Linux takes for a path (`PATH_MAX`), and four times what object stores take for a key."""

LONGEST_NAME_BYTES = 255
"""What Linux takes for one name in a path (`NAME_MAX`)."""

_SHOWN = 200


def canonical_location(text: str) -> str:
    """Return the one spelling of a table's address, under which it is known whoever names it.

    It is read as Hadoop's `Path(String)` does, letter by letter: in `file:///x%20y` the escape is three letters (run).
    `file:///x`, `file:/x` and `/x/` are the local path `/x` with symbolic links resolved; `s3a://b/t` is `s3://b/t`;
    `hdfs:///x` is on the host of the machine's `fs.defaultFS`;
    `catalog://lake/sales.orders` is the table `orders` in the namespace `sales` of the catalog that is named `lake`.
    Raises PermanentError for an address that is too long, not absolute, holds credentials, a query, a wildcard or a
    chain of protocols (`::`), or climbs with `..` beyond what a path alone can tell.
    """
    spelled = spelled_location(text)
    return os.path.realpath(spelled) if is_local(spelled) else spelled


def is_local(location: str) -> bool:
    """Whether a location, as it is spelled, is a path of this machine."""
    return location.startswith("/")


def spelled_location(text: str) -> str:
    """Return an address as `canonical_location` does, but with symbolic links as they are: no file is touched.

    Raises PermanentError as it does.
    """
    _check(text)
    found = _SCHEME.fullmatch(text)
    if found is None:
        return _local(text)
    scheme, rest = canonical_scheme(found[1]), found[2]
    if scheme in _LOCAL:
        return _local(_without_empty_host(rest, text))
    if scheme == _CATALOG:
        return f"{_CATALOG}://{'/'.join(_names(rest, text))}"
    return _remote(scheme, rest, text)


def _check(text: str) -> None:
    """Raise PermanentError for what is no table's address, whatever its scheme."""
    try:
        length = len(os.fsencode(text))
    except UnicodeEncodeError as wrong:
        raise PermanentError(f"{_shown(text)} holds half a character, which is no table's address") from wrong
    if length > LONGEST_BYTES:
        raise PermanentError(f"{_shown(text)} has {length} bytes, and a table's address at most {LONGEST_BYTES}")
    for sign, what in _FORBIDDEN.items():
        if sign in text:
            raise PermanentError(f"{_shown(text)} holds {what}, which is no table's address")
    if "::" in text:
        raise PermanentError(f"{_shown(text)} chains protocols, which is no table's address")


def _shown(text: str) -> str:
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."


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
        raise PermanentError(f"{_shown(text)} names a file on another host")
    return path


def path_without_host(rest: str) -> str | None:
    """Return the path of an address that names no host, `///x` or `/x`; None where it names one, or is no path."""
    path = rest[2:] if rest.startswith("//") else rest
    return path if path.startswith("/") else None


def _default_host(text: str) -> str:
    host = default_host(HDFS)
    if host is None:
        raise PermanentError(
            f"{_shown(text)} names no host, and no fs.defaultFS of HDFS stands in core-site.xml of HADOOP_CONF_DIR: "
            "name it, as in hdfs://namenode:8020/path"
        )
    return host


def _local(path: str) -> str:
    if not path.startswith("/"):
        raise PermanentError(f"{_shown(path)} is not absolute")
    if "\0" in path:
        raise PermanentError(f"{_shown(path)} holds a NUL, which is no table's address")
    names = [name for name in path.split("/") if name not in ("", ".")]
    if any(len(os.fsencode(name)) > LONGEST_NAME_BYTES for name in names):
        raise PermanentError(f"{_shown(path)} holds a name of more than {LONGEST_NAME_BYTES} bytes")
    return f"/{'/'.join(names)}"


def _names(rest: str, text: str) -> tuple[str, str]:
    """Return the catalog and the identifier that an address names, exactly as they are spelled."""
    catalog, _, identifier = rest.removeprefix("//").partition("/")
    levels = identifier.split(".")
    if not rest.startswith("//") or not catalog or "/" in identifier or len(levels) < 2 or not all(levels):
        raise PermanentError(f"{_shown(text)} needs the form {_CATALOG}://name/namespace.table")
    if "@" in catalog:
        raise PermanentError(f"the address of {identifier!r} holds credentials")
    return catalog, identifier


def _remote(scheme: str, rest: str, text: str) -> str:
    if scheme == HDFS and (hostless := path_without_host(rest)) is not None:
        rest = f"//{_default_host(text)}{hostless}"
    if not rest.startswith("//"):
        raise PermanentError(f"{_shown(text)} needs the form {scheme}://bucket/path")
    host, _, path = rest[2:].partition("/")
    if not host:
        raise PermanentError(f"{_shown(text)} names no bucket or host")
    if "@" in host and scheme not in _CONTAINER_AT_ACCOUNT:
        raise PermanentError(f"the address of a table on {host.rpartition('@')[2]!r} holds credentials")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise PermanentError(f"{_shown(text)} climbs with '..'")
    return f"{scheme}://{posixpath.join(host, *parts)}"
