"""The one spelling of a table's address."""

from __future__ import annotations

import functools
import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from lakewarden.planners.model.errors import PermanentError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_LOCAL = ("file", "local")
_CATALOG = "catalog"
HDFS = "hdfs"
_ONE_STORE = {"s3a": "s3", "s3n": "s3", "abfs": "abfss"}
_CONTAINER_AT_ACCOUNT = ("abfss",)
_FORBIDDEN = {"*": "a wildcard", "?": "a query or wildcard", "[": "a wildcard", "#": "a fragment", "\0": "a NUL"}


LONGEST_BYTES = 4096
"""The longest path of Linux (`PATH_MAX`). It is four times the longest key of object stores."""

LONGEST_NAME_BYTES = 255
"""The longest name in a path of Linux (`NAME_MAX`)."""

_SHOWN = 200
_HOST = re.compile(r"[A-Za-z0-9_$][A-Za-z0-9._$-]*(@[A-Za-z0-9][A-Za-z0-9._-]*)?(:[0-9]{1,5})?")
"""A bucket, a host or a container at an account, perhaps with a port. No dots alone, no escape, no user."""

_OF_EXACT_NAMES = ("s3", "gs", "memory")
_PORT_OF_HDFS = ":8020"


def canonical_location(text: str) -> str:
    """Return the one spelling of a table's address. It is the same for every spelling of the address.

    The address is read as Hadoop's `Path(String)` reads it, literally: in `file:///x%20y` the escape is three letters
    (run). `file:///x`, `file:/x` and `/x/` are the local path `/x` with symbolic links resolved. `s3a://b/t` is
    `s3://b/t`. `hdfs:///x` is on the host of the machine's `fs.defaultFS`. `catalog://lake/sales.orders` is the table
    `orders` in the namespace `sales` of the catalog `lake`. Raises PermanentError for an address that is too long, is
    not absolute, names no valid host, or holds credentials, a query, a wildcard or a chain of protocols (`::`). Raises
    it also if the address climbs with `..` out of a link: Hadoop takes the name before `..` away, and a disk follows
    the link first.
    """
    spelled = spelled_location(text)
    if not is_local(spelled):
        return spelled
    real = os.path.realpath(spelled)
    if ".." in spelled.split("/") and os.path.realpath(posixpath.normpath(spelled)) != real:
        raise PermanentError(f"{_in_short(text)} climbs with '..' out of a link: write the path without '..'")
    return real


def by_place(location: str) -> str:
    """Return what two canonical locations of one place have in common. It is for comparisons only, and is no address.

    The names of hosts have no case. Port 8020 is that of HDFS without a port. A location keeps them as they are
    written, because the name of a name service in Hadoop's configuration has case. `s3` buckets are exact.
    """
    scheme, separator, rest = location.partition("://")
    if not separator or scheme in (*_OF_EXACT_NAMES, _CATALOG) or is_local(location):
        return location
    host, slash, path = rest.partition("/")
    host = host.lower()
    if scheme == HDFS:
        host = host.removesuffix(_PORT_OF_HDFS)
    return f"{scheme}://{host}{slash}{path}"


def is_below(location: str, folder: str) -> bool:
    """Whether a canonical location is a folder, or lies below it. Names are compared whole: `/lake2` is not below
    `/lake`.
    """
    here, above = by_place(location), by_place(folder).rstrip("/")
    return here == above or here.startswith(f"{above}/")


def folders_above(location: str) -> Iterator[str]:
    """Yield the folders above a location, the nearest first, without the root and the scheme."""
    above = posixpath.dirname(location)
    while above not in ("", location) and not above.endswith((":", ":/")):
        yield above
        location, above = above, posixpath.dirname(above)


def outside(location: str, roots: Sequence[str]) -> str | None:
    """Return why a canonical location is not allowed, or None if it is. Without `roots` every location is.

    A name in a catalog is allowed: the files that it leads to are held by their own locations.
    """
    if not roots or is_in_catalog(location) or any(is_below(location, root) for root in roots):
        return None
    return f"{_in_short(location)} lies outside of the roots: {', '.join(roots)}"


