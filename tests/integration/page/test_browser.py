"""The page in a real browser: Chromium, with a daemon over a fake table. It judges what a person sees and can do."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Route, expect, sync_playwright

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import DeletionBudget, TableId
from lakewarden.service.model.access import ActKind, Caller, Role
from tests.support.daemon.daemon_harness import prepare
from tests.unit.service.http.conftest import ServedDaemon

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HOSTILE = """a"><img src=x onerror=alert(1)>'{{7*7}}&amp;%2e"""
REASON = "hands off: grün"
"""What is typed where a button asks for a reason."""
PATHS = ["/", "/tables/{table}", "/runs", "/runs/{run}", "/acts", "/sign-in"]
DEVICES: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 900}},
    "phone": {"color_scheme": "light", "viewport": {"width": 360, "height": 740}},
}

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on the PATH: apt-get install chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=30_000)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def make_daemon(tmp_path: Path) -> Iterator[Callable[..., ServedDaemon]]:
    """Return what starts a daemon with a table of three commits. A `prepared` one has files to delete, too. The
    compaction of a `quarantined` one is in quarantine.
    """
    with ExitStack() as life:

        def build(*, prepared: bool = False, quarantined: bool = False, **parts: Any) -> ServedDaemon:
            made = ServedDaemon(tmp_path, **parts)
            life.callback(made.stop)
            if prepared:
                prepare(made.lake)
            for _ in range(3):
                made.lake.write()
            if quarantined:
                service_states = made.composed.status._statuses._service_states
                service_states.quarantine(TableId("trips"), Service.COMPACTION, "a test")
            made.start()
            made.look()
            return made

        yield build


class Watched:
    """A browser's context that notes each request to another host, each complaint, and each alert."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.page: Page = context.new_page()
        self.complaints: list[str] = []
        self._url = url
        self.page.on("request", self._sent)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._answer)

    def _sent(self, request: Request) -> None:
        if not request.url.startswith((self._url, "data:")):
            self.complaints.append(request.url)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(message.text)

    def _answer(self, dialog: Any) -> None:
        if dialog.type not in ("confirm", "prompt"):
            self.complaints.append(f"{dialog.type}: {dialog.message}")
        dialog.accept(REASON if dialog.type == "prompt" else "")

    def goto(self, path: str) -> Page:
        """Open a page of the daemon."""
        self.page.goto(self._url + path)
        return self.page


@pytest.fixture
def watch(browser: Browser) -> Iterator[Callable[..., Watched]]:
    """Return what opens a context for a daemon. At the end nothing may have gone wrong in it."""
    with ExitStack() as life:
        opened: list[Watched] = []

        def build(daemon: ServedDaemon, **device: Any) -> Watched:
            context = browser.new_context(**device)
            life.callback(context.close)
            opened.append(Watched(context, str(daemon.api.base_url)))
            return opened[-1]

        yield build
        assert [watched.complaints for watched in opened] == [[] for _ in opened]


@pytest.mark.parametrize("device", DEVICES)
def test_each_page_can_be_used_with_a_screen_reader_and_fits(
    make_daemon: Callable[..., ServedDaemon], watch: Callable[..., Watched], device: str
) -> None:
    """No complaint about any page, in light, in dark and on a phone. No page is wider than its window."""
    daemon = make_daemon()
    run = daemon.api.post("/v1/tables/trips/services/clean/runs").json()["id"]
    daemon.moments.ending()
    watched = watch(daemon, **DEVICES[device])

    for path in PATHS:
        page = watched.goto(path.format(table="trips", run=run))
        found = Axe().run(page).response["violations"]
        assert [(path, one["id"], one["nodes"][0]["html"]) for one in found] == []
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), path


def test_a_button_does_what_it_says_and_the_page_shows_it_without_a_reload(
    make_daemon: Callable[..., ServedDaemon], watch: Callable[..., Watched]
) -> None:
    """Pause and resume, and a run of a service. What was answered is said."""
    daemon = make_daemon()
    page = watch(daemon).goto("/tables/trips")

    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text(f"Paused: {REASON}", exact=True)).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.locator("article", has_text="clean").get_by_role("button", name="Run now").click()
    expect(page.locator("#answer")).to_contain_text("run ")
    expect(page.locator("article", has_text="clean").get_by_text("succeeded")).to_be_visible(timeout=20_000)


def test_a_dry_run_says_what_the_button_beside_it_would_do(
    make_daemon: Callable[..., ServedDaemon], watch: Callable[..., Watched]
) -> None:
    """No run begins, and the page stays as it is."""
    daemon = make_daemon()
    page = watch(daemon).goto("/tables/trips")
    compaction = page.locator("article").filter(has=page.locator("h3", has_text="compaction"))

    compaction.get_by_role("button", name="Dry run").click()
    expect(compaction.get_by_role("status")).to_contain_text("a run would begin now. It would make a plan. ")
    expect(compaction.get_by_role("button", name="Run now")).to_be_visible()
    assert daemon.api.get("/v1/runs").json()["items"] == []

    daemon.api.post("/v1/tables/trips/pause", json={"reason": "a migration"}).raise_for_status()
    compaction.get_by_role("button", name="Dry run").click()
    expect(compaction.get_by_role("status")).to_contain_text("no run would begin: paused: a migration")


def test_a_button_is_reached_and_pressed_by_the_keyboard_alone(
    make_daemon: Callable[..., ServedDaemon], watch: Callable[..., Watched]
) -> None:
    """The first stop leads to the content. The focus is visible at each button, and stays where it is."""
    page = watch(make_daemon()).goto("/tables/trips")
    expect(page.locator("html.waits")).to_have_count(0)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")

    for _ in range(100):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Dry run":
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")

    expect(page.get_by_role("status").first).to_contain_text("a run would begin now. ")
    assert page.evaluate("document.activeElement.textContent") == "Dry run"


def test_a_deletion_is_found_and_approved_by_the_keyboard_alone(
    make_daemon: Callable[..., ServedDaemon], watch: Callable[..., Watched]
) -> None:
    """From the page of all tables, which an alert leads to. The decision is the first thing on the table's page."""
    daemon = make_daemon(budget=DeletionBudget(files=0), prepared=True)
    daemon.api.post("/v1/tables/trips/services/clean/runs").raise_for_status()
    daemon.moments.ending()
    daemon.moments.decision()
    page = watch(daemon).goto("/")

    _press(page, at="trips", among="#needs a")
    expect(page.get_by_role("heading", name="clean is waiting for your approval")).to_be_visible()
    expect(page.locator("html.waits")).to_have_count(0)
    keys = _press(page, at="Approve the deletion", among="button")

    expect(page.get_by_role("heading", name="clean is waiting for your approval")).to_have_count(0)
    assert [act.who for act in daemon.store.acts() if act.kind is ActKind.DELETION_APPROVED] == ["api"]
    assert keys <= 8, "what stands before the decision is the head of the page"


