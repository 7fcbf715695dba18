"""Which of the entries that wait in a stall could have been sent, and which wait for what nothing was sent for (V10).

An entry could have been sent if its owner could take it for as long as a stall lasts at least and no other consumer
held its hash. Whether the subscription had to send it is another question: it may begin after the entry, an
administrator may have moved mark-delete past it (contract 5.10), and on the older dispatcher its owner may have joined
recently (6.1).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.replay.blocking.attribution import Waiters, are_after, are_before
from dispatch_audit.pipeline.replay.blocking.stall_symptoms import Reported, reported_as_read
from dispatch_audit.pipeline.replay.packing.membership_rows import NEVER
from dispatch_audit.pipeline.replay.packing.snapshot import Position
from dispatch_audit.pipeline.replay.state.causes import Cause
from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, Ints
from dispatch_audit.pipeline.replay.state.seen import Seen
from dispatch_audit.pipeline.replay.state.state import READ_US, common_of

Mask = NDArray[np.bool_]


class HeldBack(NamedTuple):
    """The recently joined consumers of a dispatcher that keeps them (3.x and classic; contract 6.1).

    Attributes:
        applies: whether the dispatcher keeps recently joined consumers.
        until: the index of each with the position that it gets nothing from for now, in the order of the joins; the
            real position may be higher.
        holder: the index of the consumer that held the oldest entry when the first of them joined; NOBODY: none did.
        perhaps: consumers that rows do not show to be held back, but may be: the index with the highest position that
            was published at its join.
    """

    applies: bool
    until: tuple[tuple[int, Position], ...]
    holder: int
    perhaps: tuple[tuple[int, Position], ...]


class Ended(NamedTuple):
    """A consumer that can be sent something again, or nothing for another reason, and the cause until now."""

    consumer: int
    cause: int


def causes(state: Seen, since_us: int, ended: Ended | None) -> Ints:
    """Why each consumer can be sent nothing now, or could not later than `since_us`; of `ended`, why until now."""
    waits: Any = state.waits.consumers.view(np.ndarray)
    lately = (waits["cause"] == Cause.READY.value) & (waits["cause_ts"] > since_us)
    found: Ints = np.where(lately, waits["former"], waits["cause"])
    if ended is not None:
        found[ended.consumer] = ended.cause
    return found


def cannot_be_sent(state: Seen, since_us: int, reported: Reported, ended: Ended | None) -> Mask:
    """Which consumers can be sent nothing now, or could not later than `since_us`.

    The broker may send to one that is blocked on unacknowledged messages, but only if something else makes it read
    (4.2, 4.8). A snapshot that shows no permits says more than rows that grant some: a limit that
    no row names may withhold them.
    """
    consumers: Any = state.consumers.view(np.ndarray)
    cannot: Mask = (
        (causes(state, since_us, ended) != Cause.READY.value)
        | (consumers["blocked"] == 1)
        | (consumers["unblocked_ts"] > since_us)
    )
    if reported.short:
        short = np.array(sorted(reported.short))
        cannot[short] |= state.waits.consumers.view(np.ndarray)["cause_ts"][short] <= reported.unacked_us
    return cannot


def can_be_sent(state: Seen, waiting: Waiters, unavailable: Mask, since_us: int) -> Mask:
    """Which entries their owners could have been sent since a time."""
    can: Mask = ~held_up(state, waiting, unavailable, since_us) & (waiting.since_ts <= since_us)
    return can


def could_be_sent_since(state: Seen, waiting: Waiters, now_us: int, reported: Reported, ended: Ended | None) -> Ints:
    """Since when each entry could be sent, as far as its owner and its hash are concerned; NEVER: it cannot now."""
    consumers: Any = state.consumers.view(np.ndarray)
    clear_ts = state.waits.hashes.view(np.ndarray)["clear_ts"][waiting.hash_at]
    cause_ts = state.waits.consumers.view(np.ndarray)["cause_ts"]
    ready_ts = np.maximum(cause_ts, consumers["unblocked_ts"])[waiting.owner]
    held = held_up(state, waiting, cannot_be_sent(state, now_us, reported, ended), now_us)
    since: Ints = np.where(held, NEVER, np.maximum(np.maximum(waiting.since_ts, clear_ts), ready_ts))
    return since


def held_up(state: Seen, waiting: Waiters, unavailable: Mask, since_us: int) -> Mask:
    """Which entries something has held up since a time, so that they stay in replay once they were read."""
    clear_ts = state.waits.hashes.view(np.ndarray)["clear_ts"][waiting.hash_at]
    held: Mask = waiting.drains | (clear_ts > since_us) | (waiting.owner == NOBODY) | unavailable[waiting.owner]
    return held


def must_be_sent(state: Seen, waiting: Waiters, sent: Position | None, reported: Reported) -> Mask:
    """Whether the subscription certainly has to deliver each entry.

    It may begin after what was published before its first consumer joined, unless it was sent something before that.
    """
    entries: Any = state.entries.view(np.ndarray)
    common, consumers = common_of(state), state.consumers.view(np.ndarray)
    at_first_join = consumers[0]["published_at_join_ledger"], consumers[0]["published_at_join_entry"]
    certain = are_after(state, waiting.slot, at_first_join) | (entries["marks"][waiting.slot] & Mark.SENT.value != 0)
    if common["highest_dispatched_ledger"] != UNKNOWN:
        highest = common["highest_dispatched_ledger"], common["highest_dispatched_entry"]
        certain |= are_after(state, waiting.slot, highest)
    if sent is not None:
        certain |= ~are_before(state, waiting.slot, sent)
    must: Mask = certain & ~may_be_skipped(state, waiting, reported)
    return must


def may_be_skipped(state: Seen, waiting: Waiters, reported: Reported) -> Mask:
    """Whether an administrator may have moved mark-delete past each entry; no row says how far it was moved (5.10)."""
    entries, common = state.entries.view(np.ndarray), common_of(state)
    skipped: Mask = entries["marks"][waiting.slot] & Mark.MAYBE_SKIPPED.value != 0
    if common["skip_until_ts"] != UNKNOWN:
        # The row of a publish may come after that of the skip. What was sent is marked if it was sent before the skip.
        unsent = entries["marks"][waiting.slot] & Mark.SENT.value == 0
        skipped |= unsent & (waiting.since_ts <= common["skip_until_ts"] + common["publish_skew_us"])
    # READ_US is also more than a snapshot takes.
    if reported.mark_delete is not None and reported.position_us > common["skip_begun_ts"] + READ_US:
        skipped &= ~are_after(state, waiting.slot, reported.mark_delete)
    return skipped


def held_back(state: Seen, waiting: Waiters, held: HeldBack, reported: Reported) -> tuple[Mask, Mask]:
    """Which entries wait because their consumers joined recently, for certain and perhaps (6.1).

    Such a consumer gets nothing from its position on, and nothing from the position of the first of them on out of
    replay. Whether the broker reads on for the others is another question (`stalls`).
    """
    if not held.applies:
        nothing = np.zeros(waiting.slot.size, dtype=bool)
        return nothing, nothing
    certain: Mask = np.zeros(waiting.slot.size, dtype=bool)
    first = min((until for _, until in held.until), default=None)
    for consumer, until in held.until:
        least = until if first is None else min(first, until)
        certain = certain | ((waiting.owner == consumer) & ~are_before(state, waiting.slot, least))
    common = common_of(state)
    mark_delete = int(common["mark_delete_ledger"]), int(common["mark_delete_entry"])
    perhaps = [consumer for consumer, published in held.perhaps if published > mark_delete]
    if not perhaps:
        return certain, certain
    unread = ~reported_as_read(state, waiting, reported)
    maybe: Mask = certain | unread | np.isin(waiting.owner, [*perhaps, *(consumer for consumer, _ in held.until)])
    return certain, maybe
