"""The problems of a configuration as a whole: settings and facts in, problems out. Pure."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import traceback
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from lakewarden.executors.profile import FAILURES, INTERVAL, counted_deadline
from lakewarden.planners.finding_tables import format_at, signs, why_not
from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.model.table import Mode, Table
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.settings import format_duration, shown
from lakewarden.planners.storage import Storages, canonical_location
from lakewarden.planners.storage.locations import (
    by_place,
    folders_above,
    is_in_catalog,
    is_local,
    named_in_catalog,
    outside,
    spelled_location,
)
from lakewarden.planners.storage.settings import Secret, StoreSettings
from lakewarden.service.config.access import Authentication
from lakewarden.service.config.layers.patterns import ConfiguredCatalog, Discover
from lakewarden.service.config.problems import KeyPath, Problem, Weight
from lakewarden.service.config.settings import Configuration
from lakewarden.service.model.access import is_loopback

# Facts outside of the configuration. They are read once, in one place, and with a limit on the wait.

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
    contradicted: Mapping[str, str] = field(default_factory=dict)
    """Why tables cannot be opened by the format that is named for them, by their addresses."""


def gather(
    *,
    addresses: Collection[str] = (),
    secrets: Collection[Secret] = (),
    data_dirs: Collection[Path] = (),
    untold: Collection[str] = (),
    told: Mapping[str, str] = {},
    stores: Sequence[StoreSettings] = (),
    within: timedelta = LONGEST,
) -> Facts:
    """Return the facts about all of these, as far as there are answers.

    The formats of the addresses in `untold` are read from their files, and those in `told` are compared with them.
    `stores` says how they are reached.

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
        contradicted={
            address: why
            for address, why in answered(partial(_why_not, told), told, within=within).items()
            if why is not None
        },
    )


def answered(ask: Callable[[_K], _V], keys: Collection[_K], *, within: timedelta) -> dict[_K, _V]:
    """Return the answers that come until none comes `within` this time.

    A question that hangs keeps its thread, which ends with the process.
    """
    questions, answer_queue = queue.SimpleQueue[_K](), queue.SimpleQueue[tuple[_K, list[_V]]]()
    for key in keys:
        questions.put(key)

    def answer() -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                key = questions.get_nowait()
                reply: list[_V] = []
                try:
                    reply.append(ask(key))
                except Exception:  # noqa: BLE001 - the other questions have answers
                    traceback.print_exc()
                answer_queue.put((key, reply))

    for _ in range(min(AT_ONCE, len(keys))):
        threading.Thread(target=answer, name="facts", daemon=True).start()
    answers = dict[_K, _V]()
    with contextlib.suppress(queue.Empty):
        for _ in keys:
            key, reply = answer_queue.get(timeout=within.total_seconds())
            answers.update((key, fact) for fact in reply)
    return answers


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


def _why_not(told: Mapping[str, str], address: str) -> str | None:
    try:
        location = canonical_location(address)
        return why_not(told[address], location, Storages().of(location))
    except (LakewardenError, OSError):
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
        return f"{there} is not a folder"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"{there} cannot be written to by this user"
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """Everything that is judged. `addresses` has the address of each table, by its number in `settings.tables`."""

    settings: Configuration
    formats: Mapping[str, TableFormat]
    written: Mapping[str, Any]
    tables: Sequence[Table]
    catalogs: Mapping[str, ConfiguredCatalog]
    discover: Sequence[Discover]
    addresses: Mapping[int, str]
    facts: Facts


def judged(subject: Subject) -> Iterator[Problem]:
    """Yield every problem, errors and warnings."""
    yield from _ports(subject)
    yield from _open_ports(subject)
    yield from _keys_without_use(subject)
    yield from _unknown_formats(subject)
    yield from _outside_of_roots(subject)
    yield from _late_executors(subject)
    yield from _local_tables_elsewhere(subject)
    yield from _shared_places(subject)
    yield from _nothing_to_serve(subject)
    yield from _missing_tables(subject)
    yield from _missing_secrets(subject)
    yield from _unused(subject)


