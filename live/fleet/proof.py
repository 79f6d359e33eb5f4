"""The proof: a lake is taken over from an empty directory, served, and given back."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog

from lakewarden.demo.daemon import Child, free_port
from lakewarden.planners.model.errors import PermanentError
from live.fleet.appender import Appender
from live.fleet.configuration import acting, edited
from live.fleet.forecasts import forecasts_of, ratios
from live.fleet.kinds import Home, Made, Wrong
from live.fleet.making.hudi_tables import folder_of
from live.fleet.making.iceberg_tables import JDBC_NAME, NAMESPACE, jdbc_catalog, rows_of
from live.fleet.making.lake import Lake
from live.fleet.making.seeds import LOCKS
from live.fleet.operator import Operator, stop
from live.fleet.report import FleetReport
from live.fleet.waiting import wait_until
from live.fleet.witnesses import bytes_of, hudi_rows, iceberg_rows
from live.fleet.writer import rows_of as hudi_rows_of

_SAMPLE = 12
"""So many tables of each home are compared with their forecasts."""

_ACTING_SECONDS = 1800


@dataclass
class Proof:
    """One proof on a lake that runs. `served_for` is how long the tables are served after all of them are acted on."""

    lake: Lake
    operator: Operator
    driver: str
    served_for: timedelta
    say: Callable[[str], None]
    report: FleetReport = field(init=False)

    def __post_init__(self) -> None:
        self.report = FleetReport(tables=len(self.lake.tables))
        self.healthy = [one for one in self.lake.tables if one.wrong is Wrong.NOTHING]
        self.report.healthy = len(self.healthy)
        self._wrong = [one for one in self.lake.tables if one.wrong is not Wrong.NOTHING]
        rest = RestCatalog("rest", uri=self.lake.rest)
        self._catalogs: Mapping[Home, Catalog] = {Home.REST: rest, Home.JDBC: jdbc_catalog(self.lake.folder)}
        self._file = self.operator.directory / "lakewarden.yaml"
        self._observing = ""
        self._begun = time.monotonic()

    def run(self) -> FleetReport:
        """Carry it out."""
        before_bytes = {one.name: bytes_of(self._folder(one)) for one in self._wrong if not one.live}
        before_rows = {one.name: self._rows(one) for one in self.healthy}
        self._done("bytes and rows are known")
        self._prepare()
        self._done("the configuration is written and checked")
        daemon = self.operator.serve()
        writers = Writers(self.lake, self._catalogs, self.operator.directory)
        try:
            wait_until(self._all_observed, 600, "the daemon has not observed all tables")
            self._done("all tables are observed")
            wait_until(writers.all_have_written, 600, "the writers have not written")
            forecasts = forecasts_of(self.operator, self._sample())
            self._turn_on()
            self._name_the_wrong()
            self._done("the wrong tables are named")
            self.operator.run("status")
            self._serve()
            self.report.ratios = ratios(self.operator, forecasts)
            writers.end()
            self._give_back()
        finally:
            writers.end()
            stop(daemon)
        self.report.harmed = [
            one.name for one in self._wrong if not one.live and bytes_of(self._folder(one)) != before_bytes[one.name]
        ]
        expected = {**before_rows, **writers.expected(before_rows)}
        self.report.wrong_rows = [one.name for one in self.healthy if self._rows(one) != expected[one.name]]
        self.report.writes, self.report.write_failures = writers.told()
        self._done("every byte and every row is compared")
        self.report.commands = self.operator.commands
        return self.report

    def _done(self, what: str) -> None:
        self.report.seconds[what] = round(time.monotonic() - self._begun, 1)
        self.say(f"{self.report.seconds[what]:.0f} s: {what}")

    def _folder(self, table: Made) -> Path:
        if table.home is Home.HUDI:
            return folder_of(self.lake.folder, table)
        return self.lake.folder / table.home / NAMESPACE / table.name

    def _rows(self, table: Made) -> Mapping[str, str]:
        if table.home is Home.HUDI:
            return hudi_rows(self._folder(table))
        return iceberg_rows(self._catalogs[table.home], table.name)

    def id_of(self, table: Made) -> str:
        """Return the id by which Lakewarden knows a table."""
        if table.home is Home.HUDI:
            return str(self._folder(table)).strip("/").replace("/", ".")
        name = {Home.REST: "lake2", Home.JDBC: JDBC_NAME}[table.home]
        return f"{name}.{NAMESPACE}.{table.name}"

    def _prepare(self) -> None:
        where, file = self.operator.directory, self._file
        lake, host = self.lake.folder, self.lake.zookeeper
        (where / "hudi-defaults.conf").write_text(
            "hoodie.write.lock.provider org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider\n"
            f"hoodie.write.lock.zookeeper.url {host}\nhoodie.write.lock.zookeeper.base_path {LOCKS}\n"
        )
        jdbc = f"jdbc:sqlite:{lake}/jdbc.db?warehouse={lake}/jdbc&name={JDBC_NAME}"
        places = (f"{lake}/hudi", self.lake.rest, jdbc)
        self.operator.run("init", *places, "--writer-defaults", "hudi-defaults.conf", "--output", "lakewarden.yaml")
        self._observing = edited(file.read_text(), port=self.operator.port, management=free_port(), driver=self.driver)
        file.write_text(self._observing)
        self.operator.run("check-config")
        self.operator.run("doctor")
        self.operator.run("writer-options", next(self.id_of(one) for one in self.healthy if one.home is Home.HUDI))

    def _all_observed(self) -> bool:
        try:
            fleet = self.operator.asked("tables", "--limit", "0")["items"]
        except PermanentError:
            return False
        return len(fleet) == len(self.lake.tables) and all((one["observed_at"] or one["failure"]) for one in fleet)

    def _name_the_wrong(self) -> None:
        """Ask the doctor about each wrong table. It must be named with a cure."""
        for one in self._wrong:
            told = self.operator.run("doctor", self.id_of(one), codes=(0, 1), kept=False)
            lines = told.splitlines()
            bad = [
                n
                for n, line in enumerate(lines)
                if line.startswith(("wrong", "not proved")) and "not needed" not in line
            ]
            cured = [n for n in bad if n + 1 < len(lines) and lines[n + 1].strip().startswith("->")]
            if not bad or cured != bad:
                self.report.not_named.append(f"{one.name}: {told[:300]}")
            else:
                said = " ".join(" ".join(lines[n : n + 2]) for n in bad)
                self.report.named.setdefault(f"{one.home} {one.wrong}", " ".join(said.split()))

    def _sample(self) -> list[str]:
        still = [one for one in self.healthy if not one.live]
        return [self.id_of(one) for home in Home for one in [each for each in still if each.home is home][:_SAMPLE]]

    def _reload(self, text: str) -> None:
        self._file.write_text(text)
        self.operator.run("reload")

    def _is_proved(self, table: Made) -> bool:
        return bool(self.operator.client.table_proof(self.id_of(table))["proved"])

    def _turn_on(self) -> None:
        """Set the mode act in the file, and wait until every table without a fault is proved."""
        text = acting(self._observing)
        self.report.config_lines = len(text.splitlines())
        self._reload(text)
        waiting = list(self.healthy)

        def all_proved() -> bool:
            waiting[:] = [table for table in waiting if not self._is_proved(table)]
            return not waiting

        try:
            wait_until(all_proved, _ACTING_SECONDS, "not all tables are acted on")
        except PermanentError as late:
            self.say(str(late))
        self.report.acting = len(self.healthy) - len(waiting)
        unwanted = sorted(self.id_of(table) for table in self._wrong if self._is_proved(table))
        self.report.not_named += [f"{table}: it is acted on" for table in unwanted]
        self._done("every table without a fault is acted on")

    def _serve(self) -> None:
        """Approve the first cleans, and let the services run for a while, or until nothing is due any more."""
        end = time.monotonic() + self.served_for.total_seconds()
        while time.monotonic() < end:
            self.operator.run("approvals", "approve", "*", "clean", "--most-files", "100", kept=False)
            if not self.operator.asked("runs", "--active", "--limit", "0")["items"]:
                break
            time.sleep(5)
        self.operator.run("approvals", "approve", "*", "clean", "--most-files", "100")
        self.report.status = self.operator.run("status")
        runs = self.operator.asked("runs", "--limit", "0")["items"]
        self.report.runs = dict(Counter(f"{one['service']} {one['state']}" for one in runs))
        self._done("the tables were served")

    def _give_back(self) -> None:
        self._reload(self._observing)
        wait_until(lambda: not self.operator.asked("runs", "--active")["items"], 600, "runs go on")
        self._done("all tables are given back")


class Writers:
    """The live writers, and what they must find at the end."""

    def __init__(self, lake: Lake, catalogs: Mapping[Home, Catalog], directory: Path) -> None:
        self._record = directory / "writer.jsonl"
        self._lake = lake
        live = [one for one in lake.of(Home.HUDI) if one.live]
        told: list[Mapping[str, Any]] = []
        for one in live:
            folder = folder_of(lake.folder, one)
            file = directory / "options" / f"{str(folder).strip('/').replace('/', '.')}.spark.properties"
            wrong_lock = one.wrong is Wrong.LOCK
            told.append(
                {
                    "name": one.name,
                    "path": str(folder),
                    "seed": one.seed,
                    "options": str(file),
                    "wrong_lock": wrong_lock,
                }
            )
        (directory / "writer.json").write_text(json.dumps(told))
        arguments = ["--tables", str(directory / "writer.json"), "--record", str(self._record)]
        self._child = Child(
            "writer", [sys.executable, "-m", "live.fleet.writer", *arguments], log=directory / "writer.log"
        )
        self._appenders = [
            Appender(catalogs[home], [one.name for one in lake.of(home) if one.live]) for home in catalogs
        ]

    def all_have_written(self) -> bool:
        """Whether each Hudi table has four commits."""
        commits = Counter(one["table"] for one in self._written())
        return all(commits[one.name] >= 4 for one in self._lake.of(Home.HUDI) if one.live)

    def end(self) -> None:
        """End them, each after its commit."""
        stop(self._child)
        for one in self._appenders:
            one.end()

    def expected(self, before: Mapping[str, Mapping[str, str]]) -> dict[str, Mapping[str, str]]:
        """Return the rows of the tables that were written."""
        last = {one["table"]: one["number"] for one in self._written() if one["failure"] is None}
        found: dict[str, Mapping[str, str]] = {name: hudi_rows_of(number) for name, number in last.items()}
        for appender in self._appenders:
            for name, numbers in appender.acknowledged.items():
                new = [rows_of(number).to_pylist() for number in numbers]
                found[name] = {**before[name], **{str(row["id"]): row["note"] for rows in new for row in rows}}
        return found

    def told(self) -> tuple[int, list[str]]:
        """Return the number of writes, and the failures."""
        written = self._written()
        failures = [f"{one['table']}: {one['failure']}" for one in written if one["failure"] is not None]
        appended = sum(len(numbers) for one in self._appenders for numbers in one.acknowledged.values())
        return len(written) + appended, failures + [said for one in self._appenders for said in one.failures]

    def _written(self) -> list[Mapping[str, Any]]:
        if not self._record.exists():
            return []
        return [json.loads(line) for line in self._record.read_text().splitlines() if line.endswith("}")]
