"""What is true outside of the configuration: asked once, at one edge, and never waited for without an end."""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage import canonical_location
from lakewarden.planners.storage.locations import is_local, spelled_location
from lakewarden.planners.storage.settings import Secret

LONGEST = timedelta(seconds=5)
"""So long is waited for the next answer of one kind: a file system that is gone may never give one, a slow one does."""

AT_ONCE = 256
"""So many questions are open at a time; one that hangs holds up no other."""

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where an address leads, or why it leads nowhere. `is_there` is None where nobody looked: on object stores."""

    location: str | None = None
    wrong: str = ""
    is_there: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What was found. What did not answer in time is not in it. A reason says what is wrong; None: nothing is."""

    places: Mapping[str, Place] = field(default_factory=dict)
    """By address, as it is written."""
    secrets: Mapping[Secret, str | None] = field(default_factory=dict)
    """Why a secret cannot be read."""
    data_dirs: Mapping[Path, str | None] = field(default_factory=dict)
    """Why a data folder cannot be used."""


def gather(
    *,
    addresses: Collection[str] = (),
    secrets: Collection[Secret] = (),
    data_dirs: Collection[Path] = (),
    within: timedelta = LONGEST,
) -> Facts:
    """Return what is true of all of them, as far as it is told: the questions of a kind end when no answer comes for
    `within`.
    """
    return Facts(
        places=answered(place_of, addresses, within=within),
        secrets=answered(_missing, secrets, within=within),
        data_dirs=answered(_unusable, data_dirs, within=within),
    )


def answered(ask: Callable[[_K], _V], keys: Collection[_K], *, within: timedelta) -> dict[_K, _V]:
    """Return the answers that are given until none comes `within` a time. A question that hangs is left to its thread,
    which ends with the process.
    """
    found, told = dict[_K, _V](), queue.SimpleQueue[tuple[_K, list[_V]]]()
    waiting, open_questions = iter(keys), 0

    def answer(key: _K) -> None:
        said: list[_V] = []
        try:
            said.append(ask(key))
        finally:
            told.put((key, said))

    while True:
        for key in itertools.islice(waiting, AT_ONCE - open_questions):
            threading.Thread(target=answer, args=(key,), name="facts", daemon=True).start()
            open_questions += 1
        if not open_questions:
            return found
        try:
            key, said = told.get(timeout=within.total_seconds())
        except queue.Empty:
            return found
        open_questions -= 1
        for one in said:
            found[key] = one


def place_of(address: str, *, follow_links: bool = True) -> Place:
    """Return where an address leads, by its links and by whether anything is there."""
    try:
        location = canonical_location(address) if follow_links else spelled_location(address)
    except PermanentError as wrong:
        return Place(wrong=str(wrong))
    looked = follow_links and is_local(location)
    return Place(location=location, is_there=os.path.lexists(location) if looked else None)


def _missing(secret: Secret) -> str | None:
    try:
        secret.value()
    except PermanentError as missing:
        return str(missing)
    return None


def _unusable(folder: Path) -> str | None:
    """Return why a data folder cannot be made or written to, changing nothing."""
    there = folder
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if not there.is_dir():
        return f"{there} is no folder"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"{there} cannot be written to by this user"
    return None
