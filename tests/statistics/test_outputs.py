"""The page in a browser, the text of many subscriptions, and the table in both ways of writing it."""

from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsers import Opened
from dumps import Json, consumer, result_of, stats
from rich.console import Console
from ways import Way

from dispatch_audit.pipeline.statistics.diagnose import Result
from dispatch_audit.pipeline.statistics.output.page import page_of
from dispatch_audit.pipeline.statistics.output.table import write_diagnoses
from dispatch_audit.pipeline.statistics.output.text import print_diagnoses
from dispatch_audit.pipeline.tables.schemas import DIAGNOSES

if TYPE_CHECKING:
    from playwright.sync_api import Browser

OWING = stats(consumer("<b>c1</b>", availablePermits=-420), msgBacklog=60)
IDLE = stats(consumer("c1"))


def of_partitions(number: int, sick: int) -> Result:
    """The result for some partitions, of which one is held up."""
    partitions: Json = {f"persistent://public/default/orders-partition-{at}": IDLE for at in range(number)}
    partitions[f"persistent://public/default/orders-partition-{sick}"] = OWING
    return result_of({"partitions": partitions})


def text_of(result: Result, whole_max: int = 3) -> str:
    written = StringIO()
    print_diagnoses(result, Console(file=written, width=80), whole_max)
    return written.getvalue()


def test_of_many_subscriptions_the_one_that_needs_a_look_comes_first() -> None:
    text = text_of(of_partitions(60, sick=41), whole_max=1)

    assert text.startswith("60 subscriptions: 1 HELD UP, 59 IDLE\n\nHELD UP  by <b>c1</b>: ")
    assert "orders-partition-41, subscription ks" in text
    assert "and 39 subscriptions more (--format json has all)" in text
    assert len(text.splitlines()) < 50


def test_one_subscription_fits_one_screen() -> None:
    assert len(text_of(result_of(OWING)).splitlines()) <= 24


def test_an_answer_that_is_not_proved_says_what_would_decide_it() -> None:
    young = consumer("c2", availablePermits=0, connectedSince="2025-06-15T15:06:00Z")
    text = text_of(result_of(stats(young, msgBacklog=60), taken_ms=None))

    assert text.startswith("NOT DECIDABLE  the dumps are compatible with this (c2): ")
    assert "Decide   Poll again after 10 s: if msgOutCounter of c2 stands still" in text


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_is_shown_without_a_complaint(browser: "Browser", width: int, tmp_path: Path) -> None:
    file = tmp_path / "diagnosis.html"
    file.write_text(page_of(of_partitions(30, sick=7)), encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": 900})
    opened = Opened(context.new_page(), file)

    assert opened.tab.inner_text("#verdict") == "HELD UP"
    assert "by <b>c1</b>: " in opened.tab.inner_text(".meaning")
    assert opened.tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert opened.complaints == []
    assert opened.requests == [file.as_uri()]
    context.close()


def test_diagnosed_again_the_rows_are_replaced(way: Way, tmp_path: Path) -> None:
    result = of_partitions(4, sick=2)
    for _ in range(2):
        write_diagnoses(result, way.target(tmp_path), way.spark)
    write_diagnoses(result_of(IDLE), way.target(tmp_path), way.spark)
    answers = [row["answer"] for row in way.tables(tmp_path).query(DIAGNOSES.name, "answer", "ORDER BY answer")]

    assert answers == ["held_up", "idle", "idle", "idle", "idle"]
