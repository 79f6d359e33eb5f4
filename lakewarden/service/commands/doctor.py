"""`lakewarden doctor`: whether all is set up, with and without a daemon."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TextIO

from lakewarden.client import Client
from lakewarden.executors.worker import bundles
from lakewarden.executors.worker.java import java_home
from lakewarden.planners.model.errors import PermanentError, installing
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.proof import Proof, ProofResult, not_proved, proved, wrong
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.storage import Storages
from lakewarden.planners.storage.locations import by_place, is_in_catalog
from lakewarden.service.commands.printing import about_table, as_written
from lakewarden.service.config.layers.patterns import ConfiguredCatalog
from lakewarden.service.config.loading import Config, examine
from lakewarden.service.config.problems import Weight
from lakewarden.service.control.discovery import CatalogSource, sources_of
from lakewarden.service.rules.proof import proofs_of_view
from lakewarden.service.rules.registering import registered_twice
from lakewarden.service.store.file_systems import network_file_system
from lakewarden.service.store.opening import file_of
from lakewarden.service.store.settings import DatabaseSettings

# Checks of this machine, and of what the tables of a configuration need.

_SECONDS = 10.0
_AT_ONCE = 8
_APART_SECONDS = 5.0


def in_time(check: str, ask: Callable[[], Proof], *, seconds: float, remedy: str) -> Proof:
    """Return what a check finds. It is wrong if it has no answer in time, or raises an error that has a message."""
    answers: list[Proof] = []

    def answer() -> None:
        try:
            answers.append(ask())
        except Exception as error:  # noqa: BLE001 - the edge of a check: what a library raises is a finding
            answers.append(wrong(check, str(error) or type(error).__name__, remedy))

    thread = threading.Thread(target=answer, daemon=True, name=f"doctor {check}")  # a call that hangs ends with us
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else wrong(check, f"no answer within {seconds:g}s", remedy)


def at_once(checks: Sequence[Callable[[], Proof]]) -> list[Proof]:
    """Return what checks find, in their order. Several of them wait at the same time."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(lambda check: check(), checks))


def of_machine(config: Config) -> Sequence[Callable[[], Proof]]:
    """Return the checks. None of them changes anything."""
    settings = config.settings
    names = {name for table in config.tables for name in table.profiles()}
    profiles = [settings.spark[name] for name in sorted(names & settings.spark.keys())]
    formats = sorted({name for profile in profiles for name in profile.formats})
    remedies = {
        "store": "start the database, or correct the section database",
        "jvm": "install Java 17, or install Lakewarden again: it brings one",
        "jars": "start the daemon once where Maven Central answers, or copy the jars to this folder",
        "clock": "synchronize the clock with NTP (chrony, systemd-timesyncd)",
    }
    waiting: dict[str, Callable[[], Proof]] = {
        "store": partial(_store, settings.database, config.data_dir),
        "jvm": _jvm,
        "jars": partial(_jars, formats),
        "clock": partial(_clock, settings.database),
    }
    ports = {"api": settings.api, "management": settings.management}
    return [
        partial(_data_dir, config.data_dir),
        *(partial(in_time, name, ask, seconds=_SECONDS, remedy=remedies[name]) for name, ask in waiting.items()),
        partial(_zones, sorted({str(table.zone) for table in config.tables})),
        *(partial(_port, name, section.host, section.port) for name, section in ports.items()),
    ]


def _data_dir(folder: Path) -> Proof:
    place = next(place for place in (folder, *folder.parents) if place.exists())
    if not os.access(place, os.W_OK | os.X_OK) or not place.is_dir():
        return wrong("data_dir", f"{place} cannot be written", "let the user of the daemon write there")
    free = shutil.disk_usage(place).free
    made = "" if place == folder else ", and is made at the start"
    return proved("data_dir", f"{folder} can be written{made}; {free / 2**30:.1f} GiB are free")


def _store(database: DatabaseSettings, data_dir: Path) -> Proof:
    if database.url is not None:
        now, version = _ask_postgres(database)
        return proved("store", f"{database.url} answers: PostgreSQL {version}, {now:%H:%M:%S} UTC")
    if (kind := network_file_system(data_dir)) is not None:
        remedy = "use a local disk or a block volume, or set database.url"
        return wrong("store", f"{data_dir} is on a network file system ({kind})", remedy)
    file = file_of(data_dir)
    if not file.exists():
        return proved("store", f"{file} is made at the start")
    try:
        with sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=_SECONDS / 2) as store:
            (runs,) = store.execute("SELECT count(*) FROM runs").fetchone()
    except sqlite3.Error as error:
        return wrong("store", f"{file} cannot be read: {error}", "docs/operate.md says how a store is restored")
    return proved("store", f"{file} has {runs} runs")


