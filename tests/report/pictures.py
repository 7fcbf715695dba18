"""Takes the pictures of pages that the documentation shows: `make pictures`.

Two samples are audited, each page is opened in Chromium at the width of a screen and of a telephone, every chart in it
is brought into sight, and the page is stored as PNG, from its top to the section that has nothing new to show. Of the
comparison of dispatchers on PIP-474's scenario, which takes minutes, the charts are stored.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from browsers import opened_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# Each with the section before which its pictures end: the hung consumer blocks, joins and leaves move hashes.
SAMPLES = {"hung-consumer-4.0.8": "assignment", "join-leave-4.0.8": "hot-keys"}
WIDTHS = (1280, 390)
DARK = ("hung-consumer-4.0.8", 1280)
COMPARED = "pip-474"
# Below a folder that git ignores, so that the commands on the pages have short paths.
TARGETS = Path("build")


class Part(NamedTuple):
    """A part of a page, from one section to another; None: from its top, or to its foot."""

    begin: str | None = None
    end: str | None = None


def main() -> None:
    """Writes the pictures into the folder that the command line names."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with opened_browser() as browser, tempfile.TemporaryDirectory() as pages:
        for sample, end in SAMPLES.items():
            page = Path(pages) / f"{sample}.html"
            write_page(sample, page)
            for width in WIDTHS:
                take(browser, page, Part(end=end), width, "light", folder / f"{sample}-{width}.png")
            if sample == DARK[0]:
                take(browser, page, Part(end=end), DARK[1], "dark", folder / f"{sample}-{DARK[1]}-dark.png")
        page = Path(pages) / "what-if.html"
        write_comparison(page)
        take(browser, page, Part("over-time"), WIDTHS[0], "light", folder / f"what-if-{COMPARED}-{WIDTHS[0]}.png")


def write_page(sample: str, page: Path) -> None:
    """Audits a sample and writes its page."""
    target = TARGETS / sample
    shutil.rmtree(target, ignore_errors=True)
    audit = (sys.executable, "-m", "dispatch_audit.jobs.cli", "audit", f"data/samples/{sample}", "--out", str(target))
    options = ("--engine", "embedded", "--fail-on", "never", "--quiet", "--report", f"html={page}")
    subprocess.run([*audit, *options], check=True, stdout=subprocess.DEVNULL)


def write_comparison(page: Path) -> None:
    """Compares dispatchers on a described workload, and writes the page."""
    workload = f"conf/workloads/{COMPARED}.toml"
    compare = (sys.executable, "-m", "dispatch_audit.jobs.cli", "what-if", workload, "--partitions", "1")
    # Without the audit, which takes most of the time and changes no chart.
    options = ("--no-audit", "--engine", "embedded", "--quiet", "--report", f"html={page}")
    subprocess.run([*compare, *options], check=True, stdout=subprocess.DEVNULL)


def take(
    browser: "Browser", page: Path, part: Part, width: int, scheme: Literal["light", "dark"], picture: Path
) -> None:
    """Takes one picture of a part of the page, with its first finding open."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab = context.new_page()
    tab.goto(page.as_uri())
    if tab.locator("details.finding").count():
        tab.locator("#rows > summary").click()
        tab.locator("details.finding > summary").first.click()
    for chart in tab.locator(".chart").all():
        if chart.is_visible():
            chart.scroll_into_view_if_needed()
            chart.locator("svg").wait_for()
    tab.mouse.move(0, 0)
    tab.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
    top = _top_of(tab, f"#{part.begin}") if part.begin else 0
    bottom = _top_of(tab, f"#{part.end}" if part.end else "footer")
    tab.screenshot(path=picture, full_page=True, clip={"x": 0, "y": top, "width": width, "height": bottom - top})
    context.close()


def _top_of(tab: "Page", selector: str) -> float:
    top: float = tab.locator(selector).evaluate("(element) => element.offsetTop")
    return top


if __name__ == "__main__":
    main()
