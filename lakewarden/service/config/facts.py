"""Facts outside of the configuration. They are read once, in one place, and with a limit on the wait."""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from lakewarden.planners.finding import format_at, signs
from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.storage import Storages, canonical_location
from lakewarden.planners.storage.locations import is_local, spelled_location
from lakewarden.planners.storage.settings import Secret, StoreSettings

LONGEST = timedelta(seconds=5)
"""How long to wait for the next answer of one kind. A file system that is gone may never answer. A slow one does."""

AT_ONCE = 256
"""How many questions are open at a time. One that hangs delays no other."""

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundLocation:
    """The location of an address, or why there is none. `is_there` is None if it was not checked: on object stores."""

    location: str | None = None
    wrong: str = ""
    is_there: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """The facts. An answer that did not come in time is missing. A reason says what is wrong. None means that it is
    right.
    """

    places: Mapping[str, FoundLocation] = field(default_factory=dict)
    """By the address as it is written."""
    secrets: Mapping[Secret, str | None] = field(default_factory=dict)
    """Why a secret cannot be read."""
    data_dirs: Mapping[Path, str | None] = field(default_factory=dict)
    """Why a data folder cannot be used."""
    formats: Mapping[str, str] = field(default_factory=dict)
    """The formats of tables by their addresses, as their files tell them."""


def gather(
    *,
    addresses: Collection[str] = (),
    secrets: Collection[Secret] = (),
    data_dirs: Collection[Path] = (),
    untold: Collection[str] = (),
    stores: Sequence[StoreSettings] = (),
    within: timedelta = LONGEST,
) -> Facts:
    """Return the facts about all of these, as far as there are answers.

    The formats of the addresses in `untold` are read from their files. `stores` says how they are reached.

    For each kind it stops waiting if no further answer comes `within` this time.
    """
    return Facts(
        places=answered(place_of, addresses, within=within),
        secrets=answered(_missing, secrets, within=within),
        data_dirs=answered(_unusable, data_dirs, within=within),
        formats={
            address: name
            for address, name in answered(partial(_format_of, Storages(stores)), untold, within=within).items()
            if name is not None
        },
    )


def answered(ask: Callable[[_K], _V], keys: Collection[_K], *, within: timedelta) -> dict[_K, _V]:
    """Return the answers that come until none comes `within` this time.

    A question that hangs keeps its thread, which ends with the process.
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


def place_of(address: str, *, follow_links: bool = True) -> FoundLocation:
    """Return the location of an address, with its links followed, and whether it exists."""
    try:
        location = canonical_location(address) if follow_links else spelled_location(address)
    except PermanentError as wrong:
        return FoundLocation(wrong=str(wrong))
    looked = follow_links and is_local(location)
    return FoundLocation(location=location, is_there=os.path.lexists(location) if looked else None)


def _format_of(storages: Storages, address: str) -> str | None:
    try:
        location = canonical_location(address)
        return format_at(location, storages.of(location), signs())
    except LakewardenError:
        return None


def _missing(secret: Secret) -> str | None:
    try:
        secret.value()
    except PermanentError as missing:
        return str(missing)
    return None


def _unusable(folder: Path) -> str | None:
    """Return why a data folder cannot be created or written to. It changes nothing."""
    there = folder
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if not there.is_dir():
        return f"{there} is no folder"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"{there} cannot be written to by this user"
    return None
