"""The site is built without a warning, and its pages ask the network for nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsers import Opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[2]
# What a browser loads with a page; links to follow are none of it.
LOADED = re.compile(r"""<(?:script|img|iframe|source)[^>]+src="([^"]+)"|<link[^>]+href="([^"]+)"|url\(([^)]+)\)""")
ELSEWHERE = re.compile(r"""["']?(?:https?:)?//""")

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("site")]


def build(configuration: Path, site: Path) -> subprocess.CompletedProcess[str]:
    # Not --quiet: what is not logged does not count as a warning.
    command = [sys.executable, "-m", "mkdocs", "build", "-f", str(configuration), "-d", str(site)]
    # Without its words about other products.
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, cwd=ROOT, env=env)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_every_page_is_in_the_site(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    # The contract's README is the page of its folder.
    assert {page.replace("README", "index") for page in pages} <= built
    assert {"index.html", "CONTRIBUTING.html"} <= built


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    loaded = {
        "".join(found) for path in files for found in LOADED.findall(re.sub(r"<pre>.*?</pre>", "", path.read_text()))
    }
    assert any(name.endswith(".js") for name in loaded)
    assert {name for name in loaded if ELSEWHERE.match(name)} == set()


@pytest.mark.browser
def test_the_search_finds_pages_of_a_site_that_is_opened_as_files(site: Path, browser: "Browser") -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = Opened(context.new_page(), site / "index.html")
    opened.tab.locator("input.md-search__input").click()
    first = opened.tab.locator(".md-search-result__link").first
    # The pages that explain a word come before the contract, which has it more often.
    for words in ("look-ahead limit", "draining hash"):
        opened.tab.keyboard.press("Control+A")
        opened.tab.keyboard.press("Delete")
        first.wait_for(state="detached")
        # At once, so that nothing is found for a part of it; the page looks for it when a key goes up.
        opened.tab.keyboard.insert_text(words)
        opened.tab.keyboard.press("End")
        first.wait_for()
        assert "contract/" not in str(first.get_attribute("href"))
    first.click()
    opened.tab.wait_for_url(lambda url: "/index.html" not in url)
    assert "drain" in (opened.tab.locator("article").text_content() or "").lower()
    assert all(url.startswith("file:") or url.startswith("data:") for url in opened.requests)
    context.close()


def test_drawings_are_shown(site: Path) -> None:
    shown = re.findall(r'<img[^>]+src="(drawings/[^"]+)"', (site / "CONCEPTS.html").read_text())
    assert len(shown) == 3
    assert all((site / name).is_file() for name in shown)


def test_the_rooms_of_the_code_are_a_table(site: Path) -> None:
    page = re.sub(r"\s+", " ", (site / "ARCHITECTURE.html").read_text())
    assert "flowchart TD" not in page
    row = "<td><code>pipeline/trace/</code></td> <td>reads dispatch traces</td> <td>"
    assert row + "<code>pipeline/compilation/</code>, <code>pipeline/contract/</code>" in page


def test_numbers_of_issues_are_no_headings(site: Path) -> None:
    page = (site / "QUESTIONS.html").read_text()
    assert "<li>#5752:" in page
    assert re.findall(r"<h1[^>]*>", page) == ['<h1 id="what-operators-ask-of-a-key_shared-audit">']


def test_a_link_to_nowhere_fails(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# One\n\n[nowhere](nowhere.md) [no anchor](index.md#two)\n")
    text = (ROOT / "mkdocs.yml").read_text()
    text = text[: text.index("\nnav:\n")].replace("hooks: [docs/site_hooks.py]\n", "")
    (tmp_path / "mkdocs.yml").write_text(text)
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 1
    assert "nowhere.md" in done.stderr + done.stdout
    assert "#two" in done.stderr + done.stdout
