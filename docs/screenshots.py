"""The pictures of the page, of a running demo: `python -m docs.screenshots` makes `images/` anew, by Chromium."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, expect, sync_playwright

FOLDER = Path(__file__).parent / "images"
_ADDRESS = "in a browser: "
_WIDTH, _NARROW, _LEAST_HEIGHT = 1280, 390, 300
_COMPACTIONS = 3


@contextmanager
def demo(seconds: int) -> Iterator[str]:
    """Run the demo, and yield the address of its table's page. The demo is interrupted at the end.

    Raises:
        SystemExit: the demo ended before it had printed an address.
    """
    command = [sys.executable, "-m", "lakewarden.cli", "demo", "--seconds", str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            for line in running.stdout or ():
                if _ADDRESS in line:
                    yield line.partition(_ADDRESS)[2].strip()
                    break
            else:
                raise SystemExit("The demo ended and printed no address of a page. Run `lakewarden demo` to see why.")
        finally:
            running.terminate()
            running.communicate()


def take(browser: Browser, address: str, wait: int) -> None:
    """Take each picture, after a few compactions have succeeded. `wait` is in seconds."""
    host = "{0.scheme}://{0.netloc}".format(urlsplit(address))
    for look, width in {"light": _WIDTH, "dark": _WIDTH, "narrow": _NARROW}.items():
        scheme: Literal["dark", "light"] = "dark" if look == "dark" else "light"
        page = browser.new_page(viewport={"width": width, "height": _LEAST_HEIGHT}, color_scheme=scheme)
        page.goto(f"{host}/runs")
        succeeded = page.get_by_role("row").filter(has_text="compaction").filter(has_text="succeeded")
        expect(succeeded.nth(_COMPACTIONS - 1)).to_be_visible(timeout=wait * 1000)
        run = succeeded.first.get_by_role("link").first.get_attribute("href")
        for name, path in {"fleet": "/", "table": address.removeprefix(host), "run": run}.items():
            page.goto(f"{host}{path}")
            _settled(page)
            page.screenshot(path=FOLDER / f"page-{name}-{look}.png", full_page=True)
        page.close()


def _settled(page: Page) -> None:
    page.wait_for_load_state("networkidle")


def main() -> None:
    """Make the pictures."""
    parser = argparse.ArgumentParser(prog="python -m docs.screenshots", description=__doc__)
    parser.add_argument("--seconds", type=int, default=150, help="how long a compaction may be waited for")
    seconds = parser.parse_args().seconds
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("There is no Chromium on the PATH: apt-get install chromium.")
    FOLDER.mkdir(exist_ok=True)
    with demo(seconds + 60) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        take(browser, address, seconds)
        browser.close()


if __name__ == "__main__":
    main()
