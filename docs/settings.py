"""The page of the settings, from their docstrings: `python -m docs.settings` writes `settings.md` anew.

A line has the first sentence of a docstring, with the sentences about its choices and its default. The rest is for
readers of the code and of the chart's schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from lakewarden.planners.registry import FORMATS
from lakewarden.planners.settings import format_duration
from lakewarden.planners.storage.settings import Secret
from lakewarden.service.config.settings import CareSettings, CatalogEntry, Configuration, Defaults, TableSettings

PAGE = Path(__file__).parent / "settings.md"

Group = type[BaseModel]

_NAMES = {"hudi": "Hudi", "iceberg": "Iceberg", "paimon": "Paimon", "directory": "Plain directories"}
_KINDS = ("provider", "type")
"""The settings by which one of several groups is chosen."""

_HEAD = """\
# Settings

<!-- Written by `python -m docs.settings` from the docstrings of the settings. Do not edit. -->

[configuration.md](configuration.md) has the rules of the file. Durations have a unit (`500ms`, `10s`, `15m`, `2h`,
`7d`), and so have sizes (`128MiB`). A secret is `{env: NAME}` or `{file: PATH}`. `NAME` in a key stands for a name of
yours, and `[]` for each entry of a list.

"""

_TABLE = """\
These keys may stand in `defaults`, in a policy (`policies.NAME`), in a pattern and in the entry of a table. The more
special one counts.

"""


def text() -> str:
    """Return the page."""
    return "".join([_HEAD, *_sections()]).rstrip() + "\n"


def _sections() -> Iterator[str]:
    shown: set[Group] = {CareSettings, Defaults, TableSettings, CatalogEntry}
    whole = Configuration.model_fields
    plain = {name: field for name, field in whole.items() if not (set(_groups(field.annotation)) - shown)}
    yield _section("The file", _rows(plain, shown))
    for name, field in whole.items():
        if name not in plain:
            _, *rows = _rows({name: field}, shown)
            yield _section(f"`{name}`", rows, f"{_meaning(field)}\n\n")
    care = {name: Defaults.model_fields[name] for name in CareSettings.model_fields}
    described = {name: _described(CareSettings.model_fields[name], field) for name, field in care.items()}
    yield _section("A table", _rows(described, shown), _TABLE)
    own = {name: field for name, field in TableSettings.model_fields.items() if name not in care}
    yield _section("An entry of `tables`", _rows(own, shown))
    for name, table_format in FORMATS.items():
        yield f"## {_NAMES.get(name, name)}\n\n"
        above = set[str]()
        yield from _part("options", [table_format.table_options], shown, above)
        yield from _part("catalogs.NAME", _groups(table_format.catalog_settings), shown, above)
        for service, options in table_format.services.items():
            yield from _part(f"services.{service}.options", [options], shown, above)


def _part(at: str, groups: Iterable[Group], shown: set[Group], above: set[str]) -> Iterator[str]:
    """Yield the settings at one place of a format. Lines that stand above already are only named."""
    rows = list[str]()
    for group in groups:
        found = list(_of_group(group, "", {*shown}))
        rows += [row for row in found if row not in above]
        if again := [row.split("|")[1].strip() for row in found if row in above]:
            rows.append(f"| {', '.join(again)} | | As above. |\n")
        above |= set(found)
    if rows:
        yield f"### `{at}`\n\n" + _listed(rows)


def _section(heading: str, rows: Iterable[str], said: str = "") -> str:
    return f"## {heading}\n\n{said}{_listed(rows)}"


def _listed(rows: Iterable[str]) -> str:
    return "".join(["| setting | default | meaning |\n|---|---|---|\n", *dict.fromkeys(rows), "\n"])


def _rows(fields: Mapping[str, FieldInfo], shown: set[Group], before: str = "") -> Iterator[str]:
    """Yield a line for each setting, and below it those of the groups to which it leads, each group once."""
    for name, field in fields.items():
        key = f"{before}{field.alias or name}"
        groups = [group for group in _groups(field.annotation) if group not in shown]
        if name in _KINDS and not field.description:
            continue
        yield f"| `{key}` | {_default(field)} | {_meaning(field)} |\n"
        for group in groups:
            shown.add(group)
            at = f"{key}{_step(field.annotation)}"
            if len(groups) > 1 and not set(_KINDS) & set(group.model_fields):
                yield f"| `{at}` | | {_sentences(group.__doc__ or '', with_default=False)} |\n"
            yield from _of_group(group, f"{at}.", shown)


def _of_group(group: Group, before: str, shown: set[Group]) -> Iterator[str]:
    kind = next((name for name in _KINDS if name in group.model_fields), None)
    chosen = get_args(group.model_fields[kind].annotation) if kind else ()
    if chosen:
        yield f"| `{before}{kind}: {chosen[0]}` | | {_sentences(group.__doc__ or '', with_default=False)} |\n"
    yield from _rows(group.model_fields, shown, before)


def _groups(annotation: Any) -> Iterator[Group]:
    """Yield the groups to which an annotation leads, without those below them. A secret is a value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if annotation is not Secret:
            yield annotation
        return
    for argument in get_args(annotation):
        yield from _groups(argument)


def _step(annotation: Any) -> str:
    origins = {get_origin(annotation), *(get_origin(argument) for argument in get_args(annotation))}
    return ".NAME" if dict in origins else "[]" if tuple in origins else ""


def _described(said: FieldInfo, field: FieldInfo) -> FieldInfo:
    """Return the field of `defaults` with what `CareSettings` says of it, which names the choices."""
    made = FieldInfo.merge_field_infos(field)
    made.description = said.description
    return made


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if field.default_factory is not None or isinstance(value, BaseModel):
        return ""
    if isinstance(value, timedelta):
        value = format_duration(value)
    if isinstance(value, tuple):
        value = ", ".join(value) if all(isinstance(part, str) for part in value) else None
    shown = str(value).lower() if isinstance(value, bool) else str(getattr(value, "value", value))
    return f"`{shown}`" if value not in (None, "") else ""


def _meaning(field: FieldInfo) -> str:
    return _sentences(field.description or "", with_default=not _default(field)).replace("|", "\\|")


def _sentences(said: str, *, with_default: bool) -> str:
    """Return the first sentence of a docstring, and those that begin with a choice or name the default."""
    first, *others = re.split(r"(?<=[.])\s+(?=[A-Z`{0-9])", " ".join(said.split()))
    kept = [one for one in others if one.startswith("`") or (with_default and re.match(r"(The|By) default", one))]
    return " ".join([first, *kept])


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
