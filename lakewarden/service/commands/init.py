"""`lakewarden init`: the first configuration file of a lake, from its paths and catalogs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from pydantic import TypeAdapter, ValidationError

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.table import Table
from lakewarden.planners.path_pattern import ANY_DEPTH
from lakewarden.planners.ports import KeepsCommits, ReadsWriterDefaults, WriterDefaults
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.storage.locations import is_in_catalog
from lakewarden.service.commands.places import kind_of, name_in
from lakewarden.service.config.loading import examine
from lakewarden.service.config.problems import Problem, Weight

_MOST_LISTED = 200
"""How many tables are listed one by one. A format that is found by its paths needs one pattern for all of them."""

_MOST_EXCEPTIONS = 20
"""How many tables have an entry of their own because their cleans kept more. If there are more, the policy keeps as
much as the one that kept the most."""

_MOST_COMMENTS = 20

_HEAD = "# Written by `lakewarden init`. Lakewarden changes nothing while the mode is `observe`."
_SECOND = "# docs/settings.md has every setting. `lakewarden doctor` tries what this file names."


def known_options(defaults: Path | None, environment: Mapping[str, str]) -> Mapping[str, WriterDefaults]:
    """Return by format what follows from the defaults of its writers.

    `defaults` is the file with them. Without it, the file of the writers on this machine is read, if there is one.
    Raises PermanentError if `defaults` cannot be read.
    """
    options = {}
    for name, table_format in FORMATS.items():
        if not isinstance(table_format, ReadsWriterDefaults):
            continue
        try:
            options[name] = table_format.options_from(
                (defaults or table_format.defaults_file(environment)).read_bytes()
            )
        except OSError as error:
            if defaults is not None:
                raise PermanentError(f"{defaults} cannot be read: {error.strerror}") from error
    return options


def first_file(
    tables_at: Mapping[str, Sequence[Table]],
    options: Mapping[str, WriterDefaults],
    *,
    exclude: Sequence[str] = (),
    kept: Mapping[str, int] | None = None,
    unopened: Mapping[str, str] | None = None,
) -> str:
    """Return the text of the file for the tables of some places, by place. `options` is what is known of the tables
    of a format from their writers. `kept` is how many commits the newest clean of a table kept, by location.
    Tables are only observed. Those in `unopened` cannot be opened by their paths: they are a comment with the reason.

    A catalog without a name of its own is called `lake`, or `lake2` if that is taken. Raises PermanentError if a place
    has no table, if two catalogs have one name, or if the tables need more than a short file.
    """
    for place, tables in tables_at.items():
        if not tables:
            raise PermanentError(f"no table found at {place}: name a folder above the tables, a pattern or a catalog")
    left_out = unopened or {}
    formats = {
        place: _by_format([table for table in tables if table.location not in left_out])
        for place, tables in tables_at.items()
    }
    if left_out and not any(formats.values()):
        raise PermanentError(
            f"no table found at {', '.join(tables_at)} that can be opened by its path: "
            f"{next(iter(left_out.values()))}. "
            "Give `lakewarden init` the address of the catalog"
        )
    names = _names(tables_at)
    catalogs = [line for place in tables_at for line in _catalogs(place, sorted(formats[place]), names[place])]
    lines = [_HEAD, _SECOND, *(["catalogs:", *catalogs] if catalogs else []), "policies:"]
    exceptions: dict[str, int] = {}
    for format_name in sorted({name for by_format in formats.values() for name in by_format}):
        kept_here = _kept_of(format_name, tables_at.values(), kept or {})
        own = len(kept_here) <= _MOST_EXCEPTIONS and not any(
            kind_of(place) or is_in_catalog(place) for place in tables_at
        )
        exceptions |= kept_here if own else {}
        lines += _policy(format_name, options.get(format_name, WriterDefaults()), {} if own else kept_here)
    lines += ["tables:"]
    for place, by_format in formats.items():
        for format_name in sorted(by_format):
            called = _named(names[place], format_name, sorted(by_format))
            for key, value in _entries(place, format_name, by_format[format_name], called):
                lines.append(_entry(key, value, format_name, exclude, exceptions.pop(value, None)))
            for table in by_format[format_name]:
                if (commits := exceptions.pop(table.location, None)) is not None:
                    lines.append(_entry("path", table.location, format_name, (), commits))
    return "\n".join([*lines, *_comments(left_out), ""])


def _comments(left_out: Mapping[str, str]) -> Iterator[str]:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for location, why in sorted(left_out.items()):
        by_reason[why].append(location)
    for why, locations in by_reason.items():
        yield f"# Left out, because {printable(why)}."
        yield "# `lakewarden init` takes the address of a catalog in place of a folder:"
        yield from (f"#   {printable(location)}" for location in locations[:_MOST_COMMENTS])
        if (more := len(locations) - _MOST_COMMENTS) > 0:
            yield f"#   and {more} more"


def _by_format(tables: Sequence[Table]) -> Mapping[str, list[Table]]:
    by_format: dict[str, list[Table]] = defaultdict(list)
    for table in tables:
        by_format[table.format].append(table)
    return by_format


def _names(places: Iterable[str]) -> Mapping[str, str]:
    """Return the name of the catalog of each place. Raises PermanentError if two addresses say the same name."""
    names = {place: name for place in places if (name := name_in(place)) is not None}
    if len(set(names.values())) < len(names):
        raise PermanentError("two catalogs have the same name: give one of them a file of its own")
    free = (name for number in count(1) if (name := f"lake{number if number > 1 else ''}") not in names.values())
    return {place: names.get(place) or (next(free) if kind_of(place) is not None else "lake") for place in places}


def _catalogs(place: str, formats: Sequence[str], name: str) -> Iterator[str]:
    """Yield the entries of the catalogs of a place, if it is the address of one."""
    kind = kind_of(place)
    if kind is None:
        return
    uri, _, query = place.partition("?")
    settings = {"type": kind, "uri": uri, **dict(parse_qsl(query))}
    settings.pop("name", None)
    for format_name in formats:
        fields = ", ".join(f"{key}: {json.dumps(value)}" for key, value in settings.items())
        yield f"  {_named(name, format_name, formats)}: {{format: {format_name}, {fields}}}"


def _entries(place: str, format_name: str, tables: Sequence[Table], name: str) -> Iterator[tuple[str, str]]:
    """Yield the key and the value by which entries mean the tables of a format."""
    if kind_of(place) is not None:
        yield "match", f"catalog://{name}/*"
        return
    if is_in_catalog(place):
        yield "match", place if "/" in place.removeprefix("catalog://") else f"{place}/*"
        return
    locations = sorted(table.location for table in tables)
    pattern = _pattern(locations) if len(locations) > 1 else None
    if pattern is not None and _is_found_by_paths(format_name, pattern):
        yield "match", pattern
        return
    if len(locations) > _MOST_LISTED:
        raise PermanentError(
            f"{len(locations)} {format_name} tables are at {place}, and they are not found by a pattern of paths: name "
            "their catalog instead"
        )
    yield from (("path", location) for location in locations)


def _pattern(locations: Sequence[str]) -> str | None:
    """Return the shortest pattern of paths that means these tables. None if they share no folder."""
    split = [location.split("/") for location in locations]
    shared = 0
    while all(len(parts) > shared + 1 and parts[shared] == split[0][shared] for parts in split):
        shared += 1
    root = "/".join(split[0][:shared])
    if not root.strip("/") or root.endswith(":/"):
        return None
    depths = {len(parts) - shared for parts in split}
    below = "/".join(["*"] * depths.pop()) if len(depths) == 1 else ANY_DEPTH
    return f"{root}/{below}/"


def _is_found_by_paths(format_name: str, pattern: str) -> bool:
    try:
        TypeAdapter(FORMATS[format_name].catalog_settings).validate_python({"type": "paths", "path": pattern})
    except ValidationError:
        return False
    return True


def _named(name: str, format_name: str, formats: Sequence[str]) -> str:
    """Return the name of a catalog. Of several formats at one address, the first one has the plain name."""
    return name if format_name == formats[0] else f"{name}_{format_name}"


def _kept_of(format_name: str, groups: Iterable[Sequence[Table]], kept: Mapping[str, int]) -> dict[str, int]:
    """Return what the newest cleans kept, of the tables of a format."""
    of_format = (table for tables in groups for table in tables if table.format == format_name)
    return {table.location: kept[table.location] for table in of_format if table.location in kept}


def _policy(format_name: str, defaults: WriterDefaults, kept: Mapping[str, int]) -> Iterator[str]:
    yield f"  {format_name}:"
    yield "    mode: observe"
    yield from (f"    # {printable(remark)}" for remark in defaults.remarks)
    if defaults.options:
        yield f"    options: {_flow(defaults.options)}"
    elif isinstance(FORMATS[format_name], ReadsWriterDefaults):
        yield "    # the lock of the writers is not known, and nothing runs beside writers without it. To set it:"
        yield "    # options: {lock: {...}} (docs/writers.md#choose-a-lock)"
    most = max(kept, key=lambda location: kept[location], default=None)
    if most is not None:
        yield f"    # clean keeps as many commits as the newest clean of {printable(most)} has kept"
    options_of = _keeping(format_name, kept[most]) if most is not None else {}
    entries = ", ".join(
        f"{service}: {options_of.get(service, '{}')}" for service in FORMATS[format_name].first_services
    )
    yield f"    services: {{{entries}}}"


def _keeping(format_name: str, commits: int) -> Mapping[Service, str]:
    """Return the policies, as text, with which so many commits are kept."""
    table_format = FORMATS[format_name]
    if not isinstance(table_format, KeepsCommits):
        return {}
    return {service: _flow({"options": options}) for service, options in table_format.keeping(commits).items()}


def _entry(key: str, value: str, format_name: str, exclude: Sequence[str], commits: int | None = None) -> str:
    fields = f"{key}: {json.dumps(value)}"
    if exclude and key == "match":
        fields += f", exclude: {json.dumps(list(exclude))}"
    fields += f"{'' if is_in_catalog(value) else f', format: {format_name}'}, policy: {format_name}"
    if commits is None:
        return f"  - {{{fields}}}"
    policies = ", ".join(f"{service}: {policy}" for service, policy in _keeping(format_name, commits).items())
    return f"  - {{{fields}, services: {{{policies}}}}}  # as much as its newest clean kept"


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(field)}" for key, field in value.items()) + "}"
    return json.dumps(value)


def sound_file(
    write: Callable[[Mapping[str, WriterDefaults]], str], by_format: Mapping[str, WriterDefaults], *, file: Path
) -> str:
    """Return the text that `write` makes of the defaults of writers. `file` is where it will be.

    If the text has an error with the options of writers, they are left out, and a remark has the error. Raises
    PermanentError if it still has one.
    """
    text = write(by_format)
    errors = _errors_in(text, file)
    if errors and any(defaults.options for defaults in by_format.values()):
        why = f"the options of the writers are left out. {errors[0]}"
        text = write({name: _without_options(defaults, why) for name, defaults in by_format.items()})
        errors = _errors_in(text, file)
    if errors:
        raise PermanentError(f"no file is written, because it would have an error: {errors[0]}")
    return text


def _without_options(defaults: WriterDefaults, why: str) -> WriterDefaults:
    return WriterDefaults(remarks=(why,)) if defaults.options else defaults


def _errors_in(text: str, file: Path) -> list[Problem]:
    problems = examine(file, to_serve=False, text=text).problems
    return [problem for problem in problems if problem.weight is Weight.ERROR]