def _press(page: Page, *, at: str, among: str) -> int:
    """Go to an element with the tab key, and press it. Returns how many keys it took."""
    for keys in range(1, 100):
        page.keyboard.press("Tab")
        if page.evaluate(
            "([at, among]) => document.activeElement.matches(among) && document.activeElement.textContent === at",
            [at, among],
        ):
            page.keyboard.press("Enter")
            return keys
    raise AssertionError(f"the tab key does not reach {at}")


def test_a_refusal_is_said_with_its_reason(
    make_daemon: Callable[..., ServedDaemon], watch: Callable[..., Watched]
) -> None:
    """The page was loaded while a run was possible. Now it is not."""
    daemon = make_daemon()
    watched = watch(daemon)
    page = watched.goto("/tables/trips")
    daemon.api.post("/v1/tables/trips/pause", json={"reason": "a migration"}).raise_for_status()

    page.locator("article", has_text="clean").get_by_role("button", name="Run now").click()

    expect(page.locator("#answer")).to_contain_text("a migration")
    watched.complaints[:] = [one for one in watched.complaints if "409" not in one]  # the browser tells of any 4xx


def test_all_is_readable_without_a_script(
    make_daemon: Callable[..., ServedDaemon], watch: Callable[..., Watched]
) -> None:
    """The tables, the timeline, and the way from one page to the next."""
    page = watch(make_daemon(), java_script_enabled=False).goto("/")

    page.get_by_role("link", name="trips", exact=True).click()
    expect(page.locator(".picture rect.writer").first).to_be_visible()
    page.get_by_role("link", name="10m").click()
    expect(page.get_by_role("link", name="10m")).to_have_attribute("aria-current", "true")
    page.get_by_role("link", name="All runs of the table").click()
    expect(page.get_by_role("heading", name="Runs of trips")).to_be_visible()


