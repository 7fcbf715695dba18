"""The documentation stays short: who wants to add lines, says something once that stands twice."""

from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
LINES_MAX = 4_200
# The replay and its causes of waiting had 483 lines when a newcomer gave up.
LINES_OF_REPLAY_MAX = 322
LINES_OF_TRIED_MAX = 80
# A screen: who opens a page sees what it is about, and where its parts begin.
LINES_BEFORE_A_HEADING_MAX = 40

PAGES = {path.name: path.read_text(encoding="utf-8").splitlines() for path in sorted(DOCS.glob("*.md"))}


def test_all_pages_together() -> None:
    assert sum(len(lines) for lines in PAGES.values()) <= LINES_MAX


def test_pages_with_a_limit_of_their_own() -> None:
    assert len(PAGES["TRIED.md"]) <= LINES_OF_TRIED_MAX
    assert len(PAGES["REPLAY.md"]) + len(PAGES["BLOCKING.md"]) <= LINES_OF_REPLAY_MAX


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_one_screen_before_its_first_heading(name: str) -> None:
    _, *lines = PAGES[name]
    headings = (number for number, line in enumerate(lines) if line.startswith("## "))
    assert next(headings, len(lines)) <= LINES_BEFORE_A_HEADING_MAX
