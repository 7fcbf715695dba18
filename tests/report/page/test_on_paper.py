"""The page on paper: every chart has its marks there, and what is folded on the screen is open."""

import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from browsers import COUNT, Opened
from test_in_browser import MARKS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

_STREAM: Final = re.compile(rb"stream\r?\n(.*?)\r?\nendstream", re.DOTALL)
# Operators of PDF that paint a path, each at the end of a line (ISO 32000, 8.5.3).
_PAINTED: Final = re.compile(rb"(?:^|\s)(?:f\*?|S|s|B\*?|b\*?)(?=\s)")
# What is there while the page is printed: called after what the page does itself.
_AT_PRINT: Final = f"""() => {{
  const count = {COUNT};
  addEventListener("beforeprint", () => (window.opened = {{
    folded: document.querySelectorAll("details.finding:not([open]), details.part:not([open])").length,
    findings: [...document.querySelectorAll("#list > li")].filter((e) => e.offsetHeight > 0).length,
  }}));
  addEventListener("afterprint", () => (window.printed = {{
    ...window.opened,
    charts: Object.fromEntries([...document.querySelectorAll("[data-chart]")].map((e) => [e.dataset.chart, count(e)])),
    stories: document.querySelectorAll("[data-story][data-drawn]").length,
  }}));
}}"""


@pytest.fixture(scope="module")
def file(page: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("paper") / "report.html"
    written.write_text(page, encoding="utf-8")
    return written


@pytest.fixture(params=["light", "dark"])
def opened(browser: "Browser", file: Path, request: pytest.FixtureRequest) -> Iterator[Opened]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=request.param)
    found = Opened(context.new_page(), file)
    found.tab.evaluate(_AT_PRINT)
    yield found
    assert found.complaints == []
    context.close()


def painted(pdf: bytes) -> int:
    """The number of paths on all sheets."""
    found = 0
    for stream in _STREAM.findall(pdf):
        try:
            found += len(_PAINTED.findall(zlib.decompress(stream)))
        except zlib.error:
            # An image or a font is packed in another way.
            continue
    return found


def only(tab: "Opened", css: str) -> int:
    """The number of paths on paper under some more rules."""
    added = tab.tab.add_style_tag(content=css)
    number = painted(tab.tab.pdf())
    added.evaluate("(element) => element.remove()")
    return number


def test_a_printed_page_has_all_charts_with_their_marks_and_nothing_folded(opened: Opened) -> None:
    assert opened.tab.locator("[data-chart][data-drawn]").count() < len(MARKS)
    opened.tab.pdf()
    printed = opened.tab.evaluate("window.printed")
    for name, expected in MARKS.items():
        assert {kind: printed["charts"][name].get(kind) for kind in expected} == expected, name
    # All findings with their evidence, and the timelines of those that the list shows.
    assert (printed["findings"], printed["folded"], printed["stories"]) == (45, 0, 20)
    # Then it is as it was.
    assert opened.tab.locator("#list > li:not([hidden])").count() == 20
    assert opened.tab.locator("details[open]").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize("opened", ["light"], indirect=True)
def test_each_chart_puts_marks_on_paper(opened: Opened) -> None:
    # Opening the page takes as long as printing it twice.
    for name, marks in MARKS.items():
        alone = f"body * {{ visibility: hidden }} [data-chart='{name}'] * {{ visibility: visible }}"
        with_marks = only(opened, alone)
        without = only(opened, f"{alone} [data-chart='{name}'] g.role-mark * {{ visibility: hidden !important }}")
        paths = sum(number for kind, number in marks.items() if kind != "text")
        assert with_marks - without >= paths, name


@pytest.mark.parametrize("opened", ["light"], indirect=True)
def test_only_what_matches_a_search_is_printed(opened: Opened) -> None:
    opened.tab.locator("#rows > summary").click()
    opened.tab.locator("#severity").select_option("known_bug")
    opened.tab.pdf()
    assert opened.tab.evaluate("window.printed.findings") == 5
