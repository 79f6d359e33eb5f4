"""How the commits of Lakewarden are told from those of others: the commit user has the name of the run."""

from __future__ import annotations

from lakewarden.planners.model.instant import RunId

_OURS = "lakewarden-"
_OF_MANIFESTS = ".manifests"
"""Paimon knows one kind of commit for compactions of files and of manifests. The end of the name tells them apart."""


def commit_user(run: RunId, *, of_manifests: bool = False) -> str:
    """Return the commit user of a run. No other run has it. `of_manifests`: the run merges manifests alone."""
    return f"{_OURS}{run}{_OF_MANIFESTS if of_manifests else ''}"


def run_of(user: str) -> RunId | None:
    """Return the run with this commit user. None for the commit user of another program."""
    run = user.removeprefix(_OURS)
    return RunId(run.removesuffix(_OF_MANIFESTS)) if run and run != user else None


def is_of_manifests(user: str) -> bool:
    """Whether a commit of Lakewarden with this commit user merged manifests, and no files."""
    return user.startswith(_OURS) and user.endswith(_OF_MANIFESTS)
