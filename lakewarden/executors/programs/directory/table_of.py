"""The directory of a run, as its format knows it."""

from __future__ import annotations

from lakewarden.executors.contract import Assignment
from lakewarden.planners.formats.directory.format import DIRECTORY
from lakewarden.planners.formats.directory.options.table_options import DirectoryTableOptions
from lakewarden.planners.model.table import Policy, Table
from lakewarden.planners.storage import canonical_location
from lakewarden.planners.triggers import NumCommits


def table_of(assignment: Assignment) -> Table:
    """Return the table that a run is about, with the one policy that it carries out."""
    options = DIRECTORY.services[assignment.service].model_validate(dict(assignment.service_options))
    return Table(
        id=assignment.table,
        format=assignment.format,
        location=canonical_location(assignment.location),
        options=DirectoryTableOptions.model_validate(dict(assignment.table_options)),
        policies={assignment.service: Policy(trigger=NumCommits(at_least=1), options=options)},
    )
