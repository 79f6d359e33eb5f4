"""What is wrong with a configuration as a whole: settings and facts in, problems out. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from lakewarden.planners.model.table import Mode, Table
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.settings import shown
from lakewarden.planners.storage.locations import is_in_catalog, named_in_catalog
from lakewarden.planners.storage.settings import Secret
from lakewarden.service.config.assembly import Catalog, Discover
from lakewarden.service.config.facts import Facts
from lakewarden.service.config.problems import KeyPath, Problem, Weight
from lakewarden.service.config.settings import Configuration


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """All that is judged. `addresses`: where each table is looked for, by its number in `settings.tables`."""

    settings: Configuration
    written: Mapping[str, Any]
    tables: Sequence[Table]
    catalogs: Mapping[str, Catalog]
    discover: Sequence[Discover]
    addresses: Mapping[int, str]
    facts: Facts


def judged(subject: Subject) -> Iterator[Problem]:
    """Yield every problem, errors and warnings."""
    yield from _ports(subject)
    yield from _unknown_formats(subject.settings)
    yield from _shared_places(subject)
    yield from _nobody_to_serve(subject)
    yield from _idle(subject)
    yield from _missing_tables(subject)
    yield from _missing_secrets(subject)
    yield from _unused(subject)


def unusable_data_dir(facts: Facts, folder: Path, tables: Sequence[Table]) -> Iterator[Problem]:
    """Yield why the daemon cannot work in its data folder."""
    reason = facts.data_dirs.get(folder, f"{folder} does not answer")
    around = next((table for table in tables if _lies_in(str(folder), table.location)), None)
    if reason is None and around is not None:
        reason = f"it lies inside of the table {around.id}, whose services delete what is not the table's"
    if reason is not None:
        yield Problem(at=("daemon", "data_dir"), sentence=f"cannot be used: {reason}")


def _lies_in(place: str, folder: str) -> bool:
    return place == folder or place.startswith(f"{folder}/")


def secrets_of(settings: Configuration, catalogs: Mapping[str, Catalog]) -> Mapping[KeyPath, Secret]:
    """Return every secret that is referred to, by its key."""
    found = dict(_secrets(settings, ()))
    for name, catalog in catalogs.items():
        found |= dict(_secrets(catalog.settings, ("catalogs", name)))
    return found


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
        said = f"{api.port} is the {there}.port too: probes need a port of their own"
        yield Problem(at=(here, "port"), sentence=said)


def _unknown_formats(settings: Configuration) -> Iterator[Problem]:
    for name, profile in settings.spark.items():
        for number, word in enumerate(profile.formats):
            if word not in FORMATS:
                said = f"{shown(word)} is no format: it is one of {', '.join(FORMATS)}"
                yield Problem(at=("spark", name, "formats", number), sentence=said)


def _shared_places(subject: Subject) -> Iterator[Problem]:
    """Yield tables that are registered twice, and tables that lie in the folder of another one."""
    taken: dict[str, int] = {}
    for number, address in subject.addresses.items():
        place = subject.facts.places.get(address)
        where = place.location if place is not None and place.location is not None else address
        if where in taken:
            said = f"the table at {where} is registered at tables[{taken[where]}].path already"
            yield Problem(at=("tables", number, "path"), sentence=said)
        taken.setdefault(where, number)
    for where, number in taken.items():
        outer = next((taken[above] for above in _above(where) if above in taken), None)
        if outer is not None:
            said = (
                f"{where} lies inside of the table at tables[{outer}].path: what is cleaned up there could be taken "
                "from here. Move one of the two, or remove its entry"
            )
            yield Problem(at=("tables", number, "path"), sentence=said)


def _above(where: str) -> Iterator[str]:
    """Yield the folders above a place, the nearest first."""
    above = posixpath.dirname(where)
    while above not in ("", where) and not above.endswith(":/"):
        yield above
        where, above = above, posixpath.dirname(above)


def _nobody_to_serve(subject: Subject) -> Iterator[Problem]:
    if not subject.settings.tables and not subject.settings.discover:
        said = "there are none, and nothing under discover: nothing is looked after"
        yield _warning(("tables",), said)


def _idle(subject: Subject) -> Iterator[Problem]:
    defaults = subject.settings.defaults
    cares = [(("tables", number), table) for number, table in enumerate(subject.settings.tables)]
    cares += [(("discover", number), entry) for number, entry in enumerate(subject.settings.discover)]  # type: ignore[misc]
    for at, care in cares:
        mode = care.mode or defaults.mode
        if mode is not Mode.OBSERVE and not care.services:
            yield _warning((*at, "services"), f"there are none: mode is {mode}, and nothing will ever run")


def _missing_tables(subject: Subject) -> Iterator[Problem]:
    for number, table in enumerate(subject.settings.tables):
        place = subject.facts.places.get(table.path)
        if place is not None and place.is_there is False:
            yield _warning(("tables", number, "path"), f"there is nothing at {place.location} yet")


def _missing_secrets(subject: Subject) -> Iterator[Problem]:
    for at, secret in secrets_of(subject.settings, subject.catalogs).items():
        reason = subject.facts.secrets.get(secret, "a secret is missing: its file does not answer")
        if reason is not None:
            yield _warning(at, f"{reason}; what needs it is in trouble until it is there")


def _unused(subject: Subject) -> Iterator[Problem]:
    """Yield profiles, catalogs and stores that are written down for no table."""
    tables = [*subject.tables, *(entry.any_table for entry in subject.discover)]
    if not tables:
        return
    cataloged = [named_in_catalog(table.location)[0] for table in tables if is_in_catalog(table.location)]
    for name in subject.settings.spark if "spark" in subject.written else ():
        if not any(name == table.spark or name in table.profiles() for table in tables):
            yield _warning(("spark", name), "no table is served by this profile")
    for name in subject.catalogs:
        if name not in cataloged:
            yield _warning(("catalogs", name), "no table is of this catalog")
    for number, store in enumerate(subject.settings.storage):
        if not cataloged and not any(store.covers(table.location) for table in tables):
            yield _warning(("storage", number, "prefix"), f"no table lies below {store.prefix}")


def _warning(at: KeyPath, sentence: str) -> Problem:
    return Problem(at=at, sentence=sentence, weight=Weight.WARNING)
