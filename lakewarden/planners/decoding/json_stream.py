"""A large JSON object from outside, taken member by member, and its long arrays item by item.

So neither the text nor what it stands for is held whole. Of an array that has grown at its end only the new items are
decoded: that the others are as they were is told by their digest.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, NamedTuple

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_text import refused, require_few

_LONGEST = 64 * 2**20
"""So many characters one value may have: a member, or an item of an array that is taken apart."""

_SPACE = re.compile(r"[ \t\n\r]*")
_OF_A_NUMBER = re.compile(r"[-+.eE0-9]*")
_ENDS = "its content is half-written or damaged"
_DECODER = json.JSONDecoder(parse_constant=refused)


class Content(NamedTuple):
    """What an array had between its brackets, some items at least: how many characters, and their digest."""

    characters: int
    digest: bytes


class OtherContentError(Exception):
    """An array does not begin with what was known of it: it has to be read from its begin."""


class JsonObject:
    """The members of one JSON object, in the order of its text. Whatever is asked for raises DamagedError."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        """`parts` are the text in UTF-8, cut anywhere."""
        self._parts = iter(parts)
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._place = 0
        self._ended = False
        self._is_sound = False
        self._has_escapes = False
        self._taken: _Taken | None = None
        self.content: Content | None = None
        """What the array had whose items were yielded last; None where it has none."""

    def members(self) -> Iterator[str]:
        """Yield the keys. The value of each is to be taken, by `value` or `items`, before the next is asked for."""
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
                if self._either(",", "}") == "}":
                    break
        if self._next():
            raise DamagedError(_ENDS)

    def value(self) -> Any:
        """Return the next value as a whole."""
        self._next()
        while True:
            self._require_few()
            try:
                found, end = _DECODER.raw_decode(self._text, self._place)
            except RecursionError as wrong:
                raise DamagedError("its JSON is nested too deeply") from wrong
            except ValueError as wrong:
                if not self._more():
                    raise DamagedError(_ENDS) from wrong
                continue
            if type(found) in (int, float) and _OF_A_NUMBER.fullmatch(self._text, end) and self._more():
                continue  # it may go on in what is not held yet
            self._place = end
            if self._has_escapes:
                _require_whole_signs(found)
            return found

    def items(self, *, known: Content | None = None) -> Iterator[Any]:
        """Yield the items of an array, those of its `known` begin left out. Then `content` is that of all of them.

        `null` stands for an array without items. Raises OtherContentError where it begins otherwise.
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

    def _skip(self, taken: _Taken, known: Content) -> None:
        """Pass over what is known."""
        while (left := known.characters - taken.characters) > 0:
            have = min(left, len(self._text) - self._place)
            self._place += have
            taken.take(self._text, self._place)
            if have < left and not self._more():
                raise OtherContentError
        if taken.content() != known or self._next() not in (",", "]"):
            raise OtherContentError

    def _next(self) -> str:
        """Pass over white space; return the sign that follows, nothing at the end."""
        while True:
            space = _SPACE.match(self._text, self._place)
            self._place = self._place if space is None else space.end()
            if self._place < len(self._text):
                return self._text[self._place]
            if not self._more():
                return ""

    def _expect(self, sign: str) -> None:
        if self._next() != sign:
            raise DamagedError(_ENDS)
        self._place += 1

    def _either(self, one: str, other: str) -> str:
        found = self._next()
        if found not in (one, other):
            raise DamagedError(_ENDS)
        self._place += 1
        return found

    def _more(self) -> bool:
        """Hold more of the text, from the place on; return whether there is more."""
        if len(self._text) - self._place > _LONGEST:
            raise DamagedError(f"its JSON has a value of more than {_LONGEST} characters")
        if self._taken is not None:
            self._taken.take(self._text, self._place)
            self._taken.place = 0
        self._text, self._place, self._is_sound = self._text[self._place :], 0, False
        while not self._ended:
            part = next(self._parts, b"")
            self._ended = not part
            try:
                text = self._decoder.decode(part, self._ended)
            except UnicodeDecodeError as wrong:
                raise DamagedError(_ENDS) from wrong
            if text:
                self._text += text
                self._has_escapes = self._has_escapes or "\\u" in self._text
                return True
        return False

    def _require_few(self) -> None:
        """Raise DamagedError where what is held would take far too much memory once it is decoded."""
        if not self._is_sound:
            require_few(sum(map(self._text.count, ",[{")), size=len(self._text))
            self._is_sound = True


def _require_whole_signs(found: Any) -> None:
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError as wrong:
        raise DamagedError("its JSON has a text with half a pair of surrogates, which stands for no sign") from wrong


class _Taken:
    """What was taken of an array. `place` is where the rest of it begins in the text that is held."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.characters = 0
        self._digest = sha256()

    def take(self, text: str, end: int) -> None:
        self._digest.update(text[self.place : end].encode())
        self.characters += end - self.place
        self.place = end

    def content(self) -> Content:
        return Content(self.characters, self._digest.digest())
