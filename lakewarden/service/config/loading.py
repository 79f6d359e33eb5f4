"""The configuration file becomes a Config. All its problems are found at once. With an error the whole file is
refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.registry import FORMATS
from lakewarden.service.config import checks, problems
from lakewarden.service.config.assembly import Assembly
from lakewarden.service.config.checks import Facts, gather
from lakewarden.service.config.daemon import changed_keys, merged
from lakewarden.service.config.document import Document, document_of, read_document
from lakewarden.service.config.layers.making import homes, with_formats
from lakewarden.service.config.layers.patterns import ConfiguredCatalog, Discover
from lakewarden.service.config.problems import Problem, Weight
from lakewarden.service.config.settings import Configuration


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """A configuration without errors, its tables, its discovery entries, and the canonical locations of its roots."""

    settings: Configuration
    tables: tuple[Table, ...]
    catalogs: Mapping[str, ConfiguredCatalog]
    discover: tuple[Discover, ...]
    data_dir: Path
    roots: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Examination:
    """The result of a configuration file. Problems are in the order of its lines. With an error `config` is None."""

    document: Document
    config: Config | None
    problems: tuple[Problem, ...]

    def of(self, weight: Weight) -> list[str]:
        """Return the problems of this weight, one line each."""
        return [self.document.told(problem) for problem in self.problems if problem.weight is weight]

    def accepted(self) -> Config:
        """Return the configuration. Raises PermanentError with every error, one line each."""
        if self.config is None:
            raise PermanentError("\n".join(self.of(Weight.ERROR)))
        return self.config


def load(path: Path, *, formats: Mapping[str, TableFormat] = FORMATS) -> Config:
    """Return the configuration in the file. Raises PermanentError with every error in it, one line each."""
    return examine(path, to_serve=False, formats=formats).accepted()


def examine(
    path: Path,
    *,
    to_serve: bool,
    ask: Callable[..., Facts] = gather,
    formats: Mapping[str, TableFormat] = FORMATS,
    started_with: Mapping[str, Any] | None = None,
    text: str | None = None,
    look: bool = False,
) -> Examination:
    """Return the configuration and all its problems. `ask` reads the facts outside of it. `text` is what the file would
    have, if it is not written yet.

    `to_serve`: a daemon is to be started with it here and now, so its data folder must be usable. `started_with` is the
    document of a running daemon. All that is not read again is taken from there. `look`: the folders of tables are
    looked into, which the process of a daemon does not do.
    """
    document = read_document(path) if text is None else document_of(text, file=path)
    problems = list(document.problems)
    values = document.values
    if values is not None and started_with is not None:
        values = merged(started_with, values)
    settings, written, wrong = _validated(values, formats)
    problems += wrong
    config = None
    if settings is not None:
        config, more = assembled(
            settings, written, document.file, to_serve=to_serve, ask=ask, formats=formats, look=look
        )
        places = {problem.at for problem in problems}
        problems += (problem for problem in more if problem.at not in places)
    if started_with is not None and any(problem.weight is Weight.ERROR for problem in problems):
        alone = {one.at for one in examine(path, to_serve=to_serve, ask=ask, formats=formats, text=text).problems}
        changed = ", ".join(changed_keys(started_with, document.values or {}))
        restart = f"needs a restart, because {changed} of the file is read only at the start of the daemon"
        problems = [
            problem if problem.at in alone else replace(problem, sentence=f"{restart}. Until then: {problem.sentence}")
            for problem in problems
        ]
    errors = any(problem.weight is Weight.ERROR for problem in problems)
    in_order = sorted(problems, key=lambda problem: problem.line or document.line(problem.at) or math.inf)
    return Examination(document=document, config=None if errors else config, problems=tuple(in_order))


def _validated(
    written: Mapping[str, Any] | None, formats: Mapping[str, TableFormat]
) -> tuple[Configuration | None, Mapping[str, Any], list[Problem]]:
    """Return the settings, the values that they were read from, and their problems. With problems, return the settings
    without the wrong keys, if possible.
    """
    if written is None:
        return None, {}, []
    try:
        return Configuration.model_validate(written), written, []
    except ValidationError as wrong:
        complaints = problems.problems_of(wrong, Configuration, raw=written, homes=homes(formats.values()))
        rest = problems.without_problems(wrong, written)
    try:
        return Configuration.model_validate(rest), rest, complaints
    except ValidationError:
        return None, rest, complaints


def assembled(
    settings: Configuration,
    written: Mapping[str, Any],
    file: Path,
    *,
    to_serve: bool,
    ask: Callable[..., Facts],
    formats: Mapping[str, TableFormat],
    look: bool = False,
) -> tuple[Config, list[Problem]]:
    """Return the configuration of settings, and its problems. `written` is what the settings were read from."""
    assembly = Assembly(settings, formats, written, file=file.name)
    addresses = assembly.addresses()
    secrets = checks.secrets_of(settings, assembly.catalogs)
    data_dir = (file.parent / settings.daemon.data_dir).absolute()
    facts = ask(
        addresses={*addresses.values(), *assembly.paths().values(), *assembly.roots(), *settings.roots},
        secrets=set(secrets.values()),
        data_dirs=[data_dir] if to_serve else [],
        untold=assembly.untold(),
        told=assembly.told() if look else {},
        stores=settings.storage,
    )
    tables, discover = assembly.assembled(facts)
    spark = with_formats(settings.spark, [*tables, *(pattern.any_table for pattern in discover)])
    config = Config(
        settings=settings.model_copy(update={"spark": spark}),
        tables=tables,
        catalogs=assembly.catalogs,
        discover=discover,
        data_dir=data_dir,
        roots=checks.roots_of(settings, facts),
    )
    subject = checks.Subject(
        settings=settings,
        formats=formats,
        written=written,
        tables=config.tables,
        catalogs=config.catalogs,
        discover=config.discover,
        addresses=addresses,
        facts=facts,
    )
    problems = [*assembly.problems, *checks.judged(subject)]
    if to_serve:
        problems += checks.unusable_data_dir(facts, data_dir, config.tables)
    return config, problems
