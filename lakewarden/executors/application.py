"""The identity of executors on other machines. With it another process can learn later that they have ended."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass

_LONGEST_SECONDS = 600.0
"""How long the executors of an application count as alive if the row of its run cannot be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterApplication:
    """The application of one driver on a standalone cluster. Its executors may outlive the driver.

    `web_ui` is where the master tells of its applications, or None if that is not known. `executors_end_within` is how
    many seconds after the last answer of their driver the executors have ended by themselves. It is a fact of the
    application: the profile may have changed since, and another replica may have another one.
    """

    master: str
    application: str
    web_ui: str | None
    executors_end_within: float

    def to_text(self) -> str:
        """Return it as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> ClusterApplication:
        """Return what `to_text` wrote. Raises ValueError for anything else."""
        try:
            made = cls(**json.loads(text))
            words = (made.master, made.application, made.web_ui or "")
            if all(isinstance(word, str) for word in words) and 0 < made.executors_end_within < math.inf:
                return made
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"{text[:200]!r} is not an application of a cluster") from error
        raise ValueError(f"{text[:200]!r} is not an application of a cluster")

    @classmethod
    def of_row(cls, text: str) -> ClusterApplication:
        """Return the application in the row of a run. If it cannot be read, a later version wrote it, and only time
        helps.
        """
        try:
            return cls.from_text(text)
        except ValueError:
            return cls(
                master="",
                application=text[:60],
                web_ui=None,
                executors_end_within=_LONGEST_SECONDS,
            )
