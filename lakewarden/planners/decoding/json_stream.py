"""A large JSON object from outside, read member by member, and its long arrays item by item.

So neither the text nor its value is held whole. If an array has grown at its end, only the new items are decoded. A
digest tells that the others are as they were.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple, NoReturn

from lakewarden.planners.decoding.damage import DamagedError

# JSON from outside. Its values are counted before it is decoded.

_ALWAYS = 1_000_000
_MOST = 8_000_000
_BYTES_FOR_A_VALUE = 12
"""The least bytes for each value. In metadata a value has a key, and takes about 20 bytes. `[[],[],[]...` would take 60
bytes of memory for 3 bytes of text."""

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def from_json(content: bytes) -> Any:
    """Return the value of a JSON text in UTF-8: objects and arrays, finite numbers, and texts that can be encoded
    again.

    Integers may be of any size. Raises DamagedError, also for a text that is nested too deeply or has too many values.
    """
    require_few(content.count(b",") + content.count(b"[") + content.count(b"{"), size=len(content))
    try:
        value = _DECODER.decode(content.decode("utf-8-sig"))
        if _SURROGATE.search(content) is not None:
            _require_whole_signs(value)
    except RecursionError as wrong:
        raise DamagedError("its JSON is nested too deeply") from wrong
    except ValueError as wrong:
        raise DamagedError(_ENDS) from wrong
    return value


def require_few(values: int, *, size: int) -> None:
    """Raise DamagedError if a text of so many bytes has more values than a sound file."""
    if values > _ALWAYS and values > min(_MOST, _ALWAYS + size // _BYTES_FOR_A_VALUE):
        raise DamagedError(f"its JSON has some {values} values in {size} bytes, which is too many")


def refused(constant: str) -> NoReturn:
    """Raise ValueError for constants that Python's decoder accepts and JSON does not have: `NaN` and `Infinity`."""
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=refused)


_LONGEST = 64 * 2**20
"""The most characters of one value: a member, or an item of an array that is read item by item."""

_CHUNK = 2**20
_SPACE = re.compile(r"[ \t\n\r]*")
_OF_A_NUMBER = re.compile(r"[-+.eE0-9]*")
_ENDS = "its content is half-written or damaged"


class ArrayContent(NamedTuple):
    """The content of an array between its brackets, at least some items: the number of characters, and their digest."""

    characters: int
    digest: bytes


class OtherContentError(Exception):
    """An array does not begin with its known content. It has to be read from its begin."""


class JsonObject:
    """The members of one JSON object, in the order of its text. Every method may raise DamagedError."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        """Read `parts`: the text in UTF-8, cut anywhere."""
        self._chunks = _chunks(parts)
        self._next_chunk: bytes | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._place = 0
        self._ended = False
        self._is_sound = False
        self._has_escapes = False
        self._taken: _Taken | None = None
        self.content: ArrayContent | None = None
        """The content of the array that `items` read last. None if it has none."""

    def members(self) -> Iterator[str]:
        """Yield the keys. Call `value` or `items` for each before the next."""
        self._expect("{")
        if self._next() == "}":
            self._place += 1
        else:
            while True:
                key = self.value()
                if not isinstance(key, str):
                    raise DamagedError(_ENDS)
                self._expect(":")
                yield key
                if self._expect(",", "}") == "}":
                    break
        if self._next():
            raise DamagedError(_ENDS)

    def value(self) -> Any:
        """Return the next value as a whole."""
        self._next()
        while True:
            self._require_few()
            try:
                json_value, end = _DECODER.raw_decode(self._text, self._place)
            except RecursionError as wrong:
                raise DamagedError("its JSON is nested too deeply") from wrong
            except ValueError as wrong:
                if not self._more():
                    raise DamagedError(_ENDS) from wrong
                continue
            if type(json_value) in (int, float) and _OF_A_NUMBER.fullmatch(self._text, end) and self._more():
                continue  # the value may continue in text that is not held yet
            self._place = end
            if self._has_escapes:
                _require_whole_signs(json_value)
            return json_value

    def items(self, *, known: ArrayContent | None = None) -> Iterator[Any]:
        """Yield the items of an array, without those of its `known` begin. Then `content` is that of all items.

        `null` stands for an array without items. Raises OtherContentError if the array begins differently.
        """
        self.content = None
        if self._next() == "n" and self.value() is None:
            empty = True
        else:
            self._expect("[")
            empty = self._next() == "]"
            self._place += empty
        if empty:
            if known is not None:
                raise OtherContentError
            return
        taken = self._taken = _Taken(self._place)
        if known is None:
            yield self.value()
        else:
            self._skip(taken, known)
        while self._next() != "]":
            self._expect(",")
            yield self.value()
        taken.take(self._text, self._place)
        self._taken, self.content = None, taken.content()
        self._place += 1

    def _skip(self, taken: _Taken, content: ArrayContent) -> None:
        """Pass over the known content."""
        while (left := content.characters - taken.characters) > 0:
            have = min(left, len(self._text) - self._place)
            self._place += have
            taken.take(self._text, self._place)
            if have < left and not self._pass_over(taken, left - have) and not self._more():
                raise OtherContentError
        if taken.content() != content or self._next() not in (",", "]"):
            raise OtherContentError

    def _pass_over(self, taken: _Taken, left: int) -> bool:
        """Take the next chunk without decoding it. Return False if it is no plain ASCII, or has more than `left`
        characters.
        """
        if self._decoder.getstate()[0]:
            return False
        chunk = self._chunk()
        if not chunk or len(chunk) > left or not chunk.isascii():
            self._next_chunk = chunk
            return False
        taken.take_bytes(chunk)
        self._text, self._place, taken.place = "", 0, 0
        return True

    def _next(self) -> str:
        """Pass over white space. Return the next character, and nothing at the end."""
        while True:
            space = _SPACE.match(self._text, self._place)
            self._place = self._place if space is None else space.end()
            if self._place < len(self._text):
                return self._text[self._place]
            if not self._more():
                return ""

    def _expect(self, *signs: str) -> str:
        """Pass one of these signs and return it."""
        sign = self._next()
        if sign not in signs:
            raise DamagedError(_ENDS)
        self._place += 1
        return sign

    def _more(self) -> bool:
        """Hold more of the text. Return whether there is more."""
        if len(self._text) - self._place > _LONGEST:
            raise DamagedError(f"its JSON has a value of more than {_LONGEST} characters")
        if self._taken is not None:
            self._taken.take(self._text, self._place)
            self._taken.place = 0
        self._text, self._place, self._is_sound = self._text[self._place :], 0, False
        while not self._ended:
            part = self._chunk()
            self._ended = not part
            try:
                text = self._decoder.decode(part, self._ended)
            except UnicodeDecodeError as wrong:
                raise DamagedError(_ENDS) from wrong
            if text:
                begin = self._text[-1:]
                self._text += text
                self._has_escapes = self._has_escapes or "\\u" in text or "\\u" in begin + text[:1]
                return True
        return False

    def _chunk(self) -> bytes:
        """Return the next chunk, and an empty one at the end."""
        chunk, self._next_chunk = self._next_chunk, None
        return next(self._chunks, b"") if chunk is None else chunk

    def _require_few(self) -> None:
        """Raise DamagedError if the held text would take far too much memory after it is decoded."""
        if not self._is_sound:
            require_few(sum(map(self._text.count, ",[{")), size=len(self._text))
            self._is_sound = True


def _chunks(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the parts in pieces. A chunk that is passed over is only digested."""
    for part in parts:
        for begin in range(0, len(part), _CHUNK):
            yield part[begin : begin + _CHUNK]