def test_what_writers_have_to_set_and_each_setting_can_be_read(
    make_daemon: Callable[..., ServedDaemon], watch: Callable[..., Watched]
) -> None:
    """With the source of each setting."""
    page = watch(make_daemon()).goto("/tables/trips")

    page.get_by_text("What writers must set").click()
    expect(page.locator("#writer-options")).to_contain_text("trips")
    page.get_by_text("The settings in force, and where each comes from").click()
    expect(page.get_by_role("row", name="services.clean.trigger")).to_contain_text("built-in")


def test_an_active_run_can_be_cancelled_from_its_page(
    make_daemon: Callable[..., ServedDaemon], watch: Callable[..., Watched]
) -> None:
    """By an operator. A viewer has no such button."""
    keys = {
        b"alice's key": Caller(name="alice", role=Role.OPERATOR, key="1"),
        b"vera's key": Caller(name="vera", role=Role.VIEWER, key="2"),
    }
    daemon = make_daemon(identify=keys.get, slots=0)
    run = daemon.api.post("/v1/tables/trips/services/clean/runs", headers={"x-api-key": "alice's key"}).json()["id"]
    for who, buttons in (("vera", 0), ("alice", 1)):
        page = watch(daemon).goto(f"/runs/{run}")
        page.get_by_label("API key").fill(f"{who}'s key")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("button", name="Cancel")).to_have_count(buttons)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("heading").locator(".state")).to_have_text("cancelled")


def test_a_hostile_name_is_text(make_daemon: Callable[..., ServedDaemon], watch: Callable[..., Watched]) -> None:
    """It is shown as it is, leads to its page, and its buttons are about it."""
    daemon = make_daemon(name=HOSTILE)
    page = watch(daemon).goto("/")

    page.get_by_role("link", name=HOSTILE).first.click()
    expect(page.get_by_role("heading", name=HOSTILE)).to_be_visible()
    assert page.locator("img").count() == 0
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text(f"Paused: {REASON}", exact=True)).to_be_visible()


def test_a_click_before_the_scripts_are_there_is_not_lost(
    make_daemon: Callable[..., ServedDaemon], watch: Callable[..., Watched]
) -> None:
    """A button is shown when a script answers it. Without scripts there is no button that does nothing."""
    daemon = make_daemon()
    page = watch(daemon).page
    held = list[Route]()
    page.route("**/static/*.js*", lambda route: held.append(route))  # noqa: PLW0108  # it marks what it is given
    page.goto(f"{daemon.api.base_url}/tables/trips", wait_until="commit")
    expect(page.get_by_role("heading", name="trips")).to_be_visible()
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)

    for script in held:
        script.continue_()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text(f"Paused: {REASON}", exact=True)).to_be_visible()


def test_a_click_while_the_page_loads_itself_is_not_lost(
    make_daemon: Callable[..., ServedDaemon], watch: Callable[..., Watched]
) -> None:
    """A page about much that happens loads itself often, and an answer may take long."""
    page = watch(make_daemon()).goto("/tables/trips")
    expect(page.locator("html.waits")).to_have_count(0)
    held = list[Route]()
    page.route("**/tables/trips", lambda route: route.continue_() if held else held.append(route))
    with page.expect_request("**/tables/trips"):
        page.evaluate("document.body.dispatchEvent(new Event('lakewarden:news'))")

    with page.expect_response("**/v1/tables/trips/pause"):
        page.get_by_role("button", name="Pause").click()

    held[0].continue_()
    expect(page.get_by_text(f"Paused: {REASON}", exact=True)).to_be_visible()


def test_a_person_signs_in_works_and_signs_out(
    make_daemon: Callable[..., ServedDaemon], watch: Callable[..., Watched]
) -> None:
    """The page that was asked for comes after the key. The act has the person's name. Then the key is forgotten."""
    keys = {b"alice's key": Caller(name="alice", role=Role.OPERATOR, key="1")}
    daemon = make_daemon(identify=keys.get)
    watched = watch(daemon)
    page = watched.goto("/tables/trips")

    page.get_by_label("API key").fill("a guess")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("unknown")
    page.get_by_label("API key").fill("alice's key")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="trips")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    assert [act.who for act in daemon.store.acts()] == ["alice"]
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("API key")).to_be_visible()
    expect(watched.goto("/tables/trips").get_by_label("API key")).to_be_visible()
    watched.complaints[:] = [one for one in watched.complaints if "401" not in one]


