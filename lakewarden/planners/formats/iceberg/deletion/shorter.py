"""Whether the policy of clean keeps less than the properties of the table say. Readers may count on those. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from lakewarden.planners.decoding.numbers import counted
from lakewarden.planners.formats.iceberg.metadata.parsing import span
from lakewarden.planners.formats.iceberg.options.service_options import CleanOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import KeptMore
from lakewarden.planners.settings import format_duration

_AGE = "history.expire.max-snapshot-age-ms"
_COUNT = "history.expire.min-snapshots-to-keep"


def kept_more(table: Table, properties: Mapping[str, str]) -> Mapping[Service, KeptMore]:
    """Return what the properties keep and the policy does not. A property that is not set, or is no number, keeps
    nothing.
    """
    policy = table.policies.get(Service.CLEAN)
    options = None if policy is None else policy.options
    if not isinstance(options, CleanOptions):
        return {}
    found = [*_age(options, counted(properties.get(_AGE, ""))), *_count(options, counted(properties.get(_COUNT, "")))]
    return {Service.CLEAN: KeptMore(says=" and ".join(found))} if found else {}


def _age(options: CleanOptions, stated: int | None) -> Iterator[str]:
    age = options.max_snapshot_age
    if age is not None and stated is not None and age < (kept := span(stated)):
        yield f"the policy keeps snapshots of {format_duration(age)}, where {_AGE} says {_said(kept)}"


def _count(options: CleanOptions, stated: int | None) -> Iterator[str]:
    least = options.min_snapshots_to_keep
    if least is not None and stated is not None and least < stated:
        yield f"the policy keeps at least {least:,} snapshots, where {_COUNT} says {stated:,}"


def _said(kept: timedelta) -> str:
    return "for ever" if kept > timedelta(days=36_500) else format_duration(kept)
