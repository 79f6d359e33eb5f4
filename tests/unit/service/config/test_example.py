"""The example configuration works as it is, and the page of the settings has every setting."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from docs import settings
from lakewarden.planners.model.table import Mode
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.storage.settings import Secret
from lakewarden.service.config.loading import load
from lakewarden.service.config.settings import Configuration

ROOT = Path(__file__).parents[4]
EXAMPLE = ROOT / "config.example.yaml"
PAGE = settings.text()


def _groups(annotation: Any) -> Iterator[type[BaseModel]]:
    """Return the settings groups that an annotation leads to, and those that lie below them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from _groups(field.annotation)
    for argument in get_args(annotation):
        yield from _groups(argument)


TYPES: list[type[BaseModel]] = [Configuration]
TYPES += [made for one in FORMATS.values() for made in (one.table_options, *one.services.values())]
TYPES += [one.catalog_settings for one in FORMATS.values() if one.catalog_settings is not None]
FIELDS = sorted(
    {(group, name) for root in TYPES for group in _groups(root) for name in group.model_fields},
    key=lambda field: (field[0].__name__, field[1]),
)


def test_the_example_works_as_it_is() -> None:
    """It has no error, serves every format, and changes nothing. People read it, so it is short."""
    config = load(EXAMPLE)

    assert {table.format for table in config.tables} | {"hudi"} == set(FORMATS)
    assert {table.mode for table in config.tables} == {Mode.OBSERVE}
    assert [source.pattern.match for source in config.discover] == [
        "s3://lake/streams/*/",
        "s3://lake/streams/*/",
        "catalog://prod/sales.*",
    ]
    assert config.discover[2].table("sales.parcels").id == "prod.sales.parcels"
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= 80


@pytest.mark.parametrize(("group", "name"), FIELDS, ids=lambda part: getattr(part, "__name__", part))
def test_every_setting_says_what_it_means(group: type[BaseModel], name: str) -> None:
    """Meaning, default and consequence stand where a setting is declared; `provider` and `type` by their class."""
    described = group.model_fields[name].description or (group.__doc__ if name in ("provider", "type") else "")

    assert described


def test_every_setting_is_on_the_page() -> None:
    """A setting that is not there is one that nobody finds."""
    keys = {group.model_fields[name].alias or name for group, name in FIELDS if group is not Secret}

    assert len(keys) > 150
    assert sorted(key for key in keys if not re.search(rf"[`.]{key}[`:]", PAGE)) == []


def test_the_page_of_settings_is_what_the_docstrings_say() -> None:
    """After a setting was added or described anew, `python -m docs.settings` writes the page."""
    assert settings.PAGE.read_text(encoding="utf-8") == PAGE
