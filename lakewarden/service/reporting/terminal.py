"""Output about tables on a terminal."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment

from lakewarden.planners.model.printable import printable


@dataclass(frozen=True, slots=True)
class ScreenPart:
    """A part of the screen with texts from outside. They cannot move the cursor, or change the direction of writing."""

    part: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the pieces of the part, each with its style."""
        for segment in console.render(self.part, options):
            yield Segment(printable(segment.text, lines=True), segment.style, segment.control)
