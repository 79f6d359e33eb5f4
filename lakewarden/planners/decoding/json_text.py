"""JSON from outside: what is in it is counted before it is decoded."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from lakewarden.planners.decoding.damage import DamagedError

_ALWAYS = 1_000_000
_MOST = 8_000_000
_BYTES_FOR_A_VALUE = 12
"""In metadata a value has a key, and takes some twenty bytes; `[[],[],[]...` would take sixty bytes of memory for
three."""

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def from_json(content: bytes) -> Any:
    """Return what a JSON text in UTF-8 holds: objects and arrays, finite numbers, and texts that can be encoded again.

    Integers may be of any size. Raises DamagedError, also for what is nested too deeply or has too many values.
    """
    require_few(content.count(b",") + content.count(b"[") + content.count(b"{"), size=len(content))
    try:
        found = _DECODER.decode(content.decode("utf-8-sig"))
        if _SURROGATE.search(content) is not None:
            json.dumps(found, ensure_ascii=False).encode()  # raises where one of a pair stands alone
    except UnicodeEncodeError as wrong:
        raise DamagedError("its JSON has a text with half a pair of surrogates, which stands for no sign") from wrong
    except RecursionError as wrong:
        raise DamagedError("its JSON is nested too deeply") from wrong
    except ValueError as wrong:
        raise DamagedError("its content is half-written or damaged") from wrong
    return found


def require_few(values: int, *, size: int) -> None:
    """Raise DamagedError where a text of so many bytes has more values than is sound."""
    if values > _ALWAYS and values > min(_MOST, _ALWAYS + size // _BYTES_FOR_A_VALUE):
        raise DamagedError(f"its JSON has some {values} values in {size} bytes, which is too many")


def refused(constant: str) -> NoReturn:
    """Raise ValueError for what Python's decoder takes, and JSON has not: `NaN` and `Infinity`."""
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=refused)
