"""A local path with a link is resolved in a thread of its own, because a dead mount never answers."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

from lakewarden.planners.hooks import At, Hint
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage.locations import canonical_location, is_local
from lakewarden.service.state.readers.threads import PlacedThreads, place_of

_THREADS = 2
_UNDER_WAY = 64
_SECONDS = 1.0


class Links:
    """Resolves a few paths at a time, each for a second at most. If that is not enough, the hint is lost."""

    def __init__(self) -> None:
        self._threads = PlacedThreads(most=_THREADS, of_a_place=_THREADS)
        self._under_way = 0

    async def resolved(self, hint: Hint) -> At | None:
        """Return the location of the table without links, or None if there are no links, or if it takes too long."""
        if not isinstance(hint, At) or not is_local(hint.location) or self._under_way >= _UNDER_WAY:
            return None
        loop = asyncio.get_running_loop()
        answer = self._threads.submit(lambda: canonical_location(hint.location), place=place_of(hint.location))
        self._under_way += 1
        answer.add_done_callback(lambda _: loop.call_soon_threadsafe(self._done))
        try:
            location = await self._waited_for(answer)
        except (TimeoutError, OSError, PermanentError):
            return None
        return None if location == hint.location else At(location=location)

    async def _waited_for(self, answer: Future[str]) -> str:
        async with asyncio.timeout(_SECONDS):
            return await asyncio.shield(asyncio.wrap_future(answer))

    def _done(self) -> None:
        self._under_way -= 1
