"""How the threads of the daemon share Python's interpreter."""

from __future__ import annotations

import gc
import sys

_SWITCH_SECONDS = 0.001
"""How long a computing thread keeps the interpreter. Each step of a hook waits for so long beside a large answer."""

_OBJECTS_BETWEEN_SEARCHES = 50_000
"""How many new objects lead to a search for garbage. Python's 700 make the first decisions on ten thousand tables a
sixth slower, and each tenth search of a tenth search stops every thread for almost a second.
"""


def favour_hooks() -> None:
    """Let no long computation and no search for garbage delay a hook. The objects that are there now stay."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.collect()
    gc.freeze()  # such a search would take a tenth of a second
    gc.set_threshold(_OBJECTS_BETWEEN_SEARCHES)
