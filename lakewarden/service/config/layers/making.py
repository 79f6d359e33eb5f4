"""The settings of one table, from all levels, become a table with its policies. Every problem is collected."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from lakewarden.executors.profile import SparkProfile
from lakewarden.executors.registry import ON_SPARK
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Policy, Route, SettingOrigin, Table, TableId
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.services import SERVICES
from lakewarden.planners.settings import shown
from lakewarden.service.config import problems
from lakewarden.service.config.layers.levels import Level, Resolved, resolved
from lakewarden.service.config.layers.routes import SparkRoutes
from lakewarden.service.config.layers.service_settings import ServiceSettings
from lakewarden.service.config.layers.templates import names_of, with_names
from lakewarden.service.config.policies import budget_of, inherited, policy_of
from lakewarden.service.config.problems import KeyPath, Problem, Weight
from lakewarden.service.config.settings import CareSettings, Configuration, Defaults

_SHARED_LEVELS = ("defaults", "policy")
"""Levels for tables of several formats. A service in one of them that a format does not have does not apply."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A table before its settings are known: its id, its format, its location and its catalog.

    `at` is the key of its entry, and `line` its first line. `catalog_name` is its name in the catalog, if that differs
    from the location. `is_of_many`: it stands for the tables of a pattern, which are not known yet.
    """

    id: TableId
    format: TableFormat
    location: str
    catalog: Any = None
    at: KeyPath
    line: int | None = None
    identifier: str | None = None
    is_of_many: bool = False


def homes(formats: Iterable[TableFormat]) -> dict[str, str]:
    """Return where each key of a table's settings belongs, in words, for a key that stands elsewhere."""
    places: dict[str, dict[str, None]] = {}
    for model, place in (
        (ServiceSettings, "below a service, such as services.clean"),
        (CareSettings, "to a table, a policy or defaults"),
        *(
            (table_format.table_options, "below the options of a table, a policy or defaults")
            for table_format in formats
        ),
        *(
            (options, f"below services.{service}.options")
            for table_format in formats
            for service, options in table_format.services.items()
        ),
    ):
        for key in problems.keys_of(model):
            places.setdefault(key, {})[place] = None
    return {key: " or ".join(where) for key, where in places.items()}


class Making:
    """Makes tables, and collects the problems of their settings, each once and where it is written."""

    def __init__(self, settings: Configuration, file: str) -> None:
        self._settings = settings
        self._file = file
        self._merges: dict[bytes, tuple[Resolved, CareSettings | None]] = {}
        self.problems: dict[Problem, None] = {}

    def table(self, place: Place, *levels: Level) -> tuple[Table | None, Resolved]:
        """Return a table with its policies, and its settings. The table is None if no profile serves it."""
        merge, care = self._care(place, levels)
        if care is None:
            return None, merge
        problems: list[Problem] = []
        table = _Work(self._settings, problems, place).table(care, merge)
        made = None if table is None else replace(table, file=self._file, line=place.line)
        self._keep(problems, place, merge)
        return made, merge

    def _care(self, place: Place, levels: tuple[Level, ...]) -> tuple[Resolved, CareSettings | None]:
        """Return the settings of a table. Tables with equal levels have the same ones."""
        key = pickle.dumps(tuple((level.name, level.patch) for level in levels), pickle.HIGHEST_PROTOCOL)
        if key not in self._merges:
            merge = resolved(*levels)
            self._merges[key] = merge, None if merge.templates else self._validated(merge.values, place, merge)
        merge, care = self._merges[key]
        merge = replace(merge, levels={level.name: level.at for level in levels})
        if merge.templates:
            care = self._validated(
                with_names(merge.values, names_of(place.id, place.location, place.identifier)), place, merge
            )
        return merge, care

    def _validated(self, values: Mapping[str, Any], place: Place, merge: Resolved) -> CareSettings | None:
        try:
            return CareSettings.model_validate(values)
        except ValidationError as wrong:
            known = homes([place.format])
            self._keep(problems.problems_of(wrong, CareSettings, raw=values, at=place.at, homes=known), place, merge)
            return None

    def _keep(self, problems: list[Problem], place: Place, merge: Resolved) -> None:
        """Keep problems by the keys at which their values are written."""
        for problem in problems:
            written = merge.written_at(problem.at[len(place.at) :])
            self.problems[problem if written is None else replace(problem, at=written)] = None


