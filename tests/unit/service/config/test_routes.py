"""How routes to the workers of a table are written, and what they become."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Table
from lakewarden.service.config.loading import Config, load
from tests.support.doubles.formats import TEST_FORMATS

GIB = 2**30
PROFILES = "spark: {default: {}, large: {memory: 4g}, sales: {}, abroad: {timezone: Asia/Tokyo}}"


def loaded(folder: Path, text: str) -> Config:
    """Load a file."""
    file = folder / "lakewarden.yaml"
    file.write_text(text)
    return load(file, formats=TEST_FORMATS)


def a_table(
    folder: Path, defaults: str, *, more: str = "", services: str = "clustering: {}", profiles: str = PROFILES
) -> Table:
    """Load a file with one fake table, which has these defaults."""
    entry = f"{{id: shop.orders, format: fake, path: /x, services: {{{services}}}{more}}}"
    (table,) = loaded(folder, f"{profiles}\ndefaults: {{spark: {defaults}}}\ntables: [{entry}]").tables
    return table


@pytest.mark.parametrize(
    ("route", "more"),
    [
        ("formats: [fake]", ""),
        ("tables: ['shop.*']", ""),
        ("tables: [stock, shop.orders]", ""),
        ("labels: {domain: sales}", ", labels: {domain: sales, tier: gold}"),
        ("services: [clustering]", ""),
        ("plan_at_least: 10GiB", ""),
    ],
)
def test_the_first_route_that_a_run_can_take_leads_it(tmp_path: Path, route: str, more: str) -> None:
    """By the format, the name, the labels, the service or the size of the plan."""
    table = a_table(tmp_path, f"{{route: [{{{route}, to: large}}, {{to: sales}}], otherwise: default}}", more=more)
    assert table.profile_of(Service.CLUSTERING, 10 * GIB) == "large"
    assert "large" in table.profiles()


@pytest.mark.parametrize(
    "route",
    [
        "formats: [hudi]",
        "tables: [orders]",
        "labels: {domain: sales}",
        "services: [compaction]",
        "plan_at_least: 10GiB",
        "formats: [fake], services: [clustering], labels: {domain: stock}",
    ],
)
def test_a_route_is_not_taken_if_one_of_its_conditions_does_not_hold(tmp_path: Path, route: str) -> None:
    """Then the next one is tried."""
    table = a_table(tmp_path, f"{{route: [{{{route}, to: large}}, {{to: sales}}]}}", more=", labels: {domain: shop}")
    assert table.profile_of(Service.CLUSTERING, 10 * GIB - 1) == "sales"


def test_a_plan_of_unknown_size_takes_no_route_for_large_ones(tmp_path: Path) -> None:
    """It stays with the workers for everything else."""
    table = a_table(tmp_path, "{route: [{plan_at_least: 1B, to: large}]}")
    assert table.profile_of(Service.CLUSTERING, None) == "default"
    assert table.profiles() == {"default", "large"}


def test_the_more_special_setting_counts(tmp_path: Path) -> None:
    """The profile of a service over all routes, and that of a table over the routes of the defaults."""
    route = "{route: [{to: large}]}"
    assert a_table(tmp_path, route).profiles() == {"large"}
    assert a_table(tmp_path, route, more=", spark: sales").profiles() == {"sales"}
    own = a_table(tmp_path, route, services="clustering: {spark: sales}, clean: {}")
    assert (own.profile_of(Service.CLUSTERING), own.profile_of(Service.CLEAN)) == ("sales", "large")


def test_only_the_profiles_that_runs_can_have_are_those_of_a_table(tmp_path: Path) -> None:
    """For each of them workers are started."""
    routes = "{route: [{services: [clean], to: sales}, {services: [clustering], to: large}], otherwise: default}"
    assert a_table(tmp_path, routes).profiles() == {"large"}
    assert a_table(tmp_path, routes, services="clustering: {}, compaction: {}").profiles() == {"large", "default"}


def test_tables_that_are_found_later_take_the_routes_of_their_names(tmp_path: Path) -> None:
    """A pattern stands for tables whose ids are not known yet. Workers are started for all that they may need."""
    text = f"""{PROFILES}
defaults:
  mode: act
  spark: {{route: [{{tables: ['*.orders'], to: large}}, {{formats: [iceberg], to: sales}}]}}
catalogs: {{lake: {{format: iceberg, type: rest, uri: 'http://localhost:1'}}}}
tables: [{{match: 'catalog://lake/shop.*', services: {{clustering: {{}}}}}}]
"""
    (found,) = loaded(tmp_path, text).discover
    assert found.any_table.profiles() == {"large", "sales"}
    orders, stock = (found.table(name) for name in ("shop.orders", "shop.stock"))
    assert (orders.profile_of(Service.CLUSTERING), stock.profile_of(Service.CLUSTERING)) == ("large", "sales")


@pytest.mark.parametrize(
    ("spark", "said"),
    [
        ("{route: [{to: huge}]}", "there is no spark profile 'huge'"),
        ("{route: [{tables: [other], to: huge}]}", "spark.route[0].to: there is no spark profile 'huge'"),
        ("{otherwise: huge}", "there is no spark profile 'huge'"),
        ("{route: [{services: [clustering], to: abroad}]}", "one table has one zone"),
        ("{route: [{services: [clustering], to: large}]}", "the workers of 'large' have no bundle of fake"),
        ("{route: [{formats: [hoodie], to: default}]}", "spark.route[0].formats: 'hoodie' is not a format"),
        ("{route: [{services: [clusterin], to: default}]}", "did you mean clustering?"),
        ("{route: [{plan: 1GiB, to: default}]}", "unknown key"),
        ("{route: [{services: [clean]}]}", "spark.route[0].to: is missing"),
        ("3", "spark: needs the name of a spark profile, or route and otherwise below it, not 3"),
    ],
)
def test_a_route_that_leads_nowhere_is_refused(tmp_path: Path, spark: str, said: str) -> None:
    """By the key that is wrong, before anything starts."""
    profiles = "spark: {default: {formats: [fake]}, large: {formats: [hudi]}, "
    profiles += "abroad: {formats: [fake], timezone: Asia/Tokyo}}"
    with pytest.raises(PermanentError, match=re.escape(said)):
        a_table(tmp_path, spark, more=", mode: act", profiles=profiles)


def test_no_route_leads_to_executors_that_may_outlive_their_worker(tmp_path: Path) -> None:
    """The way there makes no difference."""
    profiles = "spark: {default: {formats: [fake]}, large: {formats: [fake], master: 'k8s://host:6443'}}"
    route = "{route: [{plan_at_least: 1GiB, to: large}]}"
    assert a_table(tmp_path, route, more=", mode: plan", profiles=profiles).mode is Mode.PLAN
    with pytest.raises(PermanentError, match=re.escape("set spark.large.master to local[*]")):
        a_table(tmp_path, route, more=", mode: act", profiles=profiles)
