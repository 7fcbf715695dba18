"""What a comparison says: its page as a document and in a browser, and its text."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browsers import COUNT, Opened
from chart_rows import HOSTILE
from compared import MEASURES, comparison, dispatcher
from outline import Outline

from dispatch_audit.pipeline.run.run_key import code_version
from dispatch_audit.pipeline.simulate.comparison.columns import COLUMNS
from dispatch_audit.pipeline.simulate.comparison.comparison import VariantComparison
from dispatch_audit.pipeline.simulate.comparison.markdown import markdown
from dispatch_audit.pipeline.simulate.comparison.page import built_page, page_of
from dispatch_audit.pipeline.simulate.what_if import Searched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

OVERFLOW = "hot-key overflow (PIP-474)"
LIMIT = "keySharedLookAheadMsgInReplayThresholdPerSubscription"


def three(**more: Any) -> VariantComparison:
    """A dispatcher that stalls, one that does not, and one that breaks the order and has less in replay than all."""
    overflow = dispatcher(OVERFLOW, overflowed=30, overflowed_bytes=2_000_000)
    wrong = dispatcher("last sent position (PIP-282)", (0, 10, 20, 10), violations=3, replay_peak=20)
    return comparison(overflow, wrong, **more)


@pytest.fixture(scope="module")
def page() -> str:
    found = Searched((LIMIT,), 1_600, {1_000: 4.5, 2_000: 0.0, 1_600: 0.0})
    left_out = (f"{HOSTILE[0]}, subscription ks, is left out: no publish",)
    return page_of(three(traffic=f"night/{HOSTILE[0]}", partitions=4, left_out=left_out, search=found))


@pytest.fixture(scope="module")
def outline(page: str) -> Outline:
    return Outline(page)


def text_of(outline: Outline) -> str:
    return " ".join(outline.text.split())


def charts_of(page: str) -> dict[str, Any]:
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    charts: dict[str, Any] = json.loads(data)["charts"]
    return charts


def test_the_answer_comes_first(outline: Outline) -> None:
    text = text_of(outline)
    parts = (
        "No progress for 1.5 s as given",
        "1 of 3 dispatchers of 4.0.8 keeps",
        "Pulsar 4.0.8",
        "violations",
        "A lane for each",
    )
    assert [text.index(part) for part in parts] == sorted(text.index(part) for part in parts)


def test_what_was_simulated_is_said_beside_the_answer() -> None:
    basis = dict(built_page(three(partitions=4)).basis)
    assert basis == {
        "Traffic": "workload.toml",
        "Broker": "Pulsar 4.0.8",
        "Partitions": "4, simulated one by one",
        "Entries": "1,500 published",
        "Time": "3.5 s simulated",
        "Seed": "7",
        "Audited": "what each dispatcher did",
        "Simulated": f"by dispatch-audit {code_version()}",
    }


def test_every_measure_of_the_table_is_there_with_its_meaning_and_a_value_of_each_dispatcher(outline: Outline) -> None:
    page = built_page(three())
    assert [measure.title for measure in page.measures] == ["broker and policy", *(column.title for column in COLUMNS)]
    by_title = {measure.title: [value for value, _ in measure.cells] for measure in page.measures}
    assert by_title["violations"] == ["0", "0", "3"]
    assert by_title["first stall, s"] == ["2.0", "-", "-"]
    assert by_title["MB overflowed"] == ["0.0", "2.0", "0.0"]
    assert by_title["read in vain"] == ["2.5%"] * 3
    assert by_title["idle"] == ["25.0%"] * 3
    wrong = {measure.title: [wrong for _, wrong in measure.cells] for measure in page.measures}
    assert {title: cells for title, cells in wrong.items() if any(cells)} == {
        "violations": [False, False, True],
        "first stall, s": [True, False, False],
        "no progress, s": [True, False, False],
    }
    for column in COLUMNS:
        assert column.meaning in text_of(outline)


@pytest.mark.parametrize(
    ("found", "headline", "meaning"),
    [
        (
            three(),
            "No progress for 1.5 s as given",
            "As given, the first stall begins after 2.0 s. 1 of 3 dispatchers of 4.0.8 keeps the order and never "
            f"stalls. Of these, the replay queue is smallest (100 entries at most) under {OVERFLOW}.",
        ),
        (
            comparison(audited=False),
            "No progress for 1.5 s as given",
            "As given, the first stall begins after 2.0 s. None of the dispatchers of 4.0.8 never stalls. The best is "
            "as given: 1.5 s without progress.",
        ),
    ],
)
def test_the_summary_names_who_keeps_order_and_does_not_stall(
    found: VariantComparison, headline: str, meaning: str
) -> None:
    page = built_page(found)
    assert (page.headline, page.meaning, page.verdict) == (headline, meaning, "violation")


def test_a_chart_names_who_does_best_unless_many_do() -> None:
    peaks = {"a": 90, "b": 120, "c": 90, "d": 90}
    dispatchers = [dispatcher(name, replay_peak=peak) for name, peak in peaks.items()]

    def said(number: int) -> str:
        ((_, (replay, *_)),) = built_page(comparison(*dispatchers[:number])).sections[0].parts
        return replay.takeaway

    assert said(1) == "As given: at most 120 entries. The fewest, 90, under a."
    assert said(3) == "As given: at most 120 entries. The fewest, 90, under a and c."
    assert said(4) == "As given: at most 120 entries. The fewest, 90, under 3 of 5 dispatchers."


def test_a_smallest_setting_and_what_is_left_out_have_a_section(outline: Outline) -> None:
    text = text_of(outline)
    assert f"The smallest {LIMIT} without a stall: 1,600 (tried: 1,000, 1,600, 2,000)." in text
    assert {"smallest-setting", "left-out"} <= set(outline.values("id"))
    assert not {"smallest-setting", "left-out"} & set(Outline(page_of(three())).values("id"))


def test_every_chart_has_words_and_numbers_and_every_link_a_place(outline: Outline, page: str) -> None:
    assert outline.values("data-chart") == ["replay", "sent", "backlog"]
    assert all(outline.values("aria-label"))
    assert page.count('<details class="numbers">') == 3
    ids = outline.values("id")
    assert len(ids) == len(set(ids))
    assert {link.removeprefix("#") for link in outline.values("href") if link != "data:,"} <= set(ids)


def test_the_charts_have_each_step_beside_that_of_the_dispatcher_as_given(page: str) -> None:
    charts = charts_of(page)
    (rows,) = charts["replay"]["datasets"].values()
    lane = f"{OVERFLOW}: at most 100"
    # Four steps of a second, and the end; as given it is over after 2.5 s.
    assert [(row["at"], row["value"], row["given"]) for row in rows if row["lane"] == lane] == [
        (0, 0, 0),
        (1, 60, 60),
        (2, 100, 120),
        (2.5, 100, 120),
        (3, 90, None),
        (3.5, 90, None),
    ]
    assert [row["stall"] for row in rows if "stall" in row] == [2.0]
    (rows,) = charts["sent"]["datasets"].values()
    # The last step is half as long.
    assert [row["value"] for row in rows if row["lane"].startswith("as given")] == [400, 400, 800, 800]


def test_names_are_text(outline: Outline, page: str) -> None:
    assert "img" not in outline.tags
    assert outline.tags.count("script") == 3
    assert not [name for name, _ in outline.attributes if name.startswith("on")]
    assert outline.text.count("alert(1)") >= 2
    assert "</script><script>alert" not in page


def test_a_page_fetches_nothing_and_allows_only_its_own_scripts(outline: Outline) -> None:
    (policy,) = [value for name, value in outline.attributes if name == "content" and "default-src" in value]
    assert "default-src 'none'" in policy
    assert policy.count("'sha256-") == 2
    assert "unsafe-eval" not in policy
    assert not outline.values("src")


def test_several_partitions_say_how_they_are_taken_together(outline: Outline) -> None:
    assert text_of(outline).count("Of 4 partitions: the sum.") == 2
    assert "Of 4 partitions: the partition with the most of them." in text_of(outline)
    assert "Of 1 partitions" not in page_of(three())


def test_the_text_has_a_row_for_each_dispatcher() -> None:
    head, rule, *rows = markdown(three()).splitlines()
    assert head.split(" | ")[0] == "| dispatcher"
    assert {len(line.split(" | ")) for line in (head, rule, *rows)} == {len(COLUMNS) + 2}
    assert [row.split(" | ")[0] for row in rows] == [
        "| as given",
        f"| {OVERFLOW}",
        "| last sent position (PIP-282)",
    ]


def test_what_was_not_audited_has_no_violations() -> None:
    audited = {"violations", "known_bugs", "blocked_message_s"}
    measures = {name: value for name, value in MEASURES.items() if name not in audited}
    assert [column.cell(measures) for column in COLUMNS[:3]] == ["-", "-", "-"]


def test_the_command_line_loads_no_library_of_charts() -> None:
    call = (
        "import sys, dispatch_audit.jobs.cli\n"
        "print([name for name in ('altair', 'pandas', 'numba', 'jinja2') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_every_chart_is_drawn_with_the_marks_of_its_rows(
    browser: "Browser", page: str, width: int, tmp_path: Path
) -> None:
    file = tmp_path / "what-if.html"
    file.write_text(page, encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme="light")
    opened = Opened(context.new_page(), file)
    for name in ("replay", "sent", "backlog"):
        found = opened.drawn(f'[data-chart="{name}"]').evaluate(COUNT)
        # Three lanes with a solid and a dashed line, which is empty in the first one; only that one has a stall.
        assert found == {"area": 3, "line": 6, "rule": 1}, name
    assert opened.tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert opened.complaints == []
    assert opened.requests == [file.as_uri()]
    context.close()