def _require_whole_signs(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as wrong:
        raise DamagedError("its JSON has a text with half a pair of surrogates, which stands for no sign") from wrong


class _Taken:
    """The part of an array that was read. `place` is where the rest of it begins in the held text."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.characters = 0
        self._digest = sha256()

    def take(self, text: str, end: int) -> None:
        self._digest.update(text[self.place : end].encode())
        self.characters += end - self.place
        self.place = end

    def take_bytes(self, chunk: bytes) -> None:
        self._digest.update(chunk)
        self.characters += len(chunk)

    def content(self) -> ArrayContent:
        return ArrayContent(self.characters, self._digest.digest())


# Numbers from outside. It is damage if a long cannot hold them or a calendar does not know them.

_MOST_DIGITS = 2**63 - 1
_DIGITS = len(str(_MOST_DIGITS))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_MILLISECONDS = (datetime(2200, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
"""Later times are in another unit. Many times the span between two valid times can be added to a valid time."""


def long(value: Any, what: str = "a number") -> int:
    """Return a signed whole number of 64 bits. It may be written as a text or as a float.

    Raises ValueError that names it (`what`).
    """
    if isinstance(value, str) and len(value) <= 20 and value.lstrip("-").isascii() and value.lstrip("-").isdigit():
        value = int(value)
    if isinstance(value, float) and math.isfinite(value) and abs(value) <= _MOST_DIGITS:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -_MOST_DIGITS - 1 <= value <= _MOST_DIGITS:
        raise ValueError(f"{what} is {_in_short(value)}, which is not a signed whole number of 64 bits")
    return value


def count(value: Any, what: str = "a count") -> int:
    """Return a number of things or bytes: a whole number of 63 bits, never below zero. Raises ValueError."""
    number = long(value, what)
    if number < 0:
        raise ValueError(f"{what} is {number}, which is below zero")
    return number


def counted(text: str) -> int | None:
    """Return a count that is written in digits alone. None for any other text."""
    number = int(text) if len(text) <= _DIGITS and text.isascii() and text.isdigit() else None
    return None if number is None or number > _MOST_DIGITS else number


def moment(milliseconds: Any, what: str = "a time") -> datetime:
    """Return the time that is so many milliseconds after the epoch. Raises ValueError for a time before the epoch, or
    for one so far in the future that it must be in another unit.
    """
    number = count(milliseconds, what)
    if number > _MOST_MILLISECONDS:
        raise ValueError(f"{what} is {number} milliseconds after 1970, which is not a time: were they microseconds?")
    return _EPOCH + timedelta(milliseconds=number)


def _in_short(value: Any) -> str:
    """Return a short text for any value. To write a huge number would take a second."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"a number of {value.bit_length()} bits"
    return repr(value)[:60] if isinstance(value, str | float | bool | None) else f"of type {type(value).__name__}"
