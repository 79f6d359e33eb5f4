"""Texts from outside, in a form that can be shown. A name may contain a terminal's escape sequences, a line of a log,
or half a character. What is kept and compared stays as it is.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

LONGEST = 4000
"""The most characters of a text that are shown. The others are counted."""

_DEEPEST = 16


def printable(text: str, *, most: int = LONGEST, lines: bool = False) -> str:
    """Return a text that any terminal, log and encoding can show. Control characters, marks that change the direction
    of reading, and halves of surrogate pairs are escaped as Python does it. A long text is cut.

    Line breaks are kept if the text may have several `lines`, and escaped otherwise.
    """
    head = text[:most]
    if not head.isprintable():
        head = "".join(
            character if character.isprintable() or (lines and character == "\n") else _escaped(character)
            for character in head
        )
    return head if len(text) <= most else f"{head}... ({len(text) - most} more)"


def printable_values(value: Any, *, lines: bool = True) -> Any:
    """Return a JSON value with every text in it printable, also its keys. Other values stay as they are."""
    return _printable(value, lines, _DEEPEST)


def _printable(value: Any, lines: bool, levels: int) -> Any:  # noqa: FBT001
    if isinstance(value, str):
        return printable(value, lines=lines)
    if not isinstance(value, Mapping | list | tuple):
        return value
    if not levels:
        return "..."
    if isinstance(value, Mapping):
        return {
            printable(key) if isinstance(key, str) else key: _printable(member, lines, levels - 1)
            for key, member in value.items()
        }
    return [_printable(member, lines, levels - 1) for member in value]


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


# Text without credentials, for logs and reasons that people read.

REDACTED = "REDACTED"

_IN_ADDRESS = re.compile(r"://[^/@\s]{1,512}@")
_WORDS = (  # each begins with a letter that is found quickly
    r"secret|passw|passphrase|token|credential|signature|connection[.\-_]?string|s(?:as|ig)(?<![a-z]s..)(?![a-z])|pwd|"
    r"(?:access|account|api|customer|decryption|encryption|private|shared|sse)[.\-_]?key"
)
_NAMED = re.compile(
    rf"""(?ix)
    ((?:{_WORDS})[\w.\-]{{0,64}})
    (["']?\s{{0,3}}[=:]\s{{0,3}}["']?)
    ([^\s"',;&)}}\]]{{3,4096}})
    """
)
_NAME = re.compile(rf"{_WORDS}|authorization|cookie|jaas|private|(?<![a-z])pass(?![a-z])", re.IGNORECASE)
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=\-]{8,4096}")
_AWS_KEY = re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")
_SHORTEST = 6
"""A shorter secret is not looked for, because it is part of many words."""
_MOST = 1000

_known: tuple[str, ...] = ()
_adding = threading.Lock()


def hide(secret: str) -> None:
    """Hide this secret in all texts of this process from now on. Libraries may write it into their messages, also after
    it was replaced by another one.
    """
    global _known  # noqa: PLW0603 - all texts of the process are meant
    if len(secret) >= _SHORTEST and secret not in _known:
        with _adding:
            _known = (secret, *_known)[:_MOST]


@lru_cache(maxsize=1024)
def names_a_secret(key: str) -> bool:
    """Whether a key of a configuration, a property or a header has a name of a secret. A provider is a class."""
    return _NAME.search(key) is not None and not key.lower().endswith(("provider", "provider.type"))


def without_secrets(text: str) -> str:
    """Return text with REDACTED for each secret that this process has read."""
    for secret in sorted(_known, key=len, reverse=True):  # one may be the beginning of another
        text = text.replace(secret, REDACTED)
    return text


def without_credentials(text: str) -> str:
    """Return text with REDACTED for what may be a credential.

    That is: a secret that this process has read, user and password of an address, the value after a name of a secret
    (`password=...`), a token of a header, and a key of AWS. Text without such signs is returned as it is.
    """
    text = without_secrets(text)
    text = _IN_ADDRESS.sub(f"://{REDACTED}@", text)
    text = _BEARER.sub(rf"\1 {REDACTED}", text)
    text = _NAMED.sub(rf"\1\2{REDACTED}", text)
    return _AWS_KEY.sub(REDACTED, text)


def span(seconds: float) -> str:
    """Return a duration in up to two units: `450ms`, `12s`, `3m 20s`, `2h`, `4d 1h`."""
    if abs(seconds) < 1:
        return f"{round(seconds * 1000)}ms"
    whole = int(seconds)
    for unit, larger, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if abs(whole) >= larger:
            rest = whole % larger // part
            return f"{whole // larger}{unit} {rest}{smaller}" if rest else f"{whole // larger}{unit}"
    return f"{whole}s"


def counted(number: int, what: str, many: str | None = None) -> str:
    """Return a number of things, in the singular or the plural."""
    plural = f"{what}es" if what.endswith("ch") else f"{what}s"
    return f"{number} {what if number == 1 else many or plural}"


def size(count: float) -> str:
    """Return bytes in their largest unit, rounded to one decimal: `12 B`, `1.5 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