def unusable_data_dir(facts: Facts, folder: Path, tables: Sequence[Table]) -> Iterator[Problem]:
    """Yield why the daemon cannot work in its data folder."""
    reason = facts.data_dirs.get(folder, f"{folder} does not answer")
    around = next((table for table in tables if _lies_in(str(folder), table.location)), None)
    if reason is None and around is not None:
        reason = f"it lies inside the table {around.id}, and its services delete files that do not belong to the table"
    if reason is not None:
        yield Problem(at=("daemon", "data_dir"), sentence=f"cannot be used: {reason}")


def _lies_in(place: str, folder: str) -> bool:
    return place == folder or place.startswith(f"{folder}/")


def roots_of(settings: Configuration, facts: Facts) -> tuple[str, ...]:
    """Return the canonical locations of the roots that have one."""
    places = (facts.places.get(root) or place_of(root, follow_links=False) for root in settings.roots)
    return tuple(place.location for place in places if place.location is not None)


def _outside_of_roots(subject: Subject) -> Iterator[Problem]:
    settings, facts = subject.settings, subject.facts
    for number, root in enumerate(settings.roots):
        place = facts.places.get(root) or place_of(root, follow_links=False)
        wrong = place.wrong if place.location is None else _NO_ROOT if is_in_catalog(place.location) else ""
        if wrong:
            yield Problem(at=("roots", number), sentence=wrong)
    roots = roots_of(settings, facts)
    for number, table in enumerate(settings.tables):
        path = table.path or ""
        place = facts.places.get(path) or place_of(path, follow_links=False)
        reason = None if place.location is None or not settings.roots else outside(place.location, roots)
        if reason is not None:
            yield Problem(at=("tables", number, "path"), sentence=reason)


_NO_ROOT = "is a name in a catalog: write the place where its tables lie"


def secrets_of(settings: Configuration, catalogs: Mapping[str, ConfiguredCatalog]) -> Mapping[KeyPath, Secret]:
    """Return every secret in the settings, by its key."""
    secrets = dict(_secrets(settings, ()))
    for name, catalog in catalogs.items():
        secrets |= dict(_secrets(catalog.settings, ("catalogs", name)))
    return secrets


def _secrets(value: Any, at: KeyPath) -> Iterator[tuple[KeyPath, Secret]]:
    if isinstance(value, Secret):
        yield at, value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _secrets(getattr(value, name), (*at, name))
    elif isinstance(value, tuple):
        for number, entry in enumerate(value):
            yield from _secrets(entry, (*at, number))


def _ports(subject: Subject) -> Iterator[Problem]:
    api, management = subject.settings.api, subject.settings.management
    if api.port == management.port:
        here, there = ("management", "api") if "management" in subject.written else ("api", "management")
        sentence = f"{api.port} is the {there}.port too: probes need a port of their own"
        yield Problem(at=(here, "port"), sentence=sentence)


def _open_ports(subject: Subject) -> Iterator[Problem]:
    """Yield the ports that clients of other machines reach without a key."""
    settings = subject.settings
    if settings.access.authentication is not Authentication.NONE:
        return
    hosts = {"api": settings.api.host, "management": settings.management.host}
    for group, host in hosts.items():
        if not is_loopback(host):
            sentence = (
                f"{shown(host)} is not a loopback address, and every client that reaches it may pause tables: set "
                "access.authentication: keys and make a key with 'lakewarden keys create', or listen on 127.0.0.1"
            )
            yield Problem(at=(group, "host"), sentence=sentence)


def _keys_without_use(subject: Subject) -> Iterator[Problem]:
    access = subject.settings.access
    if access.authentication is Authentication.NONE:
        for name in ("keys", "issuers"):
            if getattr(access, name):
                yield _warning(("access", name), "access.authentication is none: no key is required")


def _unknown_formats(subject: Subject) -> Iterator[Problem]:
    for name, profile in subject.settings.spark.items():
        for number, word in enumerate(profile.formats):
            if word not in subject.formats:
                sentence = f"{shown(word)} is not a format: use one of {', '.join(subject.formats)}"
                yield Problem(at=("spark", name, "formats", number), sentence=sentence)