_OF_KEYS = frozenset({"s3", "gs", "abfss", "wasb", "wasbs", "oss", "memory"})
"""Stores that take a key literally: in `a//b` there is an empty name."""


def by_key(address: str) -> str | None:
    """Return the address of a file or a folder with several slashes in a row, as an object store takes it. None for any
    other address, because it has only one reading.
    """
    scheme, _, key = address.partition("://")
    if canonical_scheme(scheme) not in _OF_KEYS or "//" not in key:
        return None
    return f"{canonical_scheme(scheme)}://{key.rstrip('/')}"


def as_hadoop_reads(location: str) -> str:
    """Return a location as Hadoop's clients read it: several slashes in a row are one."""
    scheme, separator, path = location.partition("://")
    return f"{scheme}{separator}{re.sub(r'/{2,}', '/', path)}"


def is_local(location: str) -> bool:
    """Whether a location, as it is spelled, is a path of this machine."""
    return location.startswith("/")


def spelled_location(text: str) -> str:
    """Return an address as `canonical_location` does, but with symbolic links unresolved. It reads no file.

    Raises PermanentError as `canonical_location` does.
    """
    _check(text)
    match = _SCHEME.fullmatch(text)
    if match is None:
        return _local(text)
    scheme, rest = canonical_scheme(match[1]), match[2]
    if scheme in _LOCAL:
        return _local(_without_empty_host(rest, text))
    if scheme == _CATALOG:
        return f"{_CATALOG}://{'/'.join(_names(rest, text))}"
    return _remote(scheme, rest, text)


def _check(text: str) -> None:
    """Raise PermanentError if the text cannot be a table's address in any scheme."""
    try:
        length = len(os.fsencode(text))
    except UnicodeEncodeError as wrong:
        raise PermanentError(f"{_in_short(text)} holds half a character, which is not a table's address") from wrong
    if length > LONGEST_BYTES:
        raise PermanentError(f"{_in_short(text)} has {length} bytes, and a table's address at most {LONGEST_BYTES}")
    for sign, what in _FORBIDDEN.items():
        if sign in text:
            raise PermanentError(f"{_in_short(text)} holds {what}, which is not a table's address")
    if "::" in text:
        raise PermanentError(f"{_in_short(text)} chains protocols, which is not a table's address")


def _in_short(text: str) -> str:
    """Return an address as a message may show it: not longer than a line, and without what may be credentials. Those
    end with the last `@`, because a secret may hold slashes.
    """
    scheme, colon, rest = text.partition(":")
    if colon and "@" in rest and not text.startswith("/"):
        text = f"{scheme}://REDACTED@{rest.rpartition('@')[2]}"
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."


def hadoop_location(location: str) -> str:
    """Return a canonical location in Hadoop's spelling, which the table's writers use: `s3a://` for `s3://`.

    Plans name their files in this spelling. Hadoop's S3A refuses a file in the other one.
    """
    return re.sub(r"\As3://", "s3a://", location)


def is_in_catalog(location: str) -> bool:
    """Whether a canonical location is a name in a catalog. Such a location does not tell where the table's
    files are.
    """
    return location.startswith(f"{_CATALOG}://")


def named_in_catalog(location: str) -> tuple[str, str]:
    """Return the catalog's name and the table's identifier (`sales.orders`) of such a location."""
    catalog, _, identifier = location.removeprefix(f"{_CATALOG}://").partition("/")
    return catalog, identifier


def canonical_scheme(scheme: str) -> str:
    """Return the one name of a scheme with several names: `s3a` and `s3n` are `s3`."""
    return _ONE_STORE.get(scheme.lower(), scheme.lower())


def _without_empty_host(rest: str, text: str) -> str:
    """Return the path of a file URI: `///x`, `//localhost/x` and `/x` are all `/x`."""
    path = rest.removeprefix("//localhost") if rest.startswith("//localhost/") else rest
    if path.startswith("//") and not path.startswith("///"):
        raise PermanentError(f"{_in_short(text)} names a file on another host")
    return path


def path_without_host(rest: str) -> str | None:
    """Return the path of an address without a host, `///x` or `/x`. None if it names a host, or is no path."""
    path = rest[2:] if rest.startswith("//") else rest
    return path if path.startswith("/") else None