def _lacks(profile: SparkProfile, name: str) -> bool:
    """Return whether the workers of a profile have no bundle of a format, because its `formats` leave it out."""
    return "formats" in profile.model_fields_set and name not in profile.formats


def with_formats(profiles: Mapping[str, SparkProfile], tables: Sequence[Table]) -> dict[str, SparkProfile]:
    """Return the profiles. One that names no formats has those of its tables with services."""
    made = {}
    for name, profile in profiles.items():
        served = {table.format for table in tables if table.policies and name in table.profiles()}
        formats = tuple(name for name in ON_SPARK if name in served)
        is_named = "formats" in profile.model_fields_set or not formats
        made[name] = profile if is_named else profile.model_copy(update={"formats": formats})
    return made


class _Work:
    """The work on one table. `problems` takes its problems, with the keys of the table's own entry."""

    def __init__(self, settings: Configuration, problems: list[Problem], place: Place) -> None:
        self._settings = settings
        self._problems = problems
        self._place = place
        self._at = place.at
        self._format = place.format

    def table(self, care: CareSettings, merge: Resolved) -> Table | None:
        defaults = Defaults()
        mode = care.mode or defaults.mode
        spark, routes = self._routes(care.spark or defaults.spark, care.labels)
        profile = self._profile(spark, mode, (*self._at, "spark"))
        self._check_routes(care.spark or defaults.spark, routes, mode, spark)
        options = self._typed(self._format.table_options, care.options, (*self._at, "options"))
        unfit = self._unfit(care, merge)
        policies = self._policies(care, mode, spark, unfit)
        if mode is not Mode.OBSERVE and not care.services:
            origin = merge.sources.get("mode", SettingOrigin(level="table"))
            at = (*merge.levels.get(origin.level, self._at), "services")
            self._problem(at, f"is empty: mode is {mode}, and nothing will ever run", Weight.WARNING)
        if profile is None:
            return None
        made = Table(
            id=self._place.id,
            format=self._format.name,
            location=self._place.location,
            catalog=self._place.catalog,
            zone=ZoneInfo(profile.timezone),
            mode=mode,
            act_when=care.act_when or defaults.act_when,
            proof_without=frozenset(care.proof_without or defaults.proof_without),
            poll=care.poll or defaults.poll,
            poll_with_hooks=care.poll_with_hooks or defaults.poll_with_hooks,
            spark=spark,
            routes=tuple(routes.values()),
            options=options,
            policies=policies,
            budget=budget_of(care.budget or defaults.budget),
            contact=care.contact,
            labels=dict(care.labels),
            sources=inherited(merge.sources, policies),
            unfit=unfit,
        )
        for wrong in (
            ()
            if any(problem.weight is Weight.ERROR for problem in self._problems)
            else self._format.contradictions(made)
        ):
            weight = Weight.WARNING if wrong.blocks else Weight.ERROR
            self._problem((*self._at, *wrong.key.split(".")), wrong.reason, weight)
        return made

    def _profile(self, name: str, mode: Mode, at: KeyPath) -> SparkProfile | None:
        """Return the profile that serves a table. If its workers cannot act on the table, there is a problem."""
        profile = self._settings.spark.get(name)
        if profile is None:
            self._no_profile(name, at)
        elif mode is Mode.ACT and self._format.services and _lacks(profile, self._format.name):
            lacking = f"the workers of {shown(name)} have no bundle of {self._format.name}"
            self._problem(at, f"{lacking}: add it to spark.{name}.formats")
        elif mode is Mode.ACT and profile.has_remote_executors and not profile.is_standalone:
            self._problem(
                at,
                f"executors of {shown(profile.master)} may outlive a dead worker and go on writing, and nothing proves "
                f"their end yet: set spark.{name}.master to local[*] or spark://..., or the table's mode to plan",
            )
        return profile

    def _routes(self, rules: SparkRoutes, labels: Mapping[str, str]) -> tuple[str, Mapping[int, Route]]:
        """Return the profile of the table, and the routes that its runs may take, by their numbers. What follows a
        route that every run takes has no meaning.
        """
        routes: dict[int, Route] = {}
        for number, entry in enumerate(rules.route):
            route = entry.route()
            if entry.formats and self._format.name not in entry.formats:
                continue
            if not self._place.is_of_many:
                if not route.begins_at(self._place.id, labels):
                    continue
                route = replace(route, tables=(), labels={})
            if not route.services and route.leads_all:
                return route.spark, routes
            routes[number] = route
        return rules.otherwise, routes

    def _check_routes(self, rules: SparkRoutes, taken: Mapping[int, Route], mode: Mode, spark: str) -> None:
        """Find routes to a profile that is missing, or has workers that cannot serve the table."""
        for number, entry in enumerate(rules.route):
            at = (*self._at, "spark", "route", number)
            if number in taken:
                self._check_profile_of_its_own(entry.to, mode, spark, (*at, "to"))
            elif entry.to not in self._settings.spark:
                self._no_profile(entry.to, (*at, "to"))
            for word in entry.formats:
                if word not in FORMATS and word != self._format.name:
                    self._problem((*at, "formats"), f"{shown(word)} is not a format: use one of {', '.join(FORMATS)}")

    def _unfit(self, care: CareSettings, merge: Resolved) -> Mapping[Service, str]:
        """Return the services of levels for many tables that the format does not have."""
        return {
            service: f"{self._format.name} tables have no {service}"
            for service in care.services
            if service not in self._format.services
            and merge.sources[f"services.{service}"].level.partition(" ")[0] in _SHARED_LEVELS
        }

    def _policies(
        self, care: CareSettings, mode: Mode, spark: str, unfit: Mapping[Service, str]
    ) -> Mapping[Service, Policy]:
        policies = {}
        for service, policy in care.services.items():
            here = (*self._at, "services", service.value)
            options_type = self._format.services.get(service)
            if service in unfit:
                continue
            if options_type is None:
                able = ", ".join(self._format.services)
                self._problem(here, f"{service} is not supported on {self._format.name}; supported are {able}")
                continue
            options = self._typed(options_type, policy.options, (*here, "options"))
            policies[service] = policy_of(service, policy, options, priority=care.priority)
            if policy.spark is not None:
                self._check_profile_of_its_own(policy.spark, mode, spark, (*here, "spark"))
            if SERVICES[service].by_hand and policy.trigger is not None:
                self._problem(
                    (*here, "trigger"), f"{service} runs only when an operator asks for it: remove the trigger"
                )
            if not policy.asynchronous:
                self._check_follows_a_compaction(service, policy, care, here)
        return policies

    def _no_profile(self, name: str, at: KeyPath) -> None:
        names = ", ".join(self._settings.spark) or "none"
        self._problem(at, f"there is no spark profile {shown(name)}; there is {names}")

    def _check_profile_of_its_own(self, name: str, mode: Mode, spark: str, at: KeyPath) -> None:
        """Find a further profile of a table that is missing, or has workers that cannot serve the table."""
        profile = self._profile(name, mode, at)
        others = self._settings.spark.get(spark)
        if profile is not None and others is not None and profile.timezone != others.timezone:
            sentence = f"the workers of {shown(name)} stamp instants in {profile.timezone}, the table's ({spark}) in"
            self._problem(at, f"{sentence} {others.timezone}: one table has one zone")

    def _check_follows_a_compaction(
        self, service: Service, policy: ServiceSettings, care: CareSettings, at: KeyPath
    ) -> None:
        """Find `async: false` without a meaning. It makes a clean follow the compactions of its table."""
        here = (*at, "async")
        if service is not Service.CLEAN:
            self._problem(here, f"only a clean can be told to run after each compaction, not {service}: remove it")
        elif policy.trigger is not None:
            self._problem(here, "false lets it run after each compaction, so it has no trigger of its own: remove one")
        elif Service.COMPACTION not in care.services:
            self._problem(here, "false lets it run after each compaction, but the table has no compaction policy")

    def _typed(self, model: Any, raw: Mapping[str, Any], at: KeyPath) -> Any:
        """Return the settings as the type of the format. Return None, with problems, if they are wrong."""
        try:
            return problems.adapter_of(model).validate_python(dict(raw))
        except ValidationError as wrong:
            self._problems += problems.problems_of(wrong, model, raw=raw, at=at, homes=homes([self._format]))
            return None

    def _problem(self, at: KeyPath, sentence: str, weight: Weight = Weight.ERROR) -> None:
        self._problems.append(Problem(at=at, sentence=sentence, weight=weight))
