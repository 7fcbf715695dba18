import pytest

from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.wording import consumer, duration, moment, share, together


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0004, "0 ms"), (0.25, "250 ms"), (1, "1.0 s"), (119.9, "119.9 s"), (120, "2 min"), (7_260, "2 h 1 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("part", "text"), [(1.0, "100 %"), (0.999999, "99.99 %"), (0.5, "50 %"), (0.1234, "12.34 %"), (0.0, "0 %")]
)
def test_only_a_whole_is_a_hundred_percent(part: float, text: str) -> None:
    assert share(part) == text


def test_counts() -> None:
    assert [count(n, "event") for n in (0, 1, 1234)] == ["0 events", "1 event", "1,234 events"]
    assert count(2, "entry", "entries") == "2 entries"


def test_equal_names_are_told_apart() -> None:
    assert consumer(7, "blue") == "blue (consumer 7)"
    assert consumer(7, None) == "consumer 7"
    assert consumer(None, None) == "nobody"


def test_a_moment_is_utc() -> None:
    assert moment(1_767_225_601_250_999) == "2026-01-01 00:00:01.250"


def test_logs_of_one_folder_are_called_by_it() -> None:
    assert together(["/t/night/acks.jsonl", "/t/night/messages.jsonl"]) == "/t/night (2 logs)"
    assert together(["/t/night"]) == "/t/night"
    assert together(["/a/x.jsonl", "/b/x.jsonl"]) == "/a/x.jsonl, /b/x.jsonl"
