"""The configuration file becomes a Config. What is wrong with it is found all at once, and it is refused as a whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import Table
from lakewarden.service.config import checks, problems
from lakewarden.service.config.assembly import Assembly, Catalog, Discover
from lakewarden.service.config.document import Document, read_document
from lakewarden.service.config.facts import Facts, gather
from lakewarden.service.config.problems import Problem, Weight
from lakewarden.service.config.settings import Configuration


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """A configuration that was found right, the tables it registers, and where more of them are found."""

    settings: Configuration
    tables: tuple[Table, ...]
    catalogs: Mapping[str, Catalog]
    discover: tuple[Discover, ...]
    data_dir: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Examination:
    """All that was found of a configuration file, in the order of its lines; `config` is None with an error in it."""

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


def load(path: Path) -> Config:
    """Return what the file says. Raises PermanentError with every error in it, one line each."""
    return examine(path, to_serve=False).accepted()


def examine(path: Path, *, to_serve: bool, ask: Callable[..., Facts] = gather) -> Examination:
    """Return the configuration and everything that is wrong with it; `ask` tells what is true outside of it.

    `to_serve`: a daemon is to be started with it here and now, so that its data folder has to be usable.
    """
    document = read_document(path)
    found = list(document.problems)
    settings, wrong = _validated(document.values)
    found += wrong
    config = None
    if settings is not None and document.values is not None:
        config, more = _assembled(settings, document, to_serve=to_serve, ask=ask)
        found += more
    errors = any(problem.weight is Weight.ERROR for problem in found)
    in_order = sorted(found, key=lambda problem: problem.line or document.line(problem.at) or math.inf)
    return Examination(document=document, config=None if errors else config, problems=tuple(in_order))


def _validated(written: Mapping[str, Any] | None) -> tuple[Configuration | None, list[Problem]]:
    """Return the settings and what is wrong with them: with something wrong, the settings without it, if there are."""
    if written is None:
        return None, []
    try:
        return Configuration.model_validate(written), []
    except ValidationError as wrong:
        found = problems.problems_of(wrong, Configuration, raw=written)
        rest = problems.without_problems(wrong, written)
    try:
        return Configuration.model_validate(rest), found
    except ValidationError:
        return None, found


def _assembled(
    settings: Configuration, document: Document, *, to_serve: bool, ask: Callable[..., Facts]
) -> tuple[Config, list[Problem]]:
    assembly = Assembly(settings)
    addresses = assembly.addresses()
    secrets = checks.secrets_of(settings, assembly.catalogs)
    data_dir = (document.file.parent / settings.daemon.data_dir).absolute()
    facts = ask(
        addresses={*addresses.values(), *(table.path for table in settings.tables)},
        secrets=set(secrets.values()),
        data_dirs=[data_dir] if to_serve else [],
    )
    config = Config(
        settings=settings,
        tables=assembly.tables(facts),
        catalogs=assembly.catalogs,
        discover=assembly.discover(),
        data_dir=data_dir,
    )
    subject = checks.Subject(
        settings=settings,
        written=document.values or {},
        tables=config.tables,
        catalogs=config.catalogs,
        discover=config.discover,
        addresses=addresses,
        facts=facts,
    )
    found = [*assembly.problems, *checks.judged(subject)]
    if to_serve:
        found += checks.unusable_data_dir(facts, data_dir, config.tables)
    return config, found
