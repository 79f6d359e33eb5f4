"""The survey of a directory: the sums of its folders."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from math import ceil

from lakewarden.planners.formats.directory.format import DIRECTORY
from lakewarden.planners.formats.directory.options.compaction_options import CompactionOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table
from lakewarden.planners.ports import Storage
from lakewarden.planners.surveying.contents import Amount, Contents, Rewrite, Survey
from lakewarden.planners.triggers import SmallFiles


class DirectorySurveyor:
    """Surveys directories. The owner of one has to say how far back its writers may restore, so nothing is due."""

    @property
    def sign(self) -> None:
        """Return None: any folder could be one. `--format directory` says that it is."""
        return

    @property
    def policies(self) -> Mapping[Service, Policy]:
        """Return the one for small files."""
        return {Service.COMPACTION: Policy(trigger=SmallFiles(at_least=20), options=CompactionOptions())}

    def survey(self, table: Table, storage: Storage, *, now: datetime) -> Survey:
        """Return the survey. Raises what observing raises."""
        observation = DIRECTORY.observe(table, storage, None, now=now)
        live = small = Amount()
        rewrite = Rewrite()
        options = CompactionOptions()
        for folder in observation.memo.folders.values():
            live = live.plus(Amount(folder.files, folder.bytes))
            small = small.plus(Amount(folder.small, folder.small_bytes))
            after = max(1, ceil(folder.small_bytes / options.target_file_size))
            if folder.small >= options.min_input_files and after < folder.small:
                rewrite = Rewrite(
                    rewrite.files + folder.small, rewrite.bytes + folder.small_bytes, rewrite.after + after
                )
        contents = Contents(live=live, small=small, rewrites={Service.COMPACTION: rewrite})
        return Survey(view=observation.view, contents=contents)


SURVEYOR = DirectorySurveyor()
