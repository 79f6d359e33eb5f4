"""The tests may run as root. Here it obeys the rights of files, as other users do."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

_VERSION_3 = 0x20080522
_OVERRIDES = 0b1110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER; source: capabilities(7)


@contextlib.contextmanager
def mere_user() -> Iterator[None]:
    """Take the right to override from this thread, and give it back."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, held = (ctypes.c_uint32 * 2)(_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    if libc.capget(header, held) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    effective = held[0]
    held[0] = effective & ~_OVERRIDES
    libc.capset(header, held)
    try:
        yield
    finally:
        held[0] = effective
        libc.capset(header, held)
