"""Settings become tables, catalogs and patterns. Every problem on the way is collected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import Mode, Table, TableId
from lakewarden.planners.path_pattern import PathPattern
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.settings import shown
from lakewarden.planners.sharing import SharedValues
from lakewarden.planners.storage.locations import is_in_catalog, is_local, named_in_catalog
from lakewarden.service.config import problems
from lakewarden.service.config.checks import Facts, place_of
from lakewarden.service.config.document import WrittenKeys
from lakewarden.service.config.layers.levels import DEFAULTS, TABLE, Level, level_of, unknown_names
from lakewarden.service.config.layers.making import Making, Place
from lakewarden.service.config.layers.patterns import ConfiguredCatalog, Discover, Pattern, fitting
from lakewarden.service.config.layers.templates import dotted, legal_id
from lakewarden.service.config.problems import KeyPath, Problem, Weight
from lakewarden.service.config.settings import CatalogEntry, Configuration, TableSettings

_ANY = "any.table"


class Assembly:
    """Assembles the tables, and collects every problem. `written` is the document that the settings were read from."""

    def __init__(
        self, settings: Configuration, formats: Mapping[str, TableFormat], written: Mapping[str, Any], *, file: str = ""
    ) -> None:
        self._settings = settings
        self._formats = formats
        self._entries: Sequence[Any] = written.get("tables") or ()
        self._ids: dict[str, str] = {}
        self._problems: list[Problem] = []
        self._making = Making(settings, file)
        made = {name: self._catalog(name, entry) for name, entry in settings.catalogs.items()}
        self.catalogs = {name: catalog for name, catalog in made.items() if catalog is not None}
        self._defaults = level_of(written.get("defaults"), DEFAULTS, ("defaults",))
        self._policies = {
            name: level_of((written.get("policies") or {}).get(name), f"policy {name}", ("policies", name))
            for name in settings.policies
        }
        for level in (self._defaults, *self._policies.values()):
            self._problems += unknown_names(level)

    @property
    def problems(self) -> Sequence[Problem]:
        """Return every problem that was found."""
        return [*self._problems, *self._making.problems]

    def addresses(self) -> Mapping[int, str]:
        """Return the address of each listed table, by its number. For a table in a catalog this is its folder, if that
        is known.
        """
        return {number: self._address(path) for number, path in self.paths().items()}

    def paths(self) -> Mapping[int, str]:
        """Return the path of each listed table, by its number."""
        return {number: table.path for number, table in enumerate(self._settings.tables) if table.path is not None}

    def untold(self) -> Sequence[str]:
        """Return the paths of listed tables that no entry names a format for."""
        untold = []
        for table in self._settings.tables:
            location = None if table.path is None else place_of(table.path, follow_links=False).location
            if table.path is None or location is None or table.format is not None or is_in_catalog(location):
                continue
            if not any(path.fits(location) for _, other in self._matching() for path in self._path_patterns(other)):
                untold.append(table.path)
        return untold

    def told(self) -> Mapping[str, str]:
        """Return the formats that entries name for tables on local paths, by path."""
        return {
            table.path: table.format
            for table in self._settings.tables
            if table.path and table.format and table.format in self._formats and is_local(table.path)
        }

    def roots(self) -> Sequence[str]:
        """Return the folders that patterns of paths begin with."""
        return [path.root for _, table in self._matching() for path in self._path_patterns(table)]

    def assembled(self, facts: Facts) -> tuple[tuple[Table, ...], tuple[Discover, ...]]:
        """Return the tables and the patterns that could be assembled, with the locations that `facts` has."""
        patterns = {number: self._pattern(number, table, facts) for number, table in self._matching()}
        discover = [self._discover(number, pattern) for number, pattern in patterns.items() if pattern is not None]
        shared = SharedValues()
        in_order = [pattern for pattern in patterns.values() if pattern is not None]
        made = (
            self._table(number, table, in_order, facts)
            for number, table in enumerate(self._settings.tables)
            if table.match is None
        )
        tables = tuple(shared.table(table) for table in made if table is not None)
        return tables, tuple(pattern for pattern in discover if pattern is not None)

    def _catalog(self, name: str, entry: CatalogEntry) -> ConfiguredCatalog | None:
        at: KeyPath = ("catalogs", name)
        table_format = self._format(entry.format, at)
        if table_format is None:
            return None
        if table_format.catalog_settings is None:
            able = ", ".join(
                table_format.name
                for table_format in self._formats.values()
                if table_format.catalog_settings is not None
            )
            self._problem((*at, "format"), f"{entry.format} tables are found by their paths; catalogs have {able}")
            return None
        settings = self._typed(table_format.catalog_settings, entry.settings, at)
        return None if settings is None else ConfiguredCatalog(name=name, format=table_format, settings=settings)

    def _address(self, path: str) -> str:
        location = place_of(path, follow_links=False).location
        if location is None or not is_in_catalog(location):
            return path
        name, identifier = named_in_catalog(location)
        catalog = self.catalogs.get(name)
        if catalog is None:
            return path
        try:
            return catalog.format.shared_name(name, catalog.settings, identifier)
        except PermanentError:
            return path

    def _matching(self) -> Iterator[tuple[int, TableSettings]]:
        return ((number, table) for number, table in enumerate(self._settings.tables) if table.match is not None)

    def _table(self, number: int, table: TableSettings, patterns: Sequence[Pattern], facts: Facts) -> Table | None:
        at: KeyPath = ("tables", number)
        if table.path is None:
            self._problem((*at, "path"), "is missing: write the path of one table, or match with a pattern of tables")
            return None
        for key in ("exclude", "share", "every"):
            if key in table.model_fields_set:
                self._problem((*at, key), "is for patterns: this entry has a path, and is one table")
        location = self._location(table.path, at, facts)
        id_ = _id(table, location)
        self._once(self._ids, id_, (*at, "id" if table.id is not None else "path"), f"the id {id_}")
        pattern = None if location is None else fitting(patterns, id_, location)
        named = (
            table.format
            or (None if pattern is None else pattern.format)
            or self._format_at(table.path, location, facts)
        )
        if named is None:
            if location is not None and is_in_catalog(location):
                self._known_catalog(named_in_catalog(location)[0], None, (*at, "path"))
            else:
                self._problem((*at, "format"), "is missing, and nothing at the path tells it")
            return None
        table_format = self._format(named, at)
        if table_format is None or location is None:
            return None
        catalog = None
        if is_in_catalog(location) and self._answers_by_name(location, at):
            catalog = self._known_catalog(named_in_catalog(location)[0], table_format, (*at, "path"))
        own = level_of(self._entries[number], TABLE, at, of_a_table=True)
        self._problems += unknown_names(own)
        made, _ = self._making.table(
            Place(
                id=TableId(id_),
                format=table_format,
                location=location,
                catalog=None if catalog is None else catalog.settings,
                at=at,
                line=_line_of(self._entries[number]),
            ),
            *self._levels(own, pattern, at),
        )
        if is_in_catalog(location):
            return None if catalog is None else made
        if made is None or table.path in facts.places:
            return made
        sentence = "does not answer: it is only observed, and its links are not followed, until the next start"
        self._problem((*at, "path"), f"{shown(table.path)} {sentence}", Weight.WARNING)
        return replace(made, mode=Mode.OBSERVE)

    def _format_at(self, path: str, location: str | None, facts: Facts) -> str | None:
        """Return the format that the catalog of a table has, or that its files tell."""
        if location is None or not is_in_catalog(location):
            return facts.formats.get(path)
        catalog = self._settings.catalogs.get(named_in_catalog(location)[0])
        return catalog.format if catalog is not None and catalog.format in self._formats else None

    def _levels(self, own: Level, pattern: Pattern | None, at: KeyPath) -> Sequence[Level]:
        """Return the levels of a table, from the most general to the most special."""
        named = own if own.policy is not None or pattern is None else pattern.level
        levels = [self._defaults]
        if named.policy is not None and named.policy in self._policies:
            levels.append(self._policies[named.policy])
        elif named.policy is not None:
            names = ", ".join(self._policies) or "none"
            self._problem(
                (*named.at, "policy"), f"there is no policy {shown(named.policy)} under policies; there is {names}"
            )
        return [*levels, *([] if pattern is None or pattern.level is own else [pattern.level]), own]

    def _pattern(self, number: int, table: TableSettings, facts: Facts) -> Pattern | None:
        at: KeyPath = ("tables", number)
        match = table.match or ""
        if table.path is not None or table.id is not None:
            here = "path" if table.path is not None else "id"
            self._problem((*at, here), "is of one table, and match is for many: write two entries")
        level = level_of(self._entries[number], f"pattern {match}", at)
        self._problems += unknown_names(level)
        if is_in_catalog(match):
            name, names = named_in_catalog(match)
            catalog = self._known_catalog(name, None, (*at, "match"))
            if catalog is None:
                self._levels(level, None, at)  # tells what is wrong with its policy
                return None
            if not names:
                self._problem((*at, "match"), f"names no tables: write catalog://{name}/* for all of them")
                return None
            return Pattern(
                match=match, exclude=table.exclude, share=table.share, level=level, format=catalog.format.name
            )
        try:
            PathPattern.of(match)
        except ValueError as wrong:
            self._problem((*at, "match"), str(wrong))
            return None
        try:
            excluded = [PathPattern.of(text) for text in table.exclude]
        except ValueError as wrong:
            self._problem((*at, "exclude"), str(wrong))
            return None
        return Pattern(
            match=match,
            exclude=table.exclude,
            share=table.share,
            level=level,
            format=table.format or self._found_by_paths(match),
            paths=_followed([PathPattern.of(match)], facts),
            not_paths=_followed(excluded, facts),
        )

    def _path_patterns(self, table: TableSettings) -> Sequence[PathPattern]:
        patterns = []
        for text in (table.match or "", *table.exclude):
            try:
                patterns.append(PathPattern.of(text))
            except ValueError:
                continue
        return patterns

    def _discover(self, number: int, pattern: Pattern) -> Discover | None:
        """Return a pattern with its listing, and with the settings of its tables."""
        at: KeyPath = ("tables", number)
        table = self._settings.tables[number]
        catalog = self._listed_by(pattern, table, at)
        if catalog is None:
            return None
        if table.format not in (None, catalog.format.name):
            self._problem((*at, "format"), f"the catalog {shown(catalog.name)} has {catalog.format.name} tables")
            return None
        by_path = pattern.catalog is None
        location = f"{pattern.paths[0].root}/any_table" if by_path else f"catalog://{catalog.name}/{_ANY}"
        any_table, merge = self._making.table(
            Place(
                id=TableId(f"{catalog.name}.{_ANY}"),
                format=catalog.format,
                location=location,
                catalog=None if by_path else catalog.settings,
                at=at,
                is_of_many=True,
            ),
            *self._levels(pattern.level, pattern, at),
        )
        if any_table is None:
            return None
        return Discover(
            catalog=catalog,
            pattern=pattern,
            every=table.every,
            any_table=any_table,
            by_path=by_path,
            values=merge.values if merge.templates else None,
        )

    def _listed_by(self, pattern: Pattern, table: TableSettings, at: KeyPath) -> ConfiguredCatalog | None:
        """Return the catalog that lists the tables of a pattern. A pattern of paths is a catalog of its own."""
        if pattern.catalog is not None:
            return self.catalogs.get(pattern.catalog)
        named = table.format or pattern.format
        if named is None:
            self._problem((*at, "format"), "is missing")
            return None
        table_format = self._format(named, at)
        if table_format is None:
            return None
        raw = {"type": "paths", "path": pattern.match, "exclude": list(pattern.exclude)}
        try:
            settings = problems.adapter_of(table_format.catalog_settings).validate_python(raw)
        except ValidationError:
            self._problem(
                (*at, "match"), f"{table_format.name} tables are not found by their paths: write catalog://NAME/PATTERN"
            )
            return None
        return ConfiguredCatalog(name=pattern.match, format=table_format, settings=settings)

    def _found_by_paths(self, match: str) -> str | None:
        """Return the only format with tables that are found by a pattern of paths. None if there are several."""
        able = [table_format.name for table_format in self._formats.values() if _lists_paths(table_format, match)]
        return able[0] if len(able) == 1 else None

    def _answers_by_name(self, location: str, at: KeyPath) -> bool:
        """Whether the catalog knows tables by names like this one. If not, there is a problem."""
        name, identifier = named_in_catalog(location)
        catalog = self.catalogs.get(name)
        try:
            if catalog is not None:
                catalog.format.shared_name(name, catalog.settings, identifier)
        except PermanentError as wrong:
            self._problem((*at, "path"), str(wrong))
            return False
        return True

    def _format(self, name: str, at: KeyPath) -> TableFormat | None:
        table_format = self._formats.get(name)
        if table_format is None:
            self._problem((*at, "format"), f"{shown(name)} is not a format: use one of {', '.join(self._formats)}")
        return table_format

    def _known_catalog(self, name: str, table_format: TableFormat | None, at: KeyPath) -> ConfiguredCatalog | None:
        """Return the catalog of this name. Return None, with a problem, if it is missing or belongs to another
        format.
        """
        if name not in self._settings.catalogs:
            names = ", ".join(self._settings.catalogs)
            there = f"there is {names}" if names else "there are none"
            self._problem(at, f"there is no catalog {shown(name)} under catalogs; {there}")
            return None
        catalog = self.catalogs.get(name)
        if catalog is not None and table_format is not None and catalog.format is not table_format:
            theirs = catalog.format.name
            self._problem(at, f"the catalog {shown(name)} is one of {theirs} tables, not of {table_format.name} tables")
            return None
        return catalog

    def _location(self, path: str, at: KeyPath, facts: Facts) -> str | None:
        place = facts.places.get(path) or place_of(path, follow_links=False)
        if place.location is None:
            self._problem((*at, "path"), place.wrong)
        if place.location == "/":
            self._problem((*at, "path"), "is the whole file system, not a table")
        return place.location

    def _typed(self, model: Any, raw: Mapping[str, Any], at: KeyPath) -> Any:
        """Return the settings as the type of the format. Return None, with problems, if they are wrong."""
        try:
            return problems.adapter_of(model).validate_python(dict(raw))
        except ValidationError as wrong:
            self._problems += problems.problems_of(wrong, model, raw=raw, at=at)
            return None

    def _once(self, seen: dict[str, str], key: str, at: KeyPath, what: str) -> None:
        if key in seen:
            self._problem(at, f"{what} is registered at {seen[key]} already")
        seen.setdefault(key, problems.named(at))

    def _problem(self, at: KeyPath, sentence: str, weight: Weight = Weight.ERROR) -> None:
        self._problems.append(Problem(at=at, sentence=sentence, weight=weight))


def _id(table: TableSettings, location: str | None) -> str:
    """Return the id of a listed table. Without one in its entry, its location is its name."""
    if table.id is not None or location is None:
        return table.id or "unnamed"
    return legal_id(dotted(location))


def _lists_paths(table_format: TableFormat, match: str) -> bool:
    try:
        problems.adapter_of(table_format.catalog_settings).validate_python({"type": "paths", "path": match})
    except ValidationError:
        return False
    return True


def _followed(patterns: Sequence[PathPattern], facts: Facts) -> tuple[PathPattern, ...]:
    """Return patterns as they are written, and with the links of their roots followed, if the file system answers."""
    all_patterns = list(patterns)
    for pattern in patterns:
        place = facts.places.get(pattern.root)
        if place is not None and place.location not in (None, pattern.root):
            all_patterns.append(replace(pattern, root=place.location or pattern.root))
    return tuple(all_patterns)


def _line_of(entry: Any) -> int | None:
    return entry.line if isinstance(entry, WrittenKeys) else None
