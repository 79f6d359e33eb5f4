"""JSON from outside. Its values are counted before it is decoded."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from lakewarden.planners.decoding.damage import DamagedError

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
        found = _DECODER.decode(content.decode("utf-8-sig"))
        if _SURROGATE.search(content) is not None:
            json.dumps(found, ensure_ascii=False).encode()  # raises if half of a surrogate pair stands alone
    except UnicodeEncodeError as wrong:
        raise DamagedError("its JSON has a text with half a pair of surrogates, which stands for no sign") from wrong
    except RecursionError as wrong:
        raise DamagedError("its JSON is nested too deeply") from wrong
    except ValueError as wrong:
        raise DamagedError("its content is half-written or damaged") from wrong
    return found


def require_few(values: int, *, size: int) -> None:
    """Raise DamagedError if a text of so many bytes has more values than a sound file."""
    if values > _ALWAYS and values > min(_MOST, _ALWAYS + size // _BYTES_FOR_A_VALUE):
        raise DamagedError(f"its JSON has some {values} values in {size} bytes, which is too many")


def refused(constant: str) -> NoReturn:
    """Raise ValueError for constants that Python's decoder accepts and JSON does not have: `NaN` and `Infinity`."""
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=refused)