def _ask_postgres(database: DatabaseSettings) -> tuple[datetime, str]:
    try:
        import psycopg  # noqa: PLC0415 - its driver is an extra
    except ImportError as missing:
        raise PermanentError(f"PostgreSQL's driver is missing: {installing('postgres')} ({missing})") from missing
    password = None if database.password is None else database.password.value()
    try:
        with psycopg.connect(database.url or "", password=password, connect_timeout=5) as connection:
            row = connection.execute("SELECT clock_timestamp(), current_setting('server_version')").fetchone()
    except psycopg.Error as error:
        raise PermanentError(f"{database.url}: {error}") from error
    if row is None:
        raise PermanentError(f"{database.url} does not say its time")
    return row[0].astimezone(UTC), row[1]


def _jvm() -> Proof:
    home = java_home()
    if not (home / "bin" / "java").exists():
        return wrong("jvm", f"{home} has no bin/java", "install Java 17, or install Lakewarden again: it brings one")
    return proved("jvm", str(home))


def _jars(formats: Sequence[str]) -> Proof:
    if not formats:
        return proved("jars", "no service needs Spark")
    jars = bundles.jars(formats)
    return proved("jars", f"{len(jars)} jars for {', '.join(formats)} are in the cache")


def _clock(database: DatabaseSettings) -> Proof:
    if database.url is not None:
        now, _ = _ask_postgres(database)
        apart = abs((datetime.now(UTC) - now).total_seconds())
        if apart > _APART_SECONDS:
            return wrong("clock", f"it is {apart:.1f}s from that of the database", "synchronize both with NTP")
        return proved("clock", f"it is {apart:.1f}s from that of the database")
    tool = shutil.which("timedatectl")
    if tool is None:
        return not_proved("clock", "nothing on this machine tells whether the clock is synchronized")
    command = [tool, "show", "--property=NTPSynchronized", "--value"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False).stdout.strip()
    if answer == "yes":
        return proved("clock", "it is synchronized with a time server")
    if answer == "no":
        return wrong("clock", "it is not synchronized with a time server", "install chrony or systemd-timesyncd")
    return not_proved("clock", "timedatectl does not answer here, as in many containers")


def _zones(zones: Sequence[str]) -> Proof:
    here = datetime.now().astimezone().tzname()
    named = ", ".join(zones) or "no table"
    return proved(
        "time zone", f"workers use {named}; this machine is in {here}. Each table tells whether its own is proved"
    )


def _port(name: str, host: str, port: int) -> Proof:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            check = f"port {name}"
            why = f"{host}:{port} cannot be used now ({error.strerror}), as if the daemon is running"
            return not_proved(check, why)
    return proved(f"port {name}", f"{host}:{port} is free")


_SECONDS_OF_THE_LAKE = 20.0
MOST_TABLES = 50
"""So many tables are read. The others are not checked."""


def of_lake(config: Config) -> Sequence[Callable[[], Proof]]:
    """Return the checks. They read, and write nothing."""
    storages = Storages(config.settings.storage, roots=config.roots)
    catalogs = [
        partial(
            _in_time, f"catalog {name}", partial(_catalog, catalog, storages), "check its address and its credentials"
        )
        for name, catalog in sorted(config.catalogs.items())
    ]
    all_tables = [*config.tables, *(pattern.any_table for pattern in config.discover)]
    locks = sorted({address for table in all_tables for address in _addresses(table)})
    unknown = sorted({lock for table in all_tables if (lock := _unknown_lock(table)) is not None})
    folders: dict[tuple[str, str], TableId] = {}
    tables = [
        partial(
            _in_time, f"table {table.id}", partial(_table, table, storages, folders), "'lakewarden explain' says more"
        )
        for table in config.tables[:MOST_TABLES]
    ]
    patterns = [
        partial(
            _in_time, f"pattern {source.name}", partial(_listed, source), "check the pattern, the store and its access"
        )
        for source in sources_of([entry for entry in config.discover if entry.by_path], storages)
    ]
    left = len(config.tables) - MOST_TABLES
    return [
        *catalogs,
        *patterns,
        *(partial(_lock, address) for address in locks),
        *(partial(not_proved, f"lock {lock}", "the daemon proves it while writers commit") for lock in unknown),
        *tables,
        *([partial(not_proved, f"{left} other tables", f"only {MOST_TABLES} tables are read")] if left > 0 else []),
    ]


def _in_time(check: str, ask: Callable[[str], Proof], remedy: str) -> Proof:
    return in_time(check, partial(ask, check), seconds=_SECONDS_OF_THE_LAKE, remedy=remedy)


def _catalog(catalog: ConfiguredCatalog, storages: Storages, check: str) -> Proof:
    named = f"catalog://{catalog.name}/"
    listing = catalog.format.tables_in(catalog.name, catalog.settings, storages.of(named))
    return proved(check, f"it answers, and lists {len(listing.tables)} tables")


