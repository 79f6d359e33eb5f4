"""Avro records from outside that are too large to be held whole: they are decoded in pieces.

What fits into a window of the content is decoded at once, by fastavro. What does not is gone into: field by field, and
item by item. So neither the file's size nor what it claims to hold decides how much memory it takes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import fastavro

from lakewarden.planners.decoding.avro import opened
from lakewarden.planners.decoding.avro_schema import parsed_schema
from lakewarden.planners.decoding.avro_weight import Walk, Weigh
from lakewarden.planners.decoding.damage import DamagedError

WINDOW = 2**18
"""So many bytes of content are decoded at once, and make a piece: at worst they take two hundred times as much memory
(`avro_weight`)."""

ITEM = 8 * 2**20
"""A record within the record is decoded whole up to so many bytes, once it is weighed: a file slice of ten thousand log
files has a tenth of it."""

_HEADER = 2 * 2**20
_LONGEST_TEXT = 16 * 2**20
_MOST_KEPT = 32 * 2**20
_MEMORY = 128 * 2**20
_SYNC = 16
_ENDS = "its Avro content is half-written or damaged"
_TOO_LARGE = object()

ReadPart = Callable[[int, int], bytes]
"""Returns the content from one place on, at most so many bytes; none at its end."""


def avro_pieces(read: ReadPart) -> Iterator[Mapping[str, Any]]:
    """Yield the only record of a container in pieces. Each has the fields, and the items of maps and arrays, that come
    after those of the piece before it; a map or an array that goes on is in both, and so is a record with its texts
    and numbers. Of items only those of more than ITEM bytes are cut.

    A piece has a window's content, or one item's, and is taken apart when the next one is asked for. Raises
    DamagedError, also where there are more records, or none, and for one that is compressed.
    """
    window = _Window(read)
    window.fill(_HEADER)
    container = opened(window.held)
    if container.codec != "null":
        raise DamagedError(
            f"it is large, and its Avro codec is {container.codec[:40]!r}: no client of Hudi writes that"
        )
    window.move_to(container.begin)
    records, size = window.long(), window.long()
    if records != 1 or size < 0:
        raise DamagedError(_ENDS)
    end = window.position + size
    yield from _Cutter(window, container.schema.type.plain).pieces()
    if window.position != end or window.take(_SYNC) != container.sync or window.fill(1):
        raise DamagedError(_ENDS)


class _Window:
    """A place in the content, and what is held from there on."""

    def __init__(self, read: ReadPart) -> None:
        self._read = read
        self._held = io.BytesIO()
        self._begin = self._size = self._place = 0
        self._ended = False

    @property
    def position(self) -> int:
        """The place in the content."""
        return self._begin + self._place

    @property
    def held(self) -> bytes:
        """What is held from the place on."""
        return self._held.getvalue()[self._place :]

    def fill(self, least: int) -> bool:
        """Hold so many bytes from the place on, if there are as many; return whether there are."""
        while self._size - self._place < least and not self._ended:
            rest = self.held
            more = self._read(self._begin + self._size, max(WINDOW, least - len(rest)))
            self._ended = not more
            self._begin, self._place, self._size = self.position, 0, len(rest) + len(more)
            self._held = io.BytesIO(rest + more)
        return self._size - self._place >= least

    def move_to(self, position: int) -> None:
        """Go on at a place in the content, and hold nothing yet."""
        self._held, self._begin, self._size, self._place = io.BytesIO(), position, 0, 0
        self._ended = False

    def weighed(self, decode: Callable[[io.BytesIO], Any], weigh: Weigh) -> Any:
        """Return the next value, if it has at most ITEM bytes, and does not take too much memory; else `_TOO_LARGE`."""
        content = self.held + self._read(self._begin + self._size, ITEM)
        walk = Walk(content)
        walk.left = _MEMORY
        try:
            weigh(walk)
        except DamagedError:
            return _TOO_LARGE
        try:
            value = decode(io.BytesIO(content))
        except MemoryError:
            raise
        except Exception as wrong:
            raise DamagedError(_ENDS) from wrong
        self.move_to(self.position + walk.position)
        return value

    def take(self, size: int) -> bytes:
        """Return the next bytes. Raises DamagedError where there are not as many."""
        if not 0 <= size <= _LONGEST_TEXT or not self.fill(size):
            raise DamagedError(_ENDS)
        self._held.seek(self._place)
        self._place += size
        return self._held.read(size)

    def long(self) -> int:
        """Return the next number."""
        found = 0
        for shift in range(0, 64, 7):
            (byte,) = self.take(1)
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
        raise DamagedError(_ENDS)

    def attempt(self, decode: Callable[[io.BytesIO], Any]) -> Any:
        """Return the next value; `_TOO_LARGE` where it does not fit into a window."""
        while True:
            self._held.seek(self._place)
            try:
                value = decode(self._held)
            except MemoryError:
                raise
            except Exception as wrong:  # fastavro raises whatever what is cut off or damaged leads it to
                if self._size - self._place >= WINDOW:
                    return _TOO_LARGE
                if self._ended:
                    raise DamagedError(_ENDS) from wrong
                self.fill(WINDOW)
            else:
                self._place = self._held.tell()
                return value


class Part(dict[str, Any]):
    """What a piece has of a record: fields that are missing may be in another piece."""

    def plain_values(self) -> dict[str, Any]:
        """Return its texts and numbers."""
        return {key: value for key, value in self.items() if not isinstance(value, dict | list)}


class _Cutter:
    """Decodes one record. `open` are the maps and lists, from the outermost on, that are not complete yet."""

    def __init__(self, window: _Window, plain: Any) -> None:
        self._window = window
        self._plain = plain
        self._named: dict[str, Any] = {}
        self._decoders: dict[int, Callable[[io.BytesIO], Any]] = {}
        self._open: list[Any] = []
        self._cut_at = window.position
        _collect(plain, self._named)

    def pieces(self) -> Iterator[Mapping[str, Any]]:
        found: list[Any] = []
        for _ in self._value(self._plain, found.append):
            yield found[0]
            self._cut()
        yield found[0]

    def _cut(self) -> None:
        """Keep of what is open nothing but that it is, and the texts and numbers of records."""
        kept = 0
        for outer, inner in pairwise([*self._open, None]):
            plain = outer.plain_values() if isinstance(outer, Part) else {}
            kept += sum(len(str(value)) for value in plain.values())
            last = outer.popitem() if isinstance(outer, dict) and inner is not None else None
            outer.clear()
            if isinstance(outer, dict):
                outer.update(plain)
                outer.update(() if last is None else (last,))
            elif inner is not None:
                outer.append(inner)
        if kept > _MOST_KEPT:
            raise DamagedError("its Avro content has too much beside what it lists")
        self._cut_at = self._window.position

    def _value(self, plain: Any, put: Callable[[Any], object]) -> Iterator[None]:
        value = self._window.attempt(self._decoder(plain))
        if value is _TOO_LARGE:
            yield from self._into(plain, put)
        else:
            put(value)
        if self._open and self._window.position - self._cut_at >= WINDOW:
            yield

    def _into(self, plain: Any, put: Callable[[Any], object]) -> Iterator[None]:
        """Go into a value that is too large for the window."""
        match plain:
            case list():
                place = self._window.long()
                if not 0 <= place < len(plain):
                    raise DamagedError(_ENDS)
                yield from self._into(plain[place], put)
            case "string":
                put(self._window.take(self._window.long()).decode("utf-8", "replace"))
            case str() if plain in self._named:
                yield from self._into(self._named[plain], put)
            case {"type": "record"} if (whole := self._item(plain)) is not _TOO_LARGE:
                put(whole)
            case {"type": "record"}:
                yield from self._within(Part(), put, partial(self._fields, plain["fields"]))
            case {"type": "map"}:
                yield from self._within({}, put, partial(self._entries, plain["values"]))
            case {"type": "array"}:
                yield from self._within([], put, partial(self._items, plain["items"]))
            case _:
                raise DamagedError(_ENDS)

    def _item(self, plain: Any) -> Any:
        """Return a record within the record, if it can be weighed and is light enough; else `_TOO_LARGE`."""
        if not self._open:
            return _TOO_LARGE
        weigh = parsed_schema(json.dumps(self._alone(plain)).encode()).type.weigh
        return self._window.weighed(self._decoder(plain), weigh)

    def _within(
        self, fresh: Any, put: Callable[[Any], object], fill: Callable[[Any], Iterator[None]]
    ) -> Iterator[None]:
        put(fresh)
        self._open.append(fresh)
        yield from fill(fresh)
        self._open.pop()

    def _fields(self, fields: Any, fresh: dict[str, Any]) -> Iterator[None]:
        for one in fields:
            yield from self._value(one["type"], partial(fresh.__setitem__, one["name"]))

    def _entries(self, values: Any, fresh: dict[str, Any]) -> Iterator[None]:
        for _ in self._counted():
            key = self._window.take(self._window.long()).decode("utf-8", "replace")
            yield from self._value(values, partial(fresh.__setitem__, key))

    def _items(self, items: Any, fresh: list[Any]) -> Iterator[None]:
        for _ in self._counted():
            yield from self._value(items, fresh.append)

    def _counted(self) -> Iterator[None]:
        while number := self._window.long():
            if number < 0:
                number = -number
                self._window.long()
            for _ in range(number):
                yield

    def _decoder(self, plain: Any) -> Callable[[io.BytesIO], Any]:
        """Return what decodes one value of a type of this schema."""
        known = self._decoders.get(id(plain))
        if known is None:
            one = {"name": "one", "type": self._alone(plain)}
            schema = fastavro.parse_schema({"type": "record", "name": "lakewarden.one", "fields": [one]})
            known = self._decoders[id(plain)] = partial(_decoded, schema)
        return known

    def _alone(self, plain: Any) -> Any:
        """Return a type with what it names in the place where it does so first."""
        defined: set[str] = set()

        def expanded(one: Any) -> Any:
            match one:
                case list():
                    return [expanded(branch) for branch in one]
                case str() if one in self._named and one not in defined:
                    return expanded(self._named[one])
                case {"name": str(name)} if name in defined:
                    return name
                case {"type": "record", "name": name, "fields": fields}:
                    defined.add(name)
                    inside = [{"name": f["name"], "type": expanded(f["type"])} for f in fields]
                    return {"type": "record", "name": name, "fields": inside}
                case {"type": "map", "values": values}:
                    return {"type": "map", "values": expanded(values)}
                case {"type": "array", "items": items}:
                    return {"type": "array", "items": expanded(items)}
                case {"name": str(name)}:
                    defined.add(name)
            return one

        return expanded(plain)


def _decoded(schema: Any, content: io.BytesIO) -> Any:
    record: Any = fastavro.schemaless_reader(content, schema)
    return record["one"]


def _collect(plain: Any, named: dict[str, Any]) -> None:
    """Note every type that has a name."""
    match plain:
        case list():
            for branch in plain:
                _collect(branch, named)
        case {"type": "record", "name": name, "fields": fields}:
            named[name] = plain
            for one in fields:
                _collect(one["type"], named)
        case {"type": "map", "values": inner} | {"type": "array", "items": inner}:
            _collect(inner, named)
        case {"name": str(name)}:
            named[name] = plain
