"""What the state needs: it grows with what is open, and with nothing else."""

from typing import Any

import numpy as np
import pytest
from local_replay import HIGHEST, LOW, Log, replayed

from dispatch_audit.pipeline.assignment.ranges.routing import routing_of_ranges
from dispatch_audit.pipeline.errors import LimitError
from dispatch_audit.pipeline.packing.events import DTYPES, Code, Events
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.blocking.monitor import BlockingMonitor
from dispatch_audit.pipeline.replay.dispatcher.dispatcher import Dispatcher
from dispatch_audit.pipeline.replay.settings.broker_limits import Thresholds, limits_of
from dispatch_audit.pipeline.replay.settings.settings_in_force import SettingsInForce
from dispatch_audit.pipeline.replay.state.records import Ints
from dispatch_audit.pipeline.replay.state.state import Policy
from dispatch_audit.pipeline.replay.state.values import SETS_DELETE

HASHES = 65_536


def _dispatcher(open_entries_max: int = 1_000_000) -> Dispatcher:
    """One that drains, with consumer 1 as the owner of everything."""
    policy = Policy(10_000, 0, True, True, False, 100_000, 1_000_000, 1_000_000)
    in_force = SettingsInForce({}, {})
    monitor = BlockingMonitor(limits_of({}, looks_ahead=True), Thresholds(), in_force, 10_000)
    dispatcher = Dispatcher(policy, open_entries_max, monitor, ack_sets=SETS_DELETE, exceptions=())
    dispatcher.drains = True
    dispatcher.connect(1, TracePoint(0, 0))
    routing = routing_of_ranges([(0, HASHES, 1)])
    dispatcher.route(routing, TracePoint(0, 0), 0, routing)
    return dispatcher


def _events(code: Ints, entry: Ints, key: Ints, ts_us: Ints, ledger: Ints | None = None) -> Events:
    columns = {name: np.zeros(code.size, dtype=dtype) for name, dtype in DTYPES.items()}
    columns |= {"seq": np.arange(1, code.size + 1), "consumer": np.ones(code.size, dtype=np.int64)}
    columns |= {"code": code.astype(np.int8), "entry": entry, "murmur": key, "key_id": key, "ts_us": ts_us}
    columns |= {"value": np.ones_like(entry), "ledger": np.ones_like(entry) if ledger is None else ledger}
    return Events(**columns)


def _steady(entries: int, open_entries: int, keys: int, ledger_length: int) -> Events:
    """Every entry is published, sent and acknowledged, when so many others are open; each a millisecond apart."""
    number = np.arange(entries)
    codes = [Code.PUBLISH, Code.DISPATCH_START, Code.DISPATCH_END, Code.ACK_START]
    turns = np.concatenate([number * 4 + place + (open_entries * 4 if place == 3 else 0) for place in range(4)])
    order = np.argsort(turns, kind="stable")
    code = np.repeat(np.array(codes, dtype=np.int64), entries)[order]
    entry = np.tile(number, 4)[order]
    return _events(code, entry % ledger_length, entry % keys, turns[order] * 1000, 1 + entry // ledger_length)


def _replay(dispatcher: Dispatcher, events: Events, hashes: Ints) -> None:
    dispatcher.replay(events, hashes, dispatcher.consumers.indexes(events.consumer))


def _size(dispatcher: Dispatcher) -> int:
    state = dispatcher._state
    arrays: list[Any] = [*state, *state.waits, *state.limits, *state.checks]
    return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))


