"""A small second format for tests: tables of JSON files. With it the daemon can be tried without Spark."""

from lakewarden.testing.fake.format import FAKE, FakeFormat
from lakewarden.testing.fake.table import FakeTable

__all__ = ["FAKE", "FakeFormat", "FakeTable"]
