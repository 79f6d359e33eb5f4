"""Checks of this machine: the data folder, the store, the JVM, the jars, the clock, the time zones and the ports."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from lakewarden.executors.worker import bundles
from lakewarden.executors.worker.java import java_home
from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.commands.doctor.findings import CheckFinding, CheckResult, failed, in_time, not_checked, ok
from lakewarden.service.config.loading import Config
from lakewarden.service.store.file_systems import network_file_system
from lakewarden.service.store.opening import file_of
from lakewarden.service.store.settings import DatabaseSettings

_SECONDS = 10.0
_APART_SECONDS = 5.0
_OF_THE_STORE = "start the database, or correct the section database"


def of_machine(config: Config) -> Sequence[Callable[[], CheckFinding]]:
    """Return the checks. None of them changes anything."""
    settings = config.settings
    known = {name for table in config.tables for name in table.profiles()}
    profiles = [settings.spark[name] for name in sorted(known & settings.spark.keys())]
    formats = sorted({name for profile in profiles for name in profile.formats})
    remedies = {
        "store": _OF_THE_STORE,
        "jvm": "install Java 17, or install Lakewarden again: it brings one",
        "jars": "start the daemon once where Maven Central answers, or copy the jars to this folder",
        "clock": "let the machine take the time from a server (chrony, systemd-timesyncd)",
    }
    asked: dict[str, Callable[[], CheckFinding]] = {
        "store": partial(_store, settings.database, config.data_dir),
        "jvm": _jvm,
        "jars": partial(_jars, formats),
        "clock": partial(_clock, settings.database),
    }
    ports = {"api": settings.api, "management": settings.management}
    return [
        partial(_data_dir, config.data_dir),
        *(partial(in_time, name, one, seconds=_SECONDS, remedy=remedies[name]) for name, one in asked.items()),
        partial(_zones, sorted({str(table.zone) for table in config.tables})),
        *(partial(_port, name, section.host, section.port) for name, section in ports.items()),
    ]


def of_database(config: Config) -> Callable[[], CheckFinding]:
    """Return the check of the store of the daemon."""
    ask = partial(_store, config.settings.database, config.data_dir)
    return partial(
        in_time, "store", ask, seconds=_SECONDS, remedy="start the database, or correct the section database"
    )


def _data_dir(folder: Path) -> CheckFinding:
    place = next(one for one in (folder, *folder.parents) if one.exists())
    if not os.access(place, os.W_OK | os.X_OK) or not place.is_dir():
        return failed("data_dir", f"{place} cannot be written", "let the user of the daemon write there")
    free = shutil.disk_usage(place).free
    made = "" if place == folder else ", and is made at the start"
    return ok("data_dir", f"{folder} can be written{made}; {free / 2**30:.1f} GiB are free")


def _store(database: DatabaseSettings, data_dir: Path) -> CheckFinding:
    if database.url is not None:
        now, version = _ask_postgres(database)
        return ok("store", f"{database.url} answers: PostgreSQL {version}, {now:%H:%M:%S} UTC")
    if (kind := network_file_system(data_dir)) is not None:
        remedy = "use a local disk or a block volume, or set database.url"
        return failed("store", f"{data_dir} is on a network file system ({kind})", remedy)
    file = file_of(data_dir)
    if not file.exists():
        return ok("store", f"{file} is made at the start")
    try:
        with sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=_SECONDS / 2) as store:
            (runs,) = store.execute("SELECT count(*) FROM runs").fetchone()
    except sqlite3.Error as error:
        return failed("store", f"{file} cannot be read: {error}", "docs/operate.md says how a store is restored")
    return ok("store", f"{file} has {runs} runs")


def _ask_postgres(database: DatabaseSettings) -> tuple[datetime, str]:
    try:
        import psycopg  # noqa: PLC0415 - its driver is an extra
    except ImportError as missing:
        raise PermanentError(
            f"PostgreSQL's driver is missing: pip install 'lakewarden[postgres]' ({missing})"
        ) from missing
    password = None if database.password is None else database.password.value()
    try:
        with psycopg.connect(database.url or "", password=password, connect_timeout=5) as connection:
            row = connection.execute("SELECT clock_timestamp(), current_setting('server_version')").fetchone()
    except psycopg.Error as error:
        raise PermanentError(f"{database.url}: {error}") from error
    if row is None:
        raise PermanentError(f"{database.url} does not say its time")
    return row[0].astimezone(UTC), row[1]


def _jvm() -> CheckFinding:
    home = java_home()
    if not (home / "bin" / "java").exists():
        return failed("jvm", f"{home} has no bin/java", "install Java 17, or install Lakewarden again: it brings one")
    return ok("jvm", str(home))


def _jars(formats: Sequence[str]) -> CheckFinding:
    if not formats:
        return ok("jars", "no service needs Spark")
    found = bundles.jars(formats)
    return ok("jars", f"{len(found)} jars for {', '.join(formats)} are in the cache")


def _clock(database: DatabaseSettings) -> CheckFinding:
    if database.url is not None:
        now, _ = _ask_postgres(database)
        apart = abs((datetime.now(UTC) - now).total_seconds())
        if apart > _APART_SECONDS:
            return failed("clock", f"it is {apart:.1f}s from that of the database", "let both take it from a server")
        return ok("clock", f"it is {apart:.1f}s from that of the database")
    tool = shutil.which("timedatectl")
    if tool is None:
        return not_checked("clock", "no program here says whether the clock is kept by a server")
    command = [tool, "show", "--property=NTPSynchronized", "--value"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False).stdout.strip()
    if said == "yes":
        return ok("clock", "it is kept by a time server")
    if said == "no":
        return failed("clock", "it is kept by no time server", "install chrony or systemd-timesyncd")
    return not_checked("clock", "timedatectl does not answer here, as in many containers")


def _zones(zones: Sequence[str]) -> CheckFinding:
    here = datetime.now().astimezone().tzname()
    named = ", ".join(zones) or "no table"
    return ok(
        "time zone", f"workers use {named}; this machine is in {here}. Each table tells whether its own is proved"
    )


def _port(name: str, host: str, port: int) -> CheckFinding:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            check = f"port {name}"
            why = f"{host}:{port} cannot be used now ({error.strerror}), as if the daemon is running"
            return CheckFinding(check=check, health=CheckResult.NOT_CHECKED, found=why)
    return ok(f"port {name}", f"{host}:{port} is free")
