"""The example configuration is true."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from lakewarden.planners.registry import FORMATS
from lakewarden.service.config.loading import load
from lakewarden.service.config.settings import Configuration

EXAMPLE = Path(__file__).parents[4] / "config.example.yaml"


def _groups(annotation: Any) -> Iterator[type[BaseModel]]:
    """Return the settings groups that an annotation leads to, and those that lie below them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from _groups(field.annotation)
    for argument in get_args(annotation):
        yield from _groups(argument)


SHOWN = (FORMATS["hudi"], FORMATS["iceberg"], FORMATS["paimon"], FORMATS["directory"])
TYPES: list[type[BaseModel]] = [Configuration]
TYPES += [made for one in SHOWN for made in (one.table_options, *one.services.values())]
TYPES += [one.catalog_settings for one in SHOWN if one.catalog_settings is not None]
FIELDS = sorted(
    {(group, name) for root in TYPES for group in _groups(root) for name in group.model_fields},
    key=lambda field: (field[0].__name__, field[1]),
)


def test_the_example_loads() -> None:
    """Whoever copies the example starts from a configuration without a problem."""
    config = load(EXAMPLE)

    assert [table.id for table in config.tables] == [
        "sales.orders",
        "trial.events",
        "archive.returns",
        "sales.returns",
        "sales.refunds",
        "landing.clicks",
        "landing.views",
    ]
    assert config.tables[3].catalog == config.catalogs["lake"].settings
    assert [source.pattern.match for source in config.discover] == [
        "catalog://lake/sales.*",
        "s3://lake/streams/*/",
        "s3://lake/streams/*/",
        "catalog://landing/*",
        "catalog://hudi_metastore/*",
    ]
    assert config.discover[0].table("sales.parcels").id == "lake.sales.parcels"


@pytest.mark.parametrize(("group", "name"), FIELDS, ids=lambda part: getattr(part, "__name__", part))
def test_every_setting_stands_in_the_example(group: type[BaseModel], name: str) -> None:
    """A setting that is not in the example is one that nobody finds."""
    key = group.model_fields[name].alias or name

    assert re.search(rf"(^|[\s{{,]){key}:", EXAMPLE.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("group", "name"), FIELDS, ids=lambda part: getattr(part, "__name__", part))
def test_every_setting_says_what_it_means(group: type[BaseModel], name: str) -> None:
    """Meaning, default and consequence stand where a setting is declared; `provider` and `type` by their class."""
    described = group.model_fields[name].description or (group.__doc__ if name in ("provider", "type") else "")

    assert described


@pytest.mark.parametrize("section", ["daemon", "database", "api", "management", "permits", "defaults"])
def test_the_example_shows_the_defaults(section: str) -> None:
    """The example says that it shows defaults: a changed default must change it too."""
    assert getattr(load(EXAMPLE).settings, section) == getattr(Configuration(), section)


def test_the_examples_spark_profile_is_the_default_one() -> None:
    """The profile that is written out is the one that is there without being written, but for its example of conf."""
    shown = load(EXAMPLE).settings.spark["default"]

    assert shown.model_copy(update={"conf": {}}) == Configuration().spark["default"]