@pytest.mark.parametrize("keys", [500, 10**9], ids=["keys that come again", "keys that never come again"])
def test_the_state_does_not_grow_with_the_length_of_a_trace(keys: int) -> None:
    events = _steady(entries=80_000, open_entries=300, keys=keys, ledger_length=7_000)
    hashes = events.murmur % HASHES
    dispatcher = _dispatcher()
    sizes = []
    for start in range(0, events.seq.size, 20_000):
        _replay(dispatcher, events.rows(start, start + 20_000), hashes[start : start + 20_000])
        sizes.append(_size(dispatcher))
    assert events.seq.size > 300_000
    assert sizes[-1] == sizes[len(sizes) // 4]
    findings, episodes = dispatcher.findings(), dispatcher.episodes()
    assert findings.size == episodes.size == 0
    assert dispatcher.counts[1] == (80_000, 80_000)


def test_a_hash_that_a_sweep_frees_keeps_its_peak() -> None:
    # The first 40 entries share a hash, which the sweeps drop from the state.
    events = _steady(entries=40_000, open_entries=20, keys=10**9, ledger_length=7_000)
    number = (events.ledger - 1) * 7_000 + events.entry
    hashes = np.where(number < 40, 7, 100 + number % 50_000)
    dispatcher = _dispatcher()
    for start in range(0, events.seq.size, 10_000):
        _replay(dispatcher, events.rows(start, start + 10_000), hashes[start : start + 10_000])
    in_use: Any = dispatcher._state.hashes
    assert 7 not in in_use.hash.tolist()
    dispatcher.peaks.note_all(dispatcher._state)
    peaks = dispatcher.peaks.all()
    assert peaks.hash.size == np.unique(hashes).size
    assert dict(zip(peaks.hash.tolist(), peaks.entries.tolist(), strict=True))[7] > 1


@pytest.mark.heavy
def test_the_state_grows_with_what_is_open() -> None:
    number = np.arange(50_000)
    opened = _events(np.full(50_000, Code.PUBLISH), number, number, number * 1000)
    dispatcher = _dispatcher()
    before = _size(dispatcher)
    _replay(dispatcher, opened, number % HASHES)
    assert _size(dispatcher) > before + 50_000 * 100
    # All of them are still known: what is sent in order is in order.
    sent = opened._replace(code=np.full(50_000, Code.DISPATCH_END, dtype=np.int8), ts_us=opened.ts_us + 10**9)
    _replay(dispatcher, sent, number % HASHES)
    again = sent._replace(seq=sent.seq + 50_000, ts_us=sent.ts_us + 10**9)
    _replay(dispatcher, again, number % HASHES)
    findings = dispatcher.findings()
    assert findings.size == 50_000
    assert findings.other_seq.tolist() == sent.seq.tolist()


@pytest.mark.heavy
def test_what_was_given_back_and_acknowledged_is_kept_until_no_read_can_send_it() -> None:
    log = Log()
    log.join(1)
    for entry in range(3):
        log.publish(entry)
    log.dispatch(1, 0)
    log.redeliver(1, 0)
    log.ack(1, 0)
    # Rows for which the arrays have to be swept.
    for entry in range(3, 40_000):
        log.rows.append({**log.rows[2], "seq": len(log.rows) + 1, "entry_id": entry, "ts_us": log.now_us})
    soon = log.dispatch(1, 0)
    assert soon not in [seq for _, seq in replayed(log.rows, rows_per_batch=5_000).broken]


def test_more_open_entries_than_the_limit_are_an_error_that_says_what_to_do() -> None:
    log = Log()
    log.join(1)
    for entry in range(3_000):
        log.publish(entry, LOW if entry % 2 else HIGHEST)
    with pytest.raises(LimitError, match="entries of one subscription are open at the same time") as raised:
        # The limit is looked at whenever rows come.
        replayed(log.rows, open_entries_max=1_000, rows_per_batch=500, skew_us=0)
    assert "limits.open_entries_max" in str(raised.value)


def test_as_many_open_entries_as_the_limit_are_none() -> None:
    log = Log()
    log.join(1)
    for entry in range(3_000):
        log.publish(entry)
        if entry >= 900:
            log.dispatch(1, entry - 900)
            log.ack(1, entry - 900)
    assert replayed(log.rows, open_entries_max=1_000, rows_per_batch=500).findings == []


def test_ack_sets_are_packed_together_when_their_room_is_used_up() -> None:
    log = Log()
    log.join(1)
    for entry in range(600):
        log.publish(entry, batch_size=200)
        log.dispatch(1, entry)
        log.ack(1, entry, ack_set=[-1, -1, 0, 255])
        if entry >= 10:
            log.ack(1, entry - 10, ack_set=[0, 0, -1, 0])
    # Of the last ten the last word is left.
    log.ack(1, *range(590, 600), ack_set=[0, 0, -1, -1])
    for entry in range(600):
        log.dispatch(1, entry)
    findings = replayed(log.rows, rows_per_batch=100).findings
    assert [finding.acknowledged for finding in findings] == [True] * 590 + [False] * 10
