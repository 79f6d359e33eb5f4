"""A second, small format that ships as a fake: tables of JSON files, to try the daemon without Spark."""

from lakewarden.planners.formats.fake.format import FAKE, FakeFormat
from lakewarden.planners.formats.fake.table import FakeTable

__all__ = ["FAKE", "FakeFormat", "FakeTable"]