@pytest.mark.parametrize("path", ["/", "/tables/trips"])
def test_an_open_page_shows_a_change_by_itself_and_disturbs_nobody(
    make_daemon: Callable[..., ServedDaemon], watch: Callable[..., Watched], path: str
) -> None:
    """It loads itself again and again. What is typed, open and focused stays as it is."""
    daemon = make_daemon()
    page = watch(daemon).goto(path)
    expect(page.locator("html.waits")).to_have_count(0)
    typed = page.get_by_label("Search") if path == "/" else None
    if typed is not None:
        typed.fill("tri")
    else:
        page.get_by_text("The newest instants as a table").click()
    place = (
        page.get_by_role("link", name="All runs of the table") if typed is None else page.locator("tbody th a").first
    )
    place.focus()
    page.evaluate("window.kept = document.activeElement")

    daemon.api.post("/v1/tables/trips/pause", json={"reason": "a migration"}).raise_for_status()

    expect(page.get_by_text("Paused: a migration" if typed is None else "1 paused").first).to_be_visible()
    assert page.evaluate("window.kept === document.activeElement && document.contains(window.kept)")
    if typed is not None:
        assert typed.input_value() == "tri"
    else:
        expect(page.get_by_role("region", name="The newest instants")).to_be_visible()


def test_an_open_page_says_that_the_daemon_is_away_and_goes_on_when_it_is_back(
    make_daemon: Callable[..., ServedDaemon], watch: Callable[..., Watched]
) -> None:
    """An old page must not look like a new one."""
    watched = watch(make_daemon())
    page = watched.goto("/tables/trips")
    expect(page.locator("html.waits")).to_have_count(0)

    page.route("**/*", lambda route: route.abort())
    page.get_by_role("button", name="Pause").click()  # loads the page, too
    expect(page.get_by_role("alert")).to_contain_text("the daemon does not answer", timeout=30_000)
    page.unroute("**/*")
    expect(page.get_by_role("alert")).to_have_text("", timeout=30_000)
    watched.complaints[:] = [one for one in watched.complaints if "ERR_FAILED" not in one and "htmx" not in one]


_OPERATES = {"Approve the deletion", "Dry run", "Pause", "Release", "Run now"}
BUTTONS = {
    Role.VIEWER: set[str](),
    Role.TRIGGER: {"Dry run", "Run now"},
    Role.OPERATOR: _OPERATES,
    Role.ADMIN: _OPERATES,
}


@pytest.mark.parametrize("role", BUTTONS)
def test_each_role_has_its_buttons_and_each_of_them_is_obeyed(
    make_daemon: Callable[..., ServedDaemon], watch: Callable[..., Watched], role: Role
) -> None:
    """A button that is shown is never refused for the role, and what a role may not do has no button."""
    keys = {
        b"the key": Caller(name="alice", role=role, key="1"),
        b"another key": Caller(name="bob", role=Role.ADMIN, key="2"),
    }
    daemon = make_daemon(identify=keys.get, budget=DeletionBudget(files=0), prepared=True, quarantined=True)
    daemon.api.headers["x-api-key"] = "another key"
    daemon.api.post("/v1/tables/trips/services/clean/runs").raise_for_status()
    run = daemon.moments.ending()
    daemon.moments.decision()
    watched = watch(daemon)
    page = watched.goto("/tables/trips")
    page.get_by_label("API key").fill("the key")
    page.get_by_role("button", name="Sign in").click()

    shown = _buttons(page)
    for name in ("Release", "Approve the deletion", "Pause", "Resume", "Run now"):
        if name in shown or (name == "Resume" and "Pause" in shown):
            watched.goto("/tables/trips")
            within = page.locator("article", has_text="clean") if name == "Run now" else page.locator("main")
            with page.expect_response(lambda answer: answer.request.method != "GET") as answered:
                within.get_by_role("button", name=name, exact=True).first.click()
            assert answered.value.status not in (401, 403), name
    watched.goto(f"/runs/{run.id}")

    assert shown | _buttons(page) == BUTTONS[role]
    watched.complaints[:] = [one for one in watched.complaints if "409" not in one]  # a block is no matter of the role


def _buttons(page: Page) -> set[str]:
    """Return the names of the buttons that act, as soon as the scripts answer them."""
    expect(page.locator("html.waits")).to_have_count(0)
    expect(page.locator("main h1")).to_be_visible()
    return {*page.locator(".acts button").all_inner_texts()}
