"""What a window holds back: it is said, and released once the window ends long after its last row."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from embedded_commands import EmbeddedCommands
from samples import SAMPLES

from dispatch_audit.pipeline.windows.window import iso_8601

pytestmark = pytest.mark.e2e

CHURN = SAMPLES / "heavy-churn-3.0.7"
# Of the last row, and what is found in the last minute.
LAST_US = 1_795_225_406_692_320
FOUND = 13
MINUTE_US = 60_000_000
# Nothing is sent for 7.3 s because of one consumer; the first window ends in the midst of them.
HUNG = SAMPLES / "hung-consumer-4.0.8"
HUNG_TO = "2026-11-21T01:28:32Z"


Audit = Callable[..., str]


@pytest.fixture
def audit(run_embedded: EmbeddedCommands, tmp_path: Path) -> Audit:
    """Audits a trace into the tables of the test, and returns what the command printed."""

    def audited(*options: str, trace: Path = CHURN, to_us: int | None = None) -> str:
        to = [] if to_us is None else ["--to", iso_8601(to_us)]
        done = run_embedded("audit", trace, "--out", tmp_path / "out", "--fail-on", "never", *to, *options)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return audited


def traces(report: str) -> list[dict[str, Any]]:
    return list(json.loads(report)["traces"])


def found(trace: dict[str, Any]) -> int:
    return int(trace["rules"]["single_holder"]["known_bug"])


def test_a_window_says_what_it_holds_back_and_how_to_get_it(audit: Audit, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    text = audit("--report", f"html={page}", "--report", f"json={tmp_path / 'json'}", to_us=LAST_US + 1)
    (window,) = traces((tmp_path / "json").read_text())
    (subscription,) = window["subscriptions"]
    assert (found(window), window["verdict"], window["order"]) == (0, "not_provable", "not_provable")
    assert (subscription["order_held_back"], subscription["progress_held_back"]) == (FOUND, 0)
    held = f"{FOUND} findings of the last minute of the window are held back"
    assert "ORDER     NOT PROVABLE" in text
    assert held in text
    assert held in page.read_text()
    assert "nothing to do" not in text
    # The command that it names gets them, although no row came.
    (command,) = (line.rpartition(" --to ")[2] for line in text.splitlines() if line.startswith("Next "))
    (next_window,) = traces(audit("--to", command, "--format", "json"))
    assert (next_window["events"], found(next_window)) == (0, FOUND)


def test_a_window_that_ends_while_nothing_is_sent_does_not_say_that_messages_flow(audit: Audit, tmp_path: Path) -> None:
    text = audit("--to", HUNG_TO, "--report", f"json={tmp_path / 'json'}", trace=HUNG)
    (window,) = traces((tmp_path / "json").read_text())
    (subscription,) = window["subscriptions"]
    assert (window["order"], window["progress"], window["held_up_seconds"]) == ("kept", "not_provable", 0.0)
    assert (subscription["order_held_back"], subscription["progress_held_back"]) == (0, 1)
    assert "PROGRESS  NOT PROVABLE: 1 finding or long wait of the last minute of the window is held back" in text
    assert "nothing to do" not in text
    # The next window reports the whole time, which began in this one.
    (last,) = traces(audit("--to", "2026-11-21T01:30:00Z", "--format", "json", trace=HUNG))
    assert (last["progress"], round(last["held_up_seconds"], 1)) == ("held_up", 7.3)


def test_a_window_that_holds_nothing_back_says_that_its_last_minute_is_not_judged(audit: Audit) -> None:
    flows = "PROGRESS  FLOWING: whenever entries waited, some were sent within 1.0 s"
    left = "; the next window judges the last minute of this one"
    assert f"{flows}{left}\n" in audit(to_us=LAST_US - 6_000_000)
    assert f"{flows}\n" in audit(to_us=LAST_US + 2 * MINUTE_US)


@pytest.mark.parametrize(("after_us", "released"), [(MINUTE_US, 0), (MINUTE_US + 1, FOUND)])
def test_a_window_that_ends_long_after_its_last_row_holds_nothing_back(
    audit: Audit, after_us: int, released: int
) -> None:
    (window,) = traces(audit("--format", "json", to_us=LAST_US + after_us))
    (subscription,) = window["subscriptions"]
    assert (found(window), subscription["order_held_back"]) == (released, FOUND - released)


def test_what_was_released_is_not_reported_again(audit: Audit) -> None:
    audit(to_us=LAST_US + 2 * MINUTE_US)
    (window,) = traces(audit("--format", "json", to_us=LAST_US + 4 * MINUTE_US))
    assert (window["events"], found(window), window["verdict"]) == (0, 0, "clean")


def test_windows_that_are_audited_again_are_called_windows(audit: Audit) -> None:
    for to_us in (LAST_US - 6_000_000, LAST_US - 3_000_000, LAST_US + 2 * MINUTE_US):
        audit(to_us=to_us)
    text = audit("--reaudit", "0")
    assert "all 3 windows: " in text
    assert " of 3 windows" in text
    assert "3 traces" not in text
