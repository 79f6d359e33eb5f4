"""Iceberg's own rewriters, one for each way to rewrite a file group.

Iceberg's actions plan, write and commit in one call. Their parts are not public, so the constructors are called by
reflection. The version of the bundle is pinned (`on_spark.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError

from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.planners.formats.iceberg.options.service_options import ClusteringOptions, SortedBy, parse_sort_order
from lakewarden.planners.model.errors import PermanentError

_PACKAGE = "org.apache.iceberg.spark.actions"

MakeRunner = Callable[[OpenTable, Any], Any]
"""Returns the rewriter of a run. Its jobs run in the given `org.apache.spark.sql.SparkSession`."""


def bin_packing(table: OpenTable, java_session: Any) -> Any:
    """Return the rewriter that joins files and keeps the order of their rows."""
    return _constructed(table, "SparkBinPackFileRewriteRunner", java_session, table.java)


def ordering(options: ClusteringOptions) -> MakeRunner:
    """Return a function that makes the rewriter for `options`."""

    def make(table: OpenTable, java_session: Any) -> Any:
        if options.zorder:
            columns = table.jvm.java.util.ArrayList(list(options.zorder))
            return _constructed(table, "SparkZOrderFileRewriteRunner", java_session, table.java, columns)
        if options.sort_order is None:
            return _constructed(table, "SparkSortFileRewriteRunner", java_session, table.java)
        order = _java_order(table, parse_sort_order(options.sort_order))
        return _constructed(table, "SparkSortFileRewriteRunner", java_session, table.java, order)

    return make


def require_columns(table: OpenTable, options: ClusteringOptions) -> None:
    """Raise PermanentError if the options name a column that the table does not have."""
    sorted_by = () if options.sort_order is None else parse_sort_order(options.sort_order)
    for name in (*options.zorder, *(column for column, _, _ in sorted_by)):
        if table.java.schema().findField(name) is None:
            raise PermanentError(
                f"clustering orders by {name}, which is not a column of the table: set sort_order or zorder of "
                "its policy "
                "anew"
            )


def _java_order(table: OpenTable, columns: Sequence[SortedBy]) -> Any:
    """Return an `org.apache.iceberg.SortOrder`."""
    nulls = table.jvm.org.apache.iceberg.NullOrder
    builder = table.jvm.org.apache.iceberg.SortOrder.builderFor(table.java.schema())
    for column, descending, nulls_last in columns:
        add = builder.desc if descending else builder.asc
        add(column, nulls.NULLS_LAST if nulls_last else nulls.NULLS_FIRST)
    return builder.build()


def _constructed(table: OpenTable, name: str, *arguments: Any) -> Any:
    """Return a new object of a class that is not public. Raises PermanentError if the bundle has no such class."""
    java = table.jvm.java.lang
    try:
        java_class = java.Thread.currentThread().getContextClassLoader().loadClass(f"{_PACKAGE}.{name}")
    except Py4JJavaError as error:
        raise _another_bundle(name) from error
    for constructor in java_class.getDeclaredConstructors():
        if constructor.getParameterCount() == len(arguments):
            constructor.setAccessible(True)
            return constructor.newInstance(_array(table, arguments))
    raise _another_bundle(name)


def _another_bundle(name: str) -> PermanentError:
    return PermanentError(
        f"the Iceberg bundle on the class path has no {name} as 1.11 has it: let the profile use Lakewarden's own "
        "bundle (remove others from `spark.driver.extraClassPath`)"
    )


def _array(table: OpenTable, arguments: Sequence[Any]) -> Any:
    gateway = table.spark.sparkContext._gateway  # noqa: SLF001 - pyspark's own access to py4j
    array = gateway.new_array(table.jvm.java.lang.Object, len(arguments))
    for at, argument in enumerate(arguments):
        array[at] = argument
    return array
