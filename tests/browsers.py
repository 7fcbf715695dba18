"""The browser that opens pages in tests and takes their pictures, with nothing in it that asks the network."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-lcd-text")


def chromium() -> str | None:
    """The path of the browser; None: there is none."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


@contextmanager
def opened_browser() -> Iterator["Browser"]:
    """Starts the browser, and ends it."""
    # It takes 0.2 s to import, which only tests of pages need.
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=[*_OPTIONS])
        yield browser
        browser.close()
