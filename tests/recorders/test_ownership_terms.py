"""Who owned a topic when, by what its recorders wrote."""

from collections.abc import Iterable

import pytest
from local_replay import SKEW_US, TOPIC, Columns, Log, batches

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.packing.membership_rows import NEVER
from dispatch_audit.pipeline.packing.pack import pack
from dispatch_audit.pipeline.recorders.ownership_terms import recorders_of, stretches
from dispatch_audit.pipeline.recorders.recorders import Recorders

_S = 1_000_000


def _log(broker: str | None, now_us: int, consumer: int, entries: Iterable[int], step_us: int = 1_000) -> list[Columns]:
    log = Log(now_us=now_us, step_us=step_us)
    log.join(consumer)
    for entry in entries:
        log.publish(entry)
        log.dispatch(consumer, entry)
    return [{**row, "broker": broker} for row in log.rows]


def _behind(rows: list[Columns], *more: list[Columns]) -> list[Columns]:
    """Rows of one recorder, which numbers them as it writes them."""
    numbered = [row for part in (rows, *more) for row in part]
    return [{**row, "seq": seq} for seq, row in enumerate(numbered, start=1)]


def _terms(*logs: list[Columns], rows_per_batch: int | None = None, skew_us: int = SKEW_US) -> Recorders:
    profile = profile_for("4.0.8", {})
    packed = (chunk for log in logs for batch in batches(log, rows_per_batch) for chunk in pack(batch, profile))
    parts = [part for chunk in packed for part in stretches(chunk, skew_us)]
    return recorders_of(TOPIC, parts, skew_us)


def _bounds(recorders: Recorders) -> list[tuple[str | None, int, int]]:
    return [(recorders.names[term.recorder], term.first_seq, term.last_seq) for term in recorders.terms]


@pytest.mark.parametrize("rows_per_batch", [None, 7, 1])
def test_a_topic_that_comes_back_has_a_term_more(rows_per_batch: int | None) -> None:
    first, again = _log("a", 10 * _S, 1, range(5)), _log("a", 30 * _S, 2, range(10, 15))
    a, b = _behind(first, again), _log("b", 20 * _S, 1, range(5, 10))
    found = _terms(b, a, rows_per_batch=rows_per_batch)
    assert _bounds(found) == [("a", 1, len(first)), ("b", 1, len(b)), ("a", len(first) + 1, len(a))]
    places = [found.terms[0].last, found.terms[1].first, found.terms[1].last, found.terms[2].first]
    assert places == [17, 20, 36, 39], "two places lie between two terms"
    assert [term.until_us for term in found.terms] == [20 * _S, 30 * _S, NEVER]


@pytest.mark.parametrize("ahead_us", [-8_000, 8_000])
def test_clocks_may_differ_by_the_skew(ahead_us: int) -> None:
    a = _log("a", 10 * _S, 1, range(5))
    b = _log("b", a[-1]["ts_us"] + 1_000 + ahead_us, 1, range(5, 30))
    back = _log("a", b[-1]["ts_us"] + 1_000 - ahead_us, 2, range(30, 35))
    found = _terms(_behind(a, back), b)
    assert [name for name, *_ in _bounds(found)] == ["a", "b", "a"]
    assert found.terms[0].last_seq == len(a)


@pytest.mark.parametrize("step_us", [1_000, 50_000])
def test_two_that_write_as_owners_at_one_time_are_refused(step_us: int) -> None:
    a, b = _log("a", 10 * _S, 1, range(50), step_us), _log("b", 10 * _S + 25_000, 1, range(50), step_us)
    with pytest.raises(
        TraceError, match=r"the recorders (a and b|b and a) both wrote as its owner between .* by itself"
    ):
        _terms(a, b)


def test_whoever_sends_again_before_anybody_joins_never_lost_the_topic() -> None:
    a = _log("a", 10 * _S, 1, range(2), 5 * _S)
    b = _log("b", 22 * _S, 1, [])
    with pytest.raises(TraceError, match="as its owner"):
        _terms(a, b)


def test_what_comes_late_or_is_refused_begins_no_term() -> None:
    late = Log(now_us=21 * _S)
    late.ack(1, 0)
    late.leave(1)
    late.write("join", phase="start", consumer=None)
    late.dispatch(1, 4, phases="end")
    a, b = _behind(_log("a", 10 * _S, 1, range(5)), late.rows), _log("b", 20 * _S, 1, range(5, 10), 500_000)
    found = _terms([{**row, "broker": "a"} for row in a], b)
    assert _bounds(found) == [("a", 1, len(a)), ("b", 1, len(b))]


def test_a_term_begins_with_the_consumers_that_ask_for_the_topic() -> None:
    first, b = _log("a", 10 * _S, 1, range(5)), _log("b", 20 * _S, 1, range(5, 10))
    refused = Log(now_us=20 * _S + 2_000)
    refused.write("join", phase="start", consumer=None)
    again = Log(now_us=30 * _S)
    begin = again.join(2, phases="start")
    again.now_us += _S
    again.join(2, phases="end")
    a = _behind(first, refused.rows, again.rows)
    found = _terms([{**row, "broker": "a"} for row in a], b)
    assert found.terms[2].first_seq == len(first) + 1 + begin
    assert found.terms[1].until_us == 30 * _S


def test_a_recorder_of_late_rows_only_owned_it_before_the_others() -> None:
    late = Log(now_us=10 * _S + 2_000)
    late.ack(1, 0)
    a = [{**row, "broker": "z"} for row in late.rows]
    assert [name for name, *_ in _bounds(_terms(a, _log("b", 10 * _S, 1, range(5))))] == ["z", "b"]


def test_rows_without_a_name_are_of_a_recorder_of_their_own() -> None:
    found = _terms(_log(None, 10 * _S, 1, range(5)), _log("b", 20 * _S, 1, range(5)), _log("c", 30 * _S, 1, range(5)))
    assert [name for name, *_ in _bounds(found)] == [None, "b", "c"]


def test_numbers_that_leave_no_room_are_refused() -> None:
    a = [{**row, "seq": row["seq"] + (1 << 62)} for row in _log("a", 10 * _S, 1, range(5))]
    a[0]["seq"] = 1
    with pytest.raises(TraceError, match="too large"):
        _terms(a, _log("b", 20 * _S, 1, range(5)))