def _listed(source: CatalogSource, check: str) -> Proof:
    listing = source.find()
    if listing.refused:
        name, why = next(iter(listing.refused.items()))
        return wrong(check, f"{len(listing.refused)} of its tables cannot be registered: {name}: {why}", "correct them")
    if listing.unlisted:
        name, why = next(iter(listing.unlisted.items()))
        return wrong(
            check, f"{len(listing.unlisted)} places cannot be listed: {name}: {why}", "check the access to them"
        )
    return proved(check, f"its folders are listed, and {len(listing.tables)} tables are there")


def _table(table: Table, storages: Storages, folders: MutableMapping[tuple[str, str], TableId], check: str) -> Proof:
    """Read a table, and note its folder. Checks run at the same time: the second table in a folder names the first."""
    begun, now = time.monotonic(), datetime.now(UTC)
    view = FORMATS[table.format].observe(table, storages.of(table.location), None, now=now).view
    first = folders.setdefault((table.format, by_place(view.folder or table.location)), table.id)
    if first != table.id:
        twice = registered_twice([first])
        return wrong(check, twice.reason, twice.remedy or "")
    took = f"read in {time.monotonic() - begun:.1f}s"
    bad = next((proof for proof in proofs_of_view(table, view, now) if not proof.is_ok), None)
    if bad is not None:
        return replace(bad, check=check, found=f"{took}; {bad.found}")
    kind = "catalog" if is_in_catalog(table.location) else "path"
    read = f"{took} by its {kind}: {table.format} {view.version or ''}".rstrip()
    blocked = [
        f"{blocker.reason}: {blocker.remedy}"
        for blocker in view.blockers
        if blocker.services & table.policies.keys() and not blocker.moot
    ]
    return proved(check, "; warning: ".join([read, *blocked, *view.warnings]))


def _addresses(table: Table) -> Sequence[str]:
    """Return the hosts and ports of the table's lock. A lock that names none has none."""
    url = getattr(getattr(table.options, "lock", None), "url", None)
    if not isinstance(url, str):
        return ()
    return re.findall(r"[^,/\s]+:\d+", re.sub(r"^\w+://", "", url))


def _unknown_lock(table: Table) -> str | None:
    lock = getattr(table.options, "lock", None)
    if lock is None or _addresses(table):
        return None
    return str(getattr(lock, "provider", type(lock).__name__))


def _lock(address: str) -> Proof:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=5):
            return proved(f"lock {address}", "a server accepts connections there")
    except (OSError, OverflowError) as error:
        return wrong(f"lock {address}", str(error), "start it, or correct options.lock.url of the tables")


def examine_all(file: Path) -> Sequence[Proof]:
    """Return what every check finds. Without a configuration that can be used, the others are not checked."""
    examined = examine(file, to_serve=True)
    errors, warnings = examined.of(Weight.ERROR), examined.of(Weight.WARNING)
    if examined.config is None:
        remedy = "'lakewarden check-config' prints every problem"
        return [wrong("configuration", errors[0], remedy), not_proved("everything else", "it needs a configuration")]
    tables = len(examined.config.tables)
    return [
        proved("configuration", f"{file} has {tables} tables and {len(warnings)} warnings"),
        *at_once([*of_machine(examined.config), *of_lake(examined.config)]),
    ]


def doctor(file: Path, *, as_json: bool, out: TextIO) -> int:
    """Print what works from this machine and what does not. Return 1 if a check has failed, and 0 otherwise."""
    proofs = examine_all(file)
    if as_json:
        print(json.dumps({"checks": [asdict(proof) for proof in proofs]}, indent=2), file=out)
    else:
        print_proofs(proofs, out=out)
    return 1 if any(proof.result is ProofResult.WRONG for proof in proofs) else 0


def prove_table(client: Client, table: str, *, as_json: bool, out: TextIO) -> int:
    """Print what the daemon has proved of a table. Return 1 if a check that is needed is not ok. Raises ClientError."""
    answer = about_table(client, table, lambda: client.table_proof(table))
    if as_json:
        print(as_written(answer), file=out)
    else:
        print_proofs(
            [
                Proof(
                    check=entry["check"],
                    result=ProofResult(entry["result"]),
                    found=entry["found"] if entry["needed"] else f"{entry['found']} (not needed here)",
                    cure=entry["cure"],
                )
                for entry in answer["checks"]
            ],
            out=out,
        )
        verdict = "proved" if answer["proved"] else "not proved"
        words = f"{answer['table']} is {verdict}. mode: {answer['mode']}, act_when: {answer['act_when']}"
        print(printable(words), file=out)
    return 0 if answer["proved"] else 1


def print_proofs(proofs: Sequence[Proof], *, out: TextIO) -> None:
    """Print one line for each check, and further ones with the cure of what is not ok."""
    width = max(len(printable(proof.check)) for proof in proofs)
    for proof in proofs:
        print(f"{proof.result:<10}  {printable(proof.check):<{width}}  {printable(proof.found)}", file=out)
        for number, line in enumerate((proof.cure or "").splitlines()):
            print(f"{'':<10}  {'':<{width}}  {'  ' if number else '->'} {printable(line)}", file=out)
