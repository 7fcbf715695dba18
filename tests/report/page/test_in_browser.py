"""The page as people open it: in Chromium, without network, at both widths, with the keyboard."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsers import COUNT, Opened
from chart_rows import HOSTILE
from embedded_commands import EmbeddedCommands
from samples import SAMPLES

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

# Marks of each kind in each chart of the run that chart_rows.py has, counted by hand.
MARKS = {
    "waiting": {"area": 3},
    "blockers": {"rect": 4, "text": 8},
    # Two links and three consumers, then one link and two consumers, twice.
    "chains": {"rule": 4, "symbol": 11},
    "look-ahead-0": {"area": 1, "line": 3},
    "ownership-0": {"rule": 5},
    "draining-0": {"rule": 3, "symbol": 3},
    "churn-0": {"rule": 3, "symbol": 3, "text": 3},
    "balance-0": {"rule": 3, "symbol": 6},
    "hot-keys-chart": {"rect": 5, "text": 10},
    "trend-findings": {"rect": 4, "text": 2},
    "trend-waiting": {"rect": 2, "text": 2},
}


@pytest.fixture(scope="module")
def file(page: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("page") / "report.html"
    written.write_text(page, encoding="utf-8")
    return written


@pytest.fixture
def width() -> int:
    return 1280


@pytest.fixture
def opened(browser: "Browser", file: Path, width: int) -> Iterator[Opened]:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme="light")
    found = Opened(context.new_page(), file)
    yield found
    assert found.complaints == []
    assert found.requests == [file.as_uri()]
    context.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_every_chart_has_the_marks_of_its_rows_and_fits_the_screen(opened: Opened) -> None:
    charts = opened.tab.eval_on_selector_all("[data-chart]", "(all) => all.map((e) => e.dataset.chart)")
    assert sorted(charts) == sorted(MARKS)
    for name, expected in MARKS.items():
        found = opened.drawn(f'[data-chart="{name}"]').evaluate(COUNT)
        assert {kind: found.get(kind) for kind in expected} == expected, name
    assert opened.tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def unfold_rows(opened: Opened) -> None:
    opened.tab.locator("#rows > summary").click()


def test_each_incident_is_told_once_before_its_rows(opened: Opened) -> None:
    incidents = opened.tab.locator(".incidents > li")
    assert incidents.count() < opened.tab.locator("details.finding").count()
    assert incidents.first.is_visible()
    assert not opened.tab.locator("details.finding").first.is_visible()
    incidents.first.locator("a").click()
    opened.tab.locator("details.finding[open]").first.wait_for()


def test_charts_out_of_sight_are_not_drawn(opened: Opened) -> None:
    """The page opens fast because it draws what is looked at."""
    assert opened.tab.locator('[data-chart="trend-waiting"][data-drawn]').count() == 0


def test_a_click_on_a_finding_shows_its_evidence_and_its_timeline(opened: Opened) -> None:
    unfold_rows(opened)
    finding = opened.tab.locator("details.finding").first
    evidence = finding.get_by_text("seq 900: 7:1 dispatched to red")
    assert not evidence.is_visible()
    finding.locator("summary").first.click()
    assert evidence.first.is_visible()
    found = opened.drawn("details.finding[open] [data-story]").evaluate(COUNT)
    # Red owned the hash, then blue, while it drained at red; red's entry, and blue's join; both dispatches.
    assert (found["rect"], found["rule"], found["symbol"]) == (3, 2, 2)


def test_the_first_step_leads_to_the_worst_finding(opened: Opened) -> None:
    opened.tab.locator(".steps a").first.click()
    opened.tab.wait_for_selector("details.finding[open]")
    assert opened.tab.evaluate("location.hash").startswith("#finding-")
    assert opened.tab.evaluate("document.activeElement.parentElement.open")


def test_findings_are_paged_searched_and_filtered(opened: Opened) -> None:
    unfold_rows(opened)
    visible = opened.tab.locator("#list > li:not([hidden])")
    assert visible.count() == 20
    opened.tab.locator("#next").click()
    assert opened.tab.locator("#shown").inner_text() == "21 to 40 of 45"
    opened.tab.locator("#severity").select_option("known_bug")
    assert visible.count() == 5
    opened.tab.locator("#search").fill("7:9 blue")
    assert visible.count() == 1
    assert opened.tab.locator("#matches").inner_text() == "1 of 45 match"


def test_hostile_names_are_text(opened: Opened) -> None:
    unfold_rows(opened)
    opened.tab.locator("#search").fill("7:0 of")
    opened.drawn('[data-chart="hot-keys-chart"]')
    assert HOSTILE[0][:20] in (opened.tab.locator('[data-chart="hot-keys-chart"] svg').text_content() or "")
    assert HOSTILE[0] in (opened.tab.locator("#quarantine").text_content() or "")
    assert opened.tab.locator("img").count() == 0


def test_a_long_key_is_shown_in_full_on_demand(opened: Opened) -> None:
    # The chart above moves the table down when it is drawn.
    opened.drawn('[data-chart="hot-keys-chart"]')
    opened.tab.locator("#hot-keys details.numbers > summary").click()
    long = opened.tab.locator("#hot-keys details.long", has_text="kkk").first
    full = long.locator(":scope > bdi")
    assert not full.is_visible()
    long.locator("summary").click()
    assert full.is_visible()


def test_the_keyboard_reaches_a_finding_and_opens_it(opened: Opened) -> None:
    opened.tab.keyboard.press("Tab")
    assert opened.tab.evaluate("document.activeElement.className") == "skip"
    unfold_rows(opened)
    opened.tab.locator("details.finding summary").first.focus()
    opened.tab.keyboard.press("Enter")
    assert opened.tab.locator("details.finding[open]").count() == 1


def test_the_charts_follow_the_switch_to_dark(opened: Opened) -> None:
    opened.drawn('[data-chart="waiting"]')
    light = opened.tab.evaluate("getComputedStyle(document.body).backgroundColor")
    opened.tab.locator("#mode").click()
    opened.tab.wait_for_selector('[data-chart="waiting"][data-drawn="dark"]')
    assert opened.tab.evaluate("getComputedStyle(document.body).backgroundColor") != light


def test_an_empty_search_says_so_where_the_findings_were(opened: Opened) -> None:
    unfold_rows(opened)
    nothing = opened.tab.locator("#nothing")
    assert not nothing.is_visible()
    opened.tab.locator("#search").fill("no such key")
    assert nothing.inner_text() == "No finding of these 45 matches. Show all"
    assert not opened.tab.locator(".pages").is_visible()
    above, below = opened.tab.locator("#search").bounding_box(), nothing.bounding_box()
    assert above is not None
    assert below is not None
    assert 0 < below["y"] - above["y"] < 120
    opened.tab.locator("#all").click()
    assert not nothing.is_visible()
    assert opened.tab.locator("#list > li:not([hidden])").count() == 20


@pytest.mark.parametrize("width", [390])
def test_a_narrow_screen_shows_every_link_of_the_navigation(opened: Opened) -> None:
    links = opened.tab.locator("nav a")
    boxes = [box for number in range(links.count()) if (box := links.nth(number).bounding_box()) is not None]
    assert len(boxes) == links.count() == 7
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)
    # As large as a finger needs (WCAG 2.2, 2.5.8).
    assert all(box["height"] >= 24 for box in boxes)


WHO_WHOM_KEYS_SINCE_REMEDY = {
    "heavy-churn-3.0.7": (
        "flap104",
        "c2 (consumer 4)",
        "key-7",
        "From 2026-11-21 01:43:18.961",
        "Use the draining",
    ),
    "hung-consumer-4.0.8": (
        "c7",
        "any consumer",
        "entries from 3:25 on",
        "from 2026-11-21 01:28:29.045",
        "disconnect c7",
    ),
    "join-leave-4.0.8": ("flap101", "still held it", "key-184", "2026-11-21 01:27:43.681", "reconnect of the consumer"),
}


@pytest.mark.e2e
@pytest.mark.parametrize("name", WHO_WHOM_KEYS_SINCE_REMEDY)
@pytest.mark.parametrize("screen", [(1280, 900), (390, 844)], ids=str)
def test_the_first_screen_says_who_whom_which_keys_since_when_and_what_to_do(
    name: str, screen: tuple[int, int], browser: "Browser", run_embedded: EmbeddedCommands, tmp_path: Path
) -> None:
    written, (width, height) = tmp_path / "report.html", screen
    options = ["--fail-on", "never", "--quiet", "--report", f"html={written}"]
    assert run_embedded("audit", SAMPLES / name, "--out", tmp_path / "tables", *options).returncode == 0
    context = browser.new_context(viewport={"width": width, "height": height})
    found = Opened(context.new_page(), written)
    seen = []
    for sentence in found.tab.locator(".meaning, .steps li").all():
        box = sentence.bounding_box()
        if box is not None and box["y"] + box["height"] <= height:
            seen.append(sentence.inner_text())
    assert [fact for fact in WHO_WHOM_KEYS_SINCE_REMEDY[name] if fact not in " ".join(seen)] == []
    context.close()


@pytest.mark.e2e
def test_an_audit_of_a_sample_writes_a_page_that_draws(
    browser: "Browser", run_embedded: EmbeddedCommands, tmp_path: Path
) -> None:
    written = tmp_path / "report.html"
    options = ["--fail-on", "never", "--quiet", "--report", f"html={written}"]
    done = run_embedded("audit", SAMPLES / "join-leave-4.0.8", "--out", tmp_path / "tables", *options)
    assert done.returncode == 0, done.stderr
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    found = Opened(context.new_page(), written)
    names = found.tab.eval_on_selector_all("[data-chart]", "(all) => all.map((e) => e.dataset.chart)")
    spans = {name: found.drawn(f'[data-chart="{name}"]').evaluate(COUNT) for name in names}["draining-0"]
    # The sample has 111 draining hashes, and none without an end.
    assert (spans["rule"], spans["symbol"]) == (111, 111)
    unfold_rows(found)
    found.tab.locator("details.finding > summary").click()
    found.drawn("details.finding[open] [data-story]")
    assert found.complaints == []
    assert found.requests == [written.as_uri()]
    context.close()


def test_a_large_page_opens_within_seconds(browser: "Browser", large_page: str, tmp_path: Path) -> None:
    """Of CPU of the process of the page, which other work on the machine does not change."""
    file = tmp_path / "large.html"
    file.write_text(large_page, encoding="utf-8")
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    found = Opened(context.new_page(), file)
    session = context.new_cdp_session(found.tab)
    session.send("Performance.enable")
    measured = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
    assert found.complaints == []
    assert 0 < measured["ProcessTime"] < 5
    context.close()
