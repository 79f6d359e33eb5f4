"""Avro records from outside that are too large for memory. They are decoded in pieces.

A value that fits into a window of the content is decoded at once, by fastavro. A larger value is decoded field by field
and item by item. So the memory depends neither on the size of the file nor on what it claims to hold.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

from lakewarden.planners.decoding import window
from lakewarden.planners.decoding.avro import opened
from lakewarden.planners.decoding.avro_schema import parsed_schema
from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.window import ENDS, TOO_LARGE, FileWindow, ReadPart

_HEADER = 2 * 2**20
_MOST_KEPT = 32 * 2**20
_SYNC = 16


def avro_chunks(read: ReadPart) -> Iterator[Mapping[str, Any]]:
    """Yield the only record of a container in pieces. Each piece has the fields, and the items of maps and arrays, that
    come after those of the piece before it. A map or an array that continues is in both pieces. A record that continues
    is also in both, with its texts and numbers. Only items of more than ITEM bytes are cut.

    A piece has the content of a window or of one item. It is cleared when the next one is requested. Raises
    DamagedError, also if there are more records, or none, or if the record is compressed.
    """
    window = FileWindow(read)
    window.fill(_HEADER)
    container = opened(window.held)
    if container.codec != "null":
        raise DamagedError(f"it is large, and its Avro codec is {container.codec[:40]!r}: no known client writes that")
    window.move_to(container.begin)
    records, size = window.long(), window.long()
    if records != 1 or size < 0:
        raise DamagedError(ENDS)
    end = window.position + size
    yield from _Cutter(window, container.schema.type.plain).chunks()
    if window.position != end or window.take(_SYNC) != container.sync or window.fill(1):
        raise DamagedError(ENDS)


class Part(dict[str, Any]):
    """The part of a record in one piece. Fields that are missing may be in another piece."""

    def plain_values(self) -> dict[str, Any]:
        """Return its texts and numbers."""
        return {key: value for key, value in self.items() if not isinstance(value, dict | list)}


class _Cutter:
    """Decodes one record. `open` are the maps and lists that are not complete yet, beginning with the outermost."""

    def __init__(self, window: FileWindow, plain: Any) -> None:
        self._window = window
        self._plain = plain
        self._named: dict[str, Any] = {}
        self._decoders: dict[int, Callable[[io.BytesIO], Any]] = {}
        self._open: list[Any] = []
        self._cut_at = window.position
        _collect(plain, self._named)

    def chunks(self) -> Iterator[Mapping[str, Any]]:
        records: list[Any] = []
        for _ in self._value(self._plain, records.append):
            yield records[0]
            self._cut()
        yield records[0]

    def _cut(self) -> None:
        """Clear the open values. Keep only that they are open, and the texts and numbers of records."""
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
        if value is TOO_LARGE:
            yield from self._into(plain, put)
        else:
            put(value)
        if self._open and self._window.position - self._cut_at >= window.WINDOW:
            yield

    def _into(self, plain: Any, put: Callable[[Any], object]) -> Iterator[None]:
        """Decode a value in parts, because it is too large for the window."""
        match plain:
            case list():
                place = self._window.long()
                if not 0 <= place < len(plain):
                    raise DamagedError(ENDS)
                yield from self._into(plain[place], put)
            case "string":
                put(self._window.take(self._window.long()).decode("utf-8", "replace"))
            case str() if plain in self._named:
                yield from self._into(self._named[plain], put)
            case {"type": "record"} if (whole := self._item(plain)) is not TOO_LARGE:
                put(whole)
            case {"type": "record"}:
                yield from self._within(Part(), put, partial(self._fields, plain["fields"]))
            case {"type": "map"}:
                yield from self._within({}, put, partial(self._entries, plain["values"]))
            case {"type": "array"}:
                yield from self._within([], put, partial(self._items, plain["items"]))
            case _:
                raise DamagedError(ENDS)

    def _item(self, plain: Any) -> Any:
        """Return a record within the record if it can be weighed and is light enough. Else return `TOO_LARGE`."""
        if not self._open:
            return TOO_LARGE
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
        for field in fields:
            yield from self._value(field["type"], partial(fresh.__setitem__, field["name"]))

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
        """Return a decoder for one value of a type of this schema."""
        decoder = self._decoders.get(id(plain))
        if decoder is None:
            import fastavro  # noqa: PLC0415 - the command line without the server does not have it

            field = {"name": "one", "type": self._alone(plain)}
            schema = fastavro.parse_schema({"type": "record", "name": "lakewarden.one", "fields": [field]})
            decoder = self._decoders[id(plain)] = partial(_decoded, fastavro.schemaless_reader, schema)
        return decoder

    def _alone(self, plain: Any) -> Any:
        """Return a type with the definition of each named type inserted at its first use."""
        defined: set[str] = set()

        def expanded(schema: Any) -> Any:
            match schema:
                case list():
                    return [expanded(branch) for branch in schema]
                case str() if schema in self._named and schema not in defined:
                    return expanded(self._named[schema])
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
            return schema

        return expanded(plain)


def _decoded(read: Callable[[io.BytesIO, Any], Any], schema: Any, content: io.BytesIO) -> Any:
    return read(content, schema)["one"]


def _collect(plain: Any, named: dict[str, Any]) -> None:
    """Note every type that has a name."""
    match plain:
        case list():
            for branch in plain:
                _collect(branch, named)
        case {"type": "record", "name": name, "fields": fields}:
            named[name] = plain
            for field in fields:
                _collect(field["type"], named)
        case {"type": "map", "values": inner} | {"type": "array", "items": inner}:
            _collect(inner, named)
        case {"name": str(name)}:
            named[name] = plain
