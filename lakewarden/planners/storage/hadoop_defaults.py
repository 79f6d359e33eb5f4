"""The defaults for incomplete addresses in the Hadoop configuration of this machine."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from xml.etree import ElementTree as ET

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
    settings = {_text(element, "name"): _text(element, "value") for element in root.iter("property")}
    return next((settings[key] for key in _KEYS if settings.get(key)), None)


def _text(of: ET.Element, name: str) -> str:
    return (of.findtext(name) or "").strip()
