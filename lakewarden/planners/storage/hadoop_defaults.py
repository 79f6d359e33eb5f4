"""What the Hadoop configuration of this machine says of addresses that leave something out."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from xml.etree import ElementTree as ET

_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
"""Where Spark's launcher looks, too: it puts both in front of the JVM's class path (`AbstractCommandBuilder`)."""

_KEYS = ("fs.defaultFS", "fs.default.name")
_AUTHORITY = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([A-Za-z0-9._:-]+)/?")


def default_host(scheme: str) -> str | None:
    """Return the host, or name service, that `hdfs:///x` leaves out; None where the machine's Hadoop does not tell.

    It is that of `fs.defaultFS` if its scheme is the same: so `FileSystem.get` finds it (run: with another default, or
    none, Hadoop refuses the address as well).
    """
    for variable in _FOLDERS:
        folder = os.environ.get(variable)
        if folder and (said := _default_file_system(Path(folder, "core-site.xml"))) is not None:
            found = _AUTHORITY.fullmatch(said)
            return found[2] if found is not None and found[1].lower() == scheme else None
    return None


@functools.cache
def _default_file_system(file: Path) -> str | None:
    """Return what a `core-site.xml` says; None if it says nothing, is not there or cannot be read."""
    try:
        root = ET.parse(file).getroot()  # noqa: S314 - the machine's own configuration, as Hadoop reads it
    except (OSError, ET.ParseError):
        return None
    said = {_text(one, "name"): _text(one, "value") for one in root.iter("property")}
    return next((said[key] for key in _KEYS if said.get(key)), None)


def _text(of: ET.Element, name: str) -> str:
    return (of.findtext(name) or "").strip()
