"""The browser that opens pages in tests and takes their pictures, with nothing in it that asks the network."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-lcd-text")
# For what is not there yet, on a machine with other work.
_WAIT_MS = 120_000
# The marks in a chart, by kind.
COUNT = """(chart) => {
  const found = {};
  for (const group of chart.querySelectorAll("g.role-mark")) {
    const kind = [...group.classList].find((name) => name.startsWith("mark-")).slice(5);
    found[kind] = (found[kind] || 0) + group.querySelectorAll(":scope > path, :scope > line, :scope > text").length;
  }
  return found;
}"""


def chromium() -> str | None:
    """The path of the browser; None: there is none."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


@contextmanager
def opened_browser() -> Iterator["Browser"]:
    """Starts the browser, and ends it."""
    # It takes 0.2 s to import, which only tests of pages need.
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=[*_OPTIONS], timeout=_WAIT_MS)
        yield browser
        browser.close()


class Opened:
    """A page in the browser, with all that it said to the console and asked of the network."""

    def __init__(self, tab: "Page", file: Path) -> None:
        self.tab = tab
        self.complaints: list[str] = []
        self.requests: list[str] = []
        tab.on("console", lambda message: self.complaints.append(message.text))
        tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        tab.on("request", lambda request: self.requests.append(request.url))
        tab.set_default_timeout(_WAIT_MS)
        tab.context.set_offline(True)
        tab.goto(file.as_uri())

    def drawn(self, selector: str) -> Any:
        """Brings a chart into sight, and returns it once it is drawn."""
        chart = self.tab.locator(selector)
        chart.scroll_into_view_if_needed()
        self.tab.wait_for_selector(f"{selector}[data-drawn]")
        return chart
