"""What is shown of tables on a terminal."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment

from lakewarden.planners.model.printable import printable


@dataclass(frozen=True, slots=True)
class Shown:
    """A part of the screen whose texts come from outside: nothing in them moves the cursor, or turns the line round."""

    part: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the part's own pieces, each with its style."""
        for segment in console.render(self.part, options):
            yield Segment(printable(segment.text, lines=True), segment.style, segment.control)
