"""A small second format for tests: tables of JSON files. With it the daemon can be tried without Spark."""

from tests.support.doubles.fake.format import FAKE, FakeFormat
from tests.support.doubles.fake.table import FakeTable

__all__ = ["FAKE", "FakeFormat", "FakeTable"]
