"""Every number, duration and size of the configuration lies between bounds that stand where the setting is declared."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.settings import Within
from lakewarden.service.config.loading import load
from lakewarden.service.config.settings import Configuration

TYPES: list[Any] = [Configuration]
TYPES += [made for one in FORMATS.values() for made in (one.table_options, one.catalog_settings) if made is not None]
TYPES += [options for one in FORMATS.values() for options in one.services.values()]


def _groups(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from _groups(field.annotation)
            for said in field.metadata:
                yield from _groups(said)
    for argument in get_args(annotation):
        yield from _groups(argument)


FIELDS = sorted(
    {(group, name) for root in TYPES for group in _groups(root) for name in group.model_fields},
    key=lambda field: (field[0].__module__, field[0].__name__, field[1]),
)


def _without_bounds(annotation: Any, metadata: list[Any]) -> list[Any]:
    """Return the types of numbers to which an annotation leads without naming their bounds."""
    if get_origin(annotation) is Annotated:
        return _without_bounds(get_args(annotation)[0], [*metadata, *get_args(annotation)[1:]])
    if any(isinstance(said, Within) for said in metadata):
        return []
    if annotation in (int, float, timedelta):
        return [annotation]
    return [found for argument in get_args(annotation) for found in _without_bounds(argument, [])]


@pytest.mark.parametrize(("group", "name"), FIELDS, ids=lambda part: getattr(part, "__name__", part))
def test_no_number_is_without_bounds(group: type[BaseModel], name: str) -> None:
    """A setting that is added without `Within` fails here: its lowest and highest value belong where it is declared."""
    field = group.model_fields[name]

    assert _without_bounds(field.annotation, field.metadata) == []


def test_every_default_lies_within_its_bounds() -> None:
    """What nobody wrote down is never refused."""
    bounded = 0
    for group, name in FIELDS:
        field = group.model_fields[name]
        if not field.is_required() and any(isinstance(said, Within) for said in field.metadata):
            kind: Any = Annotated[(field.annotation, *field.metadata)]
            TypeAdapter(kind).validate_python(field.default)
            bounded += 1
    assert bounded > 20


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("defaults: {poll: 0s}", "defaults.poll: 0s is too low: write 100ms to 1d"),
        ("defaults: {poll: 1ms}", "defaults.poll: 1ms is too low: write 100ms to 1d"),
        ("permits: {step: 0s}", "permits.step: 0s is too low: write 1m to 7d"),
        (
            "daemon: {keep_runs: 999999999999d}",
            "daemon.keep_runs: 999999999999d is too high: write 1h to 3650d",
        ),
        (f"daemon: {{drain: {'9' * 5000}h}}", "daemon.drain: 999"),
        ("daemon: {lease: 9s}", "daemon.lease: 9s is too low: write 10s to 1h"),
        ("api: {port: 99999}", "api.port: 99999 is too high: write 1 to 65535"),
        ("api: {port: true}", "api.port: true is not a number: write 1 to 65535"),
        ("defaults: {budget: {percent: .nan}}", "defaults.budget.percent: "),
        ("defaults: {budget: {percent: .inf}}", "defaults.budget.percent: "),
        (f"defaults: {{budget: {{files: {'9' * 400}}}}}", "defaults.budget.files: "),
        (
            "spark: {default: {memory: 0m}}",
            "spark.default.memory: '0m' is not a heap that a session can work with: write",
        ),
        ("spark: {default: {memory: 9999999g}}", "spark.default.memory: '9999999g' is not a heap"),
        (
            "spark: {default: {hung_after: 1s}}",
            "spark.default: hung_after: 1s kills a worker before it can report twice",
        ),
        ("storage: [{prefix: 's3://', timeout: 0s}]", "storage[0].timeout: 0s is too low: write 100ms to 10m"),
    ],
)
def test_what_would_spin_or_wait_for_ever_is_refused(tmp_path: Path, written: str, problem: str) -> None:
    """With the value as it was written, and both bounds."""
    assert _refused(tmp_path, written).startswith(problem)


@pytest.mark.parametrize(
    ("services", "problem"),
    [
        ("compaction: {trigger: {time_elapsed: 0s}}", "compaction.trigger: time_elapsed: 0s is too low: write 1s to"),
        ("compaction: {trigger: {time_elapsed: 99999999d}}", "compaction.trigger: time_elapsed: 99999999d is too high"),
        ("compaction: {trigger: {num_commits: 2000000}}", "compaction.trigger: num_commits: 2000000 is too high: "),
        ("compaction: {trigger: {log_bytes: 9999999TiB}}", "compaction.trigger: log_bytes: 9999999TiB is too high"),
        ("clean: {grace: 0s}", "clean.grace: 0s is too low: write 1s to 30d"),
        (
            "rollback: {options: {without_heartbeat_after: 30s}}",
            "rollback.options.without_heartbeat_after: 30s is too low: write 10m to 3650d",
        ),
        ("ttl: {options: {days_retain: 99999999}}", "ttl.options.days_retain: 99999999 is too high: write 1 to 36500"),
    ],
)
def test_what_a_policy_says_has_bounds_too(tmp_path: Path, services: str, problem: str) -> None:
    """A trigger that always fires, and a writer that is called dead before it may have beaten."""
    text = f"tables: [{{id: a, format: hudi, path: /x, services: {{{services}}}}}]"

    assert _refused(tmp_path, text).startswith(f"tables[0].services.{problem}")


@pytest.mark.parametrize("value", ["1d", "100ms", "86400s"])
def test_both_bounds_may_be_taken(tmp_path: Path, value: str) -> None:
    """They are the lowest and the highest values, not the first that are wrong."""
    file = tmp_path / "lakewarden.yaml"
    file.write_text(f"defaults: {{poll: {value}}}")

    assert load(file).settings.defaults.poll in (timedelta(days=1), timedelta(milliseconds=100))


def test_a_text_has_a_length_that_people_write(tmp_path: Path) -> None:
    """What looks at a text may take a time that grows faster than its length."""
    with pytest.raises(ValidationError, match="at most 8192 characters"):
        Configuration.model_validate({"tables": [{"id": "a", "format": "hudi", "path": "/" * 8193}]})
    assert len(_refused(tmp_path, f"tables: [{{id: a, format: hudi, path: /{'x' * 9000}}}]")) < 300


def _refused(folder: Path, text: str) -> str:
    """Return the one problem of a file, without the file's name."""
    file = folder / "lakewarden.yaml"
    file.write_text(text)
    with pytest.raises(PermanentError) as refused:
        load(file)
    (line,) = str(refused.value).splitlines()
    return line.removeprefix(f"{file}:1: ")
