"""A real browser for tests of pages: Debian's chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = (
    "no chromium on this machine (Debian: apt-get install chromium)"
    if CHROMIUM is None
    else ""
    if find_spec("playwright")
    else "playwright is not installed"
)
_FLAGS = ("no-sandbox", "disable-gpu", "disable-background-networking", "disable-component-update", "disable-sync")


@contextmanager
def started_browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[f"--{flag}" for flag in _FLAGS])
        yield browser
        browser.close()


class Visit:
    """A page opened from disk, with everything it said and asked for."""

    def __init__(self, browser: Any, file: Path, *, width: int = 1280, scheme: str = "light") -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, accept_downloads=True
        )
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("body[data-ready]", timeout=60_000)

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    @property
    def foreign_requests(self) -> list[str]:
        """All requests but for the file itself and what the page made in memory."""
        return [url for url in self.requests[1:] if not url.startswith("blob:")]

    def set(self, **values: object) -> None:
        """Type into the number fields, and wait until the page is drawn again."""
        for name, value in values.items():
            self.page.fill(f"#{name.replace('_', '-')}", str(value))
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def wait_for_kept(self, number: str) -> None:
        """Wait until the header says how many are kept."""
        from playwright.sync_api import expect

        expect(self.page.locator("header .lead [data-live='kept']")).to_have_text(number)

    def kept_per_class(self) -> dict[str, int]:
        rows = self.page.eval_on_selector_all(
            "#classes tbody tr",
            "rows => rows.map(row => [row.cells[0].textContent, +row.querySelector('.kept-count').dataset.value])",
        )
        return dict(rows)

    def download(self) -> list[str]:
        with self.page.expect_download() as started:
            self.page.click("#download")
        return Path(started.value.path()).read_text(encoding="utf-8").splitlines()