def _default_host(text: str) -> str:
    host = default_host(HDFS)
    if host is None:
        raise PermanentError(
            f"{_in_short(text)} names no host, and no fs.defaultFS of HDFS stands in core-site.xml of HADOOP_CONF_DIR: "
            "name it, as in hdfs://namenode:8020/path"
        )
    return host


def _local(path: str) -> str:
    if not path.startswith("/"):
        raise PermanentError(f"{_in_short(path)} is not absolute")
    names = [name for name in path.split("/") if name not in ("", ".")]
    if any(len(os.fsencode(name)) > LONGEST_NAME_BYTES for name in names):
        raise PermanentError(f"{_in_short(path)} holds a name of more than {LONGEST_NAME_BYTES} bytes")
    return f"/{'/'.join(names)}"


def _names(rest: str, text: str) -> tuple[str, str]:
    """Return the catalog and the identifier that an address names, exactly as they are spelled."""
    catalog, _, identifier = rest.removeprefix("//").partition("/")
    levels = identifier.split(".")
    if not rest.startswith("//") or not catalog or "/" in identifier or len(levels) < 2 or not all(levels):
        raise PermanentError(f"{_in_short(text)} needs the form {_CATALOG}://name/namespace.table")
    if "@" in catalog:
        raise PermanentError(f"{_in_short(text)} holds credentials")
    return catalog, identifier


def _remote(scheme: str, rest: str, text: str) -> str:
    if scheme == HDFS and (hostless := path_without_host(rest)) is not None:
        rest = f"//{_default_host(text)}{hostless}"
    if not rest.startswith("//"):
        raise PermanentError(f"{_in_short(text)} needs the form {scheme}://bucket/path")
    host, _, path = rest[2:].partition("/")
    if not host:
        raise PermanentError(f"{_in_short(text)} names no bucket or host")
    if "@" in host and scheme not in _CONTAINER_AT_ACCOUNT:
        raise PermanentError(f"{_in_short(text)} holds credentials, which no address may")
    if not _HOST.fullmatch(host):
        raise PermanentError(
            f"{_in_short(text)} names no valid bucket or host: it may hold credentials, or a wrong port"
        )
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise PermanentError(f"{_in_short(text)} climbs with '..'")
    if not path.isascii() and any("\ud800" <= sign <= "\udfff" for sign in path):
        raise PermanentError(f"{_in_short(text)} holds bytes that are not UTF-8, which no object store takes")
    return f"{scheme}://{posixpath.join(host, *parts)}"


# The default for an incomplete address, in the Hadoop configuration of this machine.

_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
"""Spark's launcher looks here, too. It puts both in front of the JVM's class path (`AbstractCommandBuilder`)."""

_KEYS = ("fs.defaultFS", "fs.default.name")
_AUTHORITY = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([A-Za-z0-9._:-]+)/?")


def default_host(scheme: str) -> str | None:
    """Return the host, or name service, for `hdfs:///x`. None if the machine's Hadoop configuration has none.

    It is that of `fs.defaultFS` if the scheme is the same. `FileSystem.get` finds it in this way. Run: if the default
    has another scheme, or there is none, Hadoop refuses the address as well.
    """
    for variable in _FOLDERS:
        folder = os.environ.get(variable)
        if folder and (default := _default_file_system(Path(folder, "core-site.xml"))) is not None:
            match = _AUTHORITY.fullmatch(default)
            return match[2] if match is not None and match[1].lower() == scheme else None
    return None


@functools.cache
def _default_file_system(file: Path) -> str | None:
    """Return the setting of a `core-site.xml`. None if the file does not have it, does not exist or cannot be read."""
    try:
        root = ET.parse(file).getroot()  # noqa: S314 - the machine's own configuration, as Hadoop reads it
    except (OSError, ET.ParseError):
        return None
    settings = {_text_of(element, "name"): _text_of(element, "value") for element in root.iter("property")}
    return next((settings[key] for key in _KEYS if settings.get(key)), None)


def _text_of(of: ET.Element, name: str) -> str:
    return (of.findtext(name) or "").strip()
