"""What holds for every test."""

from __future__ import annotations

from hypothesis import settings

# On a shared machine the time of one example says more about the neighbours than about the code.
settings.register_profile("lakewarden", deadline=None)
settings.load_profile("lakewarden")
