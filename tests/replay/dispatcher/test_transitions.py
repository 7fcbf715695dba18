"""The table of `dispatch_audit.pipeline.replay.dispatcher.entry.transitions`, cell by cell, on the kernel itself."""

from collections.abc import Callable
from typing import Final

import pytest
from local_replay import AUTO_SPLIT, GROUP, HIGH, LOW, SKEW_US, Log, chunks_of

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.packing.packed_batch import merged
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.dispatcher.entry import transitions
from dispatch_audit.pipeline.replay.state.values import UNSURE, Mark
from dispatch_audit.pipeline.replay.subscription.subscription import Subscription

# Consumer 2 owns the hash of the entry, which is 1:1; that it holds 1:0 keeps mark-delete below.
OWNER, OTHER, BACK_AFTER_RESET = 2, 1, 3
COLUMNS: Final = ("absent", "waiting", "pending", "acked", "again", "unsure")


def _cells() -> list[tuple[str, str, str]]:
    lines = (transitions.__doc__ or "").splitlines()
    first = next(number for number, line in enumerate(lines) if line.split()[:2] == ["event", "absent"])
    cells: list[tuple[str, str, str]] = []
    for line in lines[first + 1 :]:
        if not line.strip():
            return cells
        event, rest = line[:24].strip(), line[24:].split()
        cells += [(event, state, leads_to) for state, leads_to in zip(COLUMNS, rest, strict=False)]
    raise AssertionError("the table has no end")


def _in_state(state: str) -> Log:
    log = Log()
    log.join(OTHER)
    log.join(OWNER)
    log.publish(0, LOW)
    log.dispatch(OWNER, 0, LOW)
    if state != "absent":
        log.publish(1, LOW)
    if state in ("pending", "acked", "again"):
        log.dispatch(OWNER, 1, LOW)
    if state in ("acked", "again"):
        log.ack(OWNER, 1)
    if state == "again":
        log.dispatch(OWNER, 1, LOW)
    if state == "unsure":
        log.reset("unload")
        log.join(BACK_AFTER_RESET)
    log.now_us += 10 * SKEW_US
    return log


EVENTS: Final[dict[str, Callable[[Log, int], object]]] = {
    "publish": lambda log, consumer: log.publish(1, LOW),
    "dispatch": lambda log, consumer: log.dispatch(consumer, 1, LOW),
    "ack": lambda log, consumer: log.ack(consumer, 1),
    "publish in a txn": lambda log, consumer: log.publish(1, LOW, transaction="(0,1)"),
    "ack in a txn": lambda log, consumer: log.ack(consumer, 1, transaction="(0,1)"),
    "redeliver": lambda log, consumer: log.redeliver(consumer, 1),
    "leave": lambda log, consumer: log.leave(consumer),
    "reset": lambda log, consumer: log.reset("unload"),
    "mark-delete moves": lambda log, consumer: (log.ack(consumer, 0), log.stats("1:1")),
}


def _state_of(log: Log) -> str:
    """The state of entry 1:1 at the end of a log."""
    log.now_us += 10_000_000  # whatever is open is decided by then
    log.publish((9, 9), HIGH)
    profile = profile_for("4.0.8", AUTO_SPLIT)
    config = ReplayConfig(profile, "4.0.8", profile.broker(AUTO_SPLIT), SKEW_US, 1_000)
    subscription = Subscription(config)
    for part in merged(sorted(chunks_of([log.rows], config)[GROUP], key=lambda batch: batch.first_seq)):
        subscription.feed(part)
    entries = subscription.loop.dispatcher._state.entries
    found = entries[(entries.ledger == 1) & (entries.entry == 1)]
    if found.size == 0:
        return "absent"
    marks, held = int(found[0].marks), found[0].holder >= 0
    if held:
        return "again" if marks & Mark.ACKED else "pending"
    return next(
        name for mark, name in ((Mark.ACKED, "acked"), (Mark.WAITING, "waiting"), (UNSURE, "unsure")) if marks & mark
    )


@pytest.mark.parametrize("state", COLUMNS)
def test_a_log_leads_to_the_state(state: str) -> None:
    assert _state_of(_in_state(state)) == state


@pytest.mark.parametrize(("event", "state", "leads_to"), _cells())
def test_the_event_leads_where_the_table_says(event: str, state: str, leads_to: str) -> None:
    log = _in_state(state)
    consumer = BACK_AFTER_RESET if state == "unsure" else OWNER

    EVENTS[event](log, consumer)

    assert _state_of(log) == (state if leads_to == "-" else leads_to)


def test_the_table_has_every_event() -> None:
    assert {event for event, _, _ in _cells()} == EVENTS.keys()
