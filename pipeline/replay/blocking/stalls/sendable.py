"""Which of the entries that wait in a stall could have been sent, and which something held up (V10).

An entry could have been sent if its owner could take it for as long as a stall lasts at least and no other consumer
held its hash. Whether the subscription had to send it is another question: it may begin after the entry, an
administrator may have moved mark-delete past it (contract 5.10), and on the older dispatcher its owner may have joined
recently (6.1).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.replay.blocking.attribution import Waiters, are_after, are_before
from dispatch_audit.pipeline.replay.blocking.consumer_availability import mark_delete_is_guessed
from dispatch_audit.pipeline.replay.blocking.stalls.reported import Reported, reported_as_read, shown_as_kept
from dispatch_audit.pipeline.replay.blocking.stalls.situation import Situation
from dispatch_audit.pipeline.replay.state.causes import Cause
from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, Ints
from dispatch_audit.pipeline.replay.state.seen import Seen
from dispatch_audit.pipeline.replay.state.state import common_of

Mask = NDArray[np.bool_]


class Divided(NamedTuple):
    """The entries that wait in a stall, by what held them up.

    Attributes:
        waiting: all of them.
        unavailable: which consumers could be sent nothing.
        held: which entries something has held up.
        free: the entries that could have been sent for as long as a stall lasts, and had to be.
    """

    waiting: Waiters
    unavailable: Mask
    held: Mask
    free: Waiters


def divided(situation: Situation, waiting: Waiters, unavailable: Mask) -> Divided:
    """The entries that wait, if these consumers could be sent nothing."""
    clear_ts = situation.state.waits.hashes.view(np.ndarray)["clear"]["ts_us"][waiting.hash_at]
    held: Mask = (
        waiting.drains | (clear_ts > situation.since_us) | (waiting.owner == NOBODY) | unavailable[waiting.owner]
    )
    could_be_sent = ~held & (waiting.since_ts <= situation.since_us)
    return Divided(waiting, unavailable, held, waiting.where(could_be_sent & must_be_sent(situation, waiting)))


def causes(situation: Situation, since_us: int) -> Ints:
    """Why each consumer can be sent nothing at the end of a time, or could not later than `since_us`."""
    waits: Any = situation.state.waits.consumers.view(np.ndarray)
    lately = (waits["cause"] == Cause.READY.value) & (waits["cause_since"]["ts_us"] > since_us)
    found: Ints = np.where(lately, waits["former"], waits["cause"])
    if situation.ended is not None:
        found[situation.ended.consumer] = situation.ended.cause
    return found


def cannot_be_sent(situation: Situation, since_us: int) -> Mask:
    """Which consumers can be sent nothing at the end of a time, or could not later than `since_us`.

    The broker may send to one that is blocked on unacknowledged messages, but only if something else makes it read
    (4.2, 4.8). A snapshot without permits overrides rows that grant some: a limit that no row names may withhold them.
    """
    state, reported = situation.state, situation.reported
    consumers: Any = state.consumers.view(np.ndarray)
    cannot: Mask = (
        (causes(situation, since_us) != Cause.READY.value)
        | (consumers["blocked"] == 1)
        | (consumers["unblocked_ts"] > since_us)
    )
    if reported.short:
        short = np.array(sorted(reported.short))
        cannot[short] |= state.waits.consumers.view(np.ndarray)["cause_since"]["ts_us"][short] <= reported.unacked_us
    return cannot


def must_be_sent(situation: Situation, waiting: Waiters) -> Mask:
    """Whether the subscription certainly has to deliver each entry.

    It may begin after what was published before its first consumer joined, unless it was sent something before that.
    """
    state = situation.state
    entries: Any = state.entries.view(np.ndarray)
    common, consumers = common_of(state), state.consumers.view(np.ndarray)
    at_first_join = consumers[0]["published_at_join"].item()
    certain = are_after(state, waiting.slot, at_first_join) | (entries["marks"][waiting.slot] & Mark.SENT != 0)
    if common["highest_dispatched"]["ledger"] != UNKNOWN:
        certain |= are_after(state, waiting.slot, common["highest_dispatched"].item())
    if situation.sent is not None:
        certain |= ~are_before(state, waiting.slot, situation.sent)
    must: Mask = certain & ~may_be_skipped(state, waiting, situation.reported)
    return must


def may_be_skipped(state: Seen, waiting: Waiters, reported: Reported) -> Mask:
    """Whether an administrator may have moved mark-delete past each entry; no row says how far it was moved (5.10)."""
    entries, common = state.entries.view(np.ndarray), common_of(state)
    skipped: Mask = entries["marks"][waiting.slot] & Mark.MAYBE_SKIPPED != 0
    if common["skip_until_ts"] != UNKNOWN:
        # The row of a publish may come after that of the skip. What was sent is marked if it was sent before the skip.
        unsent = entries["marks"][waiting.slot] & Mark.SENT == 0
        skipped |= unsent & (waiting.since_ts <= common["skip_until_ts"] + common["publish_skew_us"])
    return skipped & ~shown_as_kept(state, waiting.slot, reported)


def held_back(situation: Situation, waiting: Waiters) -> tuple[Mask, Mask]:
    """Which entries wait because their consumers joined recently, for certain and perhaps (6.1).

    Such a consumer gets nothing new from its position on, and nothing out of replay from the lowest of the positions
    on. Whether the broker reads on for the others is another question (`gates`).
    """
    state, held = situation.state, situation.held_back
    certain: Mask = np.zeros(waiting.slot.size, dtype=np.bool_)
    if not held.applies:
        return certain, certain
    joined = [consumer for consumer, _ in held.until]
    if joined:
        lowest = min(until for _, until in held.until)
        certain = np.isin(waiting.owner, joined) & ~are_before(state, waiting.slot, lowest)
    common = common_of(state)
    mark_delete = common["mark_delete"].item()
    guessed = mark_delete_is_guessed(state)
    perhaps = [consumer for consumer, published in held.perhaps if published > mark_delete or guessed]
    if not perhaps:
        return certain, certain
    unread = ~reported_as_read(state, waiting, situation.reported)
    maybe: Mask = certain | unread | np.isin(waiting.owner, perhaps + joined)
    return certain, maybe