def _late_executors(subject: Subject) -> Iterator[Problem]:
    """Yield profiles with executors elsewhere that count heartbeats for longer than a lease."""
    lease = subject.settings.daemon.lease
    for name, profile in subject.settings.spark.items():
        if profile.has_remote_executors and (counted := counted_deadline(profile.conf)) > lease:
            sentence = (
                f"its executors go on for {format_duration(counted)} without an answer of their driver, longer than "
                f"daemon.lease: {format_duration(lease)}. Lower {INTERVAL} or {FAILURES}, or raise daemon.lease"
            )
            yield Problem(at=("spark", name, "conf"), sentence=sentence)


def _local_tables_elsewhere(subject: Subject) -> Iterator[Problem]:
    """Yield profiles with executors elsewhere that serve tables on local paths."""
    for name, profile in subject.settings.spark.items():
        served = (table for table in subject.tables if table.mode is Mode.ACT and name in table.profiles())
        local = next((table for table in served if table.location.startswith("/")), None)
        if profile.has_remote_executors and local is not None:
            sentence = (
                f"table {local.id} lies on a local path: each Spark worker must have the same folder at that place"
            )
            yield _warning(("spark", name, "master"), sentence)


def _shared_places(subject: Subject) -> Iterator[Problem]:
    """Yield tables that are registered twice, and tables in the folder of another table."""
    taken: dict[str, int] = {}
    for number, address in subject.addresses.items():
        place = subject.facts.places.get(address)
        where = by_place(place.location if place is not None and place.location is not None else address)
        if where in taken:
            sentence = f"the table at {where} is registered at tables[{taken[where]}].path already"
            yield Problem(at=("tables", number, "path"), sentence=sentence)
        taken.setdefault(where, number)
    for where, number in taken.items():
        outer = next((taken[above] for above in folders_above(where) if above in taken), None)
        if outer is not None:
            sentence = (
                f"{where} lies inside the table at tables[{outer}].path: the services of that table could delete files "
                "of this one. Move one of the two, or remove its entry"
            )
            yield Problem(at=("tables", number, "path"), sentence=sentence)


def _nothing_to_serve(subject: Subject) -> Iterator[Problem]:
    if not subject.settings.tables:
        sentence = "is empty: no table is served"
        yield _warning(("tables",), sentence)


def _missing_tables(subject: Subject) -> Iterator[Problem]:
    for number, table in enumerate(subject.settings.tables):
        place = None if table.path is None else subject.facts.places.get(table.path)
        if place is not None and place.is_there is False:
            yield _warning(("tables", number, "path"), f"there is nothing at {place.location} yet")
        if (why := subject.facts.contradicted.get(table.path or "")) is not None:
            yield _warning(("tables", number, "format"), f"{table.format}: {why}")


def _missing_secrets(subject: Subject) -> Iterator[Problem]:
    for at, secret in secrets_of(subject.settings, subject.catalogs).items():
        reason = subject.facts.secrets.get(secret, "a secret is missing: its file does not answer")
        if reason is not None:
            means = "its requests are refused" if at[0] == "access" else "the tables that need it fail"
            yield _warning(at, f"{reason}; {means} until it is there")


def _unused(subject: Subject) -> Iterator[Problem]:
    """Yield profiles, catalogs and stores that no table uses."""
    tables = [*subject.tables, *(entry.any_table for entry in subject.discover)]
    if not tables:
        return
    cataloged = [named_in_catalog(table.location)[0] for table in tables if is_in_catalog(table.location)]
    for name in subject.settings.spark if "spark" in subject.written else ():
        if not any(name == table.spark or name in table.profiles() for table in tables):
            yield _warning(("spark", name), "no table is served by this profile")
    used = {entry.policy for entry in subject.settings.tables}
    for name in subject.settings.policies:
        if name not in used:
            yield _warning(("policies", name), "no table and no pattern has this policy")
    for name in subject.catalogs:
        if name not in cataloged:
            yield _warning(("catalogs", name), "no table is of this catalog")
    for number, store in enumerate(subject.settings.storage):
        if not cataloged and not any(store.covers(table.location) for table in tables):
            yield _warning(("storage", number, "prefix"), f"no table lies below {store.prefix}")


def _warning(at: KeyPath, sentence: str) -> Problem:
    return Problem(at=at, sentence=sentence, weight=Weight.WARNING)
