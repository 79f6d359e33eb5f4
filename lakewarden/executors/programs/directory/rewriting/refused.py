"""Why a partition stays as it is."""

from __future__ import annotations


class NotRewrittenError(Exception):
    """The files of a partition are not rewritten. The message says why. Others of the same run may be."""
