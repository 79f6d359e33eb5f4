"""One act on the folder of a partition, with its journal: the same for an exchange and for a deletion."""

from __future__ import annotations

from collections.abc import Callable

from lakewarden.executors.points import Point
from lakewarden.executors.programs.directory.exchanging import record as records
from lakewarden.executors.programs.directory.exchanging.ending import (
    STAGED_FOLDER,
    Reach,
    Relist,
    end_exchange,
    sync_both,
)
from lakewarden.executors.programs.directory.exchanging.record import ExchangeRecord
from lakewarden.executors.programs.directory.exchanging.renames import is_of_one_place
from lakewarden.planners.storage.empty_files import RefusedPlaceError


def carried_out(
    record: ExchangeRecord,
    table: str,
    home: str,
    *,
    act: Callable[[str, str], None],
    reach: Reach,
    relist: Relist = lambda _: None,
) -> bool:
    """Write the journal, act, and end the exchange. Return whether the act stands.

    `act` takes the folder in `home` and the place of the partition. It is one act of the kernel. If the kernel refuses
    it at this place, or the metastore refuses the partition, it stays as it was, and the error is raised.
    """
    place, staged = f"{table}/{record.partition}", f"{home}/{STAGED_FOLDER}"
    records.write(home, record)
    reach(Point.PROPOSED)
    try:
        act(staged, place)
    except (OSError, RefusedPlaceError) as error:
        if isinstance(error, RefusedPlaceError) or is_of_one_place(error):
            end_exchange(table, home, reach, relist=relist)
        raise
    sync_both(place, staged)
    reach(Point.EXCHANGED)
    return end_exchange(table, home, reach, relist=relist)
