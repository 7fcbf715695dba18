"""Finds why nothing was sent to any consumer for a while although entries waited (Q12; PIP-474's stall)."""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.blocking.attribution import (
    Blocked,
    Interval,
    Waiters,
    are_before,
    at_position,
    joined,
    largest,
    most_waited_for,
    number_before,
    oldest,
    oldest_held,
    oldest_held_by_all,
    shown_as_read,
    waiters,
)
from dispatch_audit.pipeline.replay.blocking.capacity_samples import ack_holes
from dispatch_audit.pipeline.replay.blocking.sendable import (
    Ended,
    HeldBack,
    can_be_sent,
    cannot_be_sent,
    causes,
    could_be_sent_since,
    held_back,
    held_up,
    may_be_skipped,
    must_be_sent,
)
from dispatch_audit.pipeline.replay.blocking.stall_symptoms import ReplayHead, Reported, reported_as_read, symptom
from dispatch_audit.pipeline.replay.blocking.starved_hashes import are_found, unserved_since_drained
from dispatch_audit.pipeline.replay.blocking.unshown.limits import (
    UNSHOWN_IN_REPLAY,
    UNSHOWN_LOOK_AHEAD,
    UNSHOWN_RATE,
    UNSHOWN_SUBSCRIPTION,
    UNSHOWN_UNACKED,
    is_pause_of_a_rate,
    may_be_full,
    may_be_too_long,
    perhaps_blocked,
)
from dispatch_audit.pipeline.replay.packing.membership_rows import NEVER
from dispatch_audit.pipeline.replay.packing.snapshot import SNAPSHOT_LAG_US, Position
from dispatch_audit.pipeline.replay.settings.broker_limits import READ_BATCH, BrokerLimits
from dispatch_audit.pipeline.replay.state.causes import Cause
from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.memories import WAIT
from dispatch_audit.pipeline.replay.state.output import BY_GAP, BY_LEAVE, BY_RESET, STILL_OPEN
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, record_of
from dispatch_audit.pipeline.replay.state.seen import Seen
from dispatch_audit.pipeline.replay.state.state import common_of

# A read takes 0.7 to 40 ms, and the pause after one that brings nothing to send 10 ms (contract 4.9, 6.6).
_READ_AND_PAUSE_US: Final = 100_000
_AFTER_ALL: Final = (NEVER, 0)


class Situation(NamedTuple):
    """A time in which nothing was sent, and what is true at its end and is not in the state of the kernel.

    Attributes:
        interval: the time.
        reported: what snapshots of it say.
        sent: the entry whose dispatch ends it; None: something else does.
        stall_threshold_us: the shortest time without a dispatch that is a stall.
        limits: of the broker, as far as settings are in force.
        held_back: the recently joined consumers, which get nothing new (3.x and classic; 6.1).
        out_of_order: the indexes of the consumers that snapshots show to be remembered after one with a later read
            position (6.3).
        pauses_at: with more ranges of acknowledged entries than this the dispatcher may pause (4.2); 0: it does not.
        look_ahead_is_said: whether rows say the limits of look-ahead.
        rates_are_said: whether rows say the limits of the dispatch rate.
        ended: the consumer whose interval ends there; None: none does.
    """

    interval: Interval
    reported: Reported
    sent: Position | None
    stall_threshold_us: int
    limits: BrokerLimits
    held_back: HeldBack
    out_of_order: frozenset[int]
    pauses_at: int
    look_ahead_is_said: bool
    rates_are_said: bool
    ended: Ended | None

    @property
    def since_us(self) -> int:
        """The moment after which a cause that has ended still counts: a stall threshold before the end."""
        return max(self.interval.from_ts, self.interval.to_ts - self.stall_threshold_us)


def stalled(state: Seen, situation: Situation) -> Blocked | None:
    """The stall of an interval, with its cause; None: nothing waited."""
    interval, since_us = situation.interval, situation.since_us
    waiting = _waiting_in(state, interval, situation.reported.read_since(since_us))
    if waiting.slot.size == 0:
        return None
    # Plain arrays: each attribute of a record array takes microseconds.
    consumers, hashes = state.consumers.view(np.ndarray), state.hashes.view(np.ndarray)
    connected = consumers["connected"] == 1
    consumers_connected = int(np.count_nonzero(connected))
    is_unavailable = connected & cannot_be_sent(state, since_us, situation.reported, situation.ended)
    # Not who has permits now that it is over.
    with_permits = int(np.count_nonzero(connected & (causes(state, since_us, situation.ended) == Cause.READY.value)))
    if not consumers_connected or bool(np.all(waiting.owner == NOBODY)):
        cause, blocking = Cause.NO_OWNER.word, NOBODY
    else:
        hash_at = waiting.hash_at
        lately = state.waits.hashes.view(np.ndarray)["clear_ts"][hash_at] > since_us
        waiting = waiting._replace(drains=waiting.drains | (lately & (hashes["drained_from"][hash_at] != NOBODY)))
        can = can_be_sent(state, waiting, is_unavailable, since_us)
        free = waiting.where(can & must_be_sent(state, waiting, situation.sent, situation.reported))
        unavailable = np.flatnonzero(is_unavailable).tolist()
        if free.slot.size == 0 and not unavailable and not waiting.drains.any():
            return None
        held = held_up(state, waiting, is_unavailable, since_us)
        cause, blocking = _cause(state, waiting, held, free, consumers_connected, unavailable, situation)
    # The limit of the subscription is that of all its consumers together.
    by_all = cause == Cause.UNACKED_LIMIT_SUBSCRIPTION.word
    roots = oldest_held_by_all(state) if by_all else oldest_held(state, blocking, interval.to_seq)
    roots = roots or oldest(state, waiting.slot)
    common = common_of(state)
    known = common["permits_known_by"] != 0
    detail: dict[str, object] = {
        "no_progress": True,
        "consumers": consumers_connected,
        "with_permits": with_permits if known else None,
        "replay_size_at_least": int(common["in_replay"]),
        "replay_size_reported": situation.reported.in_replay,
        "look_ahead_limit": situation.limits.look_ahead(consumers_connected),
    }
    for_blocking = waiting.where(waiting.owner == blocking)
    detail["hashes"] = largest(for_blocking.hash, for_blocking.waited_us(interval))
    detail["waiting_for_it"] = for_blocking.slot.size
    if cause == Cause.UNEXPLAINED.word:
        held, perhaps_held = held_back(state, free, situation.held_back, situation.reported)
        detail["joins_known"] = not bool(perhaps_held.all())
        free = free.where(~held)
        detail["hashes"] = largest(free.hash, free.waited_us(interval))
        head = _replay_head(state, situation) if situation.held_back.applies else None
        found = symptom(state, waiting, free, interval, situation.reported, head, situation.stall_threshold_us)
        detail["symptom"], blocking = found.name, found.consumer
        detail["could_be_sent"] = free.slot.size
        detail["may_pause"] = _may_pause(free, situation)
        detail["backlog_known"] = _backlog_is_known(state, waiting, consumers_connected, situation)
        detail["unshown"] = _unshown(state, waiting, is_unavailable, situation) or (
            UNSHOWN_RATE if not situation.rates_are_said and is_pause_of_a_rate(state, interval) else ""
        )
        roots = oldest(state, free.slot)
        # Whoever owned the hash of an entry that nobody holds others of could have been sent it, if all could be.
        unheld = (hashes["held"][free.hash_at] == 0) & (hashes["held_elsewhere"][free.hash_at] == 0)
        detail["owners_matter"] = bool(unavailable) or not bool(unheld.any())
    if cause == Cause.RECENTLY_JOINED.word:
        recent = state.waits.consumers.view(np.ndarray)["recent"]
        detail["recently_joined"] = int(np.count_nonzero(connected & (recent == 1)))
    waited_us = int(waiting.waited_us(interval).sum())
    count = waiting.slot.size
    return Blocked("subscription", cause, UNKNOWN, NOBODY, blocking, interval, count, waited_us, roots, detail)


def _waiting_in(state: Seen, interval: Interval, read_position: Position | None) -> Waiters:
    """The entries that wait in an interval; what is before the read position of a snapshot was read."""
    waiting = waiters(state)
    waiting = waiting.where(waiting.since_ts < interval.to_ts)
    return waiting._replace(was_read=shown_as_read(state, waiting, read_position))


def unexplained_end(state: Seen, situation: Situation) -> tuple[int, Blocked | None]:
    """The end of an interval to which `stalled` gives a cause, as far as something could be sent again.

    A cause counts for some time after its end. Looks that come one after another must not add that up.

    Returns:
        Since when something could be sent, in microseconds, and the stall since then; the end of the interval and None
        if there is a cause until then.
    """
    interval, waiting = situation.interval, waiters(state)
    waiting = waiting.where(must_be_sent(state, waiting, situation.sent, situation.reported))
    waiting = waiting.where(~held_back(state, waiting, situation.held_back, situation.reported)[0])
    could_us = could_be_sent_since(state, waiting, interval.to_ts, situation.reported, situation.ended)
    since_us = max(int(could_us.min(initial=NEVER)), interval.from_ts)
    if not 0 < interval.to_ts - since_us < situation.stall_threshold_us:
        return interval.to_ts, None
    lately = situation._replace(stall_threshold_us=interval.to_ts - since_us)
    found = stalled(state, lately)
    return (since_us, found) if found is not None and is_finding(found) else (interval.to_ts, None)


def is_finding(interval: Blocked) -> bool:
    """Whether the interval breaks rule `stalled`."""
    return interval.scope == "subscription" and interval.cause == Cause.UNEXPLAINED.word


@checkpointed("stall_kind")
class StallKind(NamedTuple):
    """The facts that decide the verdict on a stall.

    Attributes:
        permits_known: whether rows or snapshots show the permits of consumers; without them, their lack may be why.
        backlog_known: whether no entry from before a reset may hold back what waits.
        joins_known: whether it is known which consumers had joined recently, as far as it matters (3.x and classic).
        symptom: what the rows show of a known bug, see `stall_symptoms`; empty: nothing.
        healed: whether sending certainly went on, and no new dispatcher or consumer was needed.
        may_pause: whether a setting lets the dispatcher pause until acknowledgements close holes, and no row shows how
            many there were.
        paced: whether the traffic looks like that of a limit of the dispatch rate, which no row rules out.
        unshown: the limit that no row shows and that may be why, see `unshown.limits`; empty: there is none.
    """

    permits_known: bool
    backlog_known: bool
    joins_known: bool
    symptom: str
    healed: bool
    may_pause: bool = False
    paced: bool = False
    unshown: str = ""

    @property
    def provable(self) -> bool:
        """Whether the rows rule out every cause that leaves no row of its own."""
        certain = self.permits_known and self.backlog_known and self.joins_known
        return certain and not (self.may_pause or self.paced or self.unshown)


def kind_of(stall: Blocked) -> StallKind:
    """The facts that decide the verdict on a stall."""
    detail = stall.detail
    healed = stall.span.ended_by not in (BY_RESET, BY_LEAVE, BY_GAP, STILL_OPEN)
    known = detail["with_permits"] is not None, detail["backlog_known"], detail["joins_known"]
    return StallKind(*known, detail["symptom"], healed, detail["may_pause"], "paced" in detail, detail["unshown"])


def _replay_head(state: Seen, situation: Situation) -> ReplayHead:
    """What keeps the older dispatcher at the head of replay; it picks min(permits, batch) entries of it (6.2)."""
    consumers: Any = state.consumers.view(np.ndarray)
    ready = (consumers["connected"] == 1) & (causes(state, situation.since_us, situation.ended) == Cause.READY.value)
    permits = int(np.maximum(consumers["permits"][ready], 0).sum())
    batch = situation.limits.read_batch or READ_BATCH
    return ReplayHead(max(min(permits, batch), 1), situation.out_of_order)


def _backlog_is_known(state: Seen, waiting: Waiters, consumers: int, situation: Situation) -> bool:
    """Whether rows show where all entries are that could hold back what waits.

    Entries that were known before the last reset, or that an administrator may have skipped, may wait since: consumers
    that joined after a reset wait for them (6.1), and all of them count for the look-ahead limit (4.7).
    """
    entries: Any = state.entries.view(np.ndarray)
    used = entries[entries["ledger"] != UNKNOWN]
    marks, full = used["marks"], situation.limits.unacked_per_subscription
    if full > 0 and common_of(state)["skip_begun_ts"] != UNKNOWN:
        # What an administrator skipped while it was held may count on as unacknowledged (9.3, E6). A subscription that
        # was at its limit then reads nothing new before it is below half of it.
        reported = situation.reported.unacked
        held = int(used["messages"][used["holder"] != NOBODY].sum()) if reported is None else reported
        if 2 * held >= full:
            return False
    if situation.held_back.applies and common_of(state)["skip_begun_ts"] > situation.interval.from_ts:
        # Only an acknowledgement makes this dispatcher look whether it may release recently joined consumers (6.1).
        return False
    before_reset = int(np.count_nonzero(marks & (Mark.BEFORE_RESET | Mark.ACKED) == Mark.BEFORE_RESET.value))
    if before_reset > 0 and situation.held_back.applies:
        return False
    limit = situation.limits.look_ahead(consumers)
    if limit is None or (before_reset == 0 and not may_be_skipped(state, waiting, situation.reported).any()):
        return True
    return before_reset + waiting.slot.size < limit


def _unshown(state: Seen, waiting: Waiters, unavailable: NDArray[np.bool_], situation: Situation) -> str:
    """The limit that no row shows and that may explain a stall, of the rate aside; empty: there is none."""
    since_us = situation.since_us
    connected = int(np.count_nonzero(state.consumers.view(np.ndarray)["connected"] == 1))
    blocked = perhaps_blocked(state, since_us)
    gave_up: NDArray[np.bool_] = state.consumers.view(np.ndarray)["gave_up_seq"] > situation.interval.from_seq
    goes_on = waiting.where(_is_sent(state, waiting, situation))
    # Who is sent something now, and has given up nothing since the beginning, was not blocked.
    blocked[goes_on.owner] &= gave_up[goes_on.owner]
    perhaps = unavailable | blocked
    can = can_be_sent(state, waiting, perhaps, since_us)
    free = waiting.where(can & must_be_sent(state, waiting, situation.sent, situation.reported))
    free = free.where(~held_back(state, free, situation.held_back, situation.reported)[1])
    held = waiting.where(held_up(state, waiting, perhaps, since_us))
    if free.slot.size == 0 or _look_ahead_reached(state, held, free, connected, situation):
        return UNSHOWN_UNACKED
    delayed = waiters(state, delayed=True)
    in_replay, position = situation.reported.in_replay, situation.reported.read_position
    all_read = position is None and in_replay is not None and in_replay >= waiting.slot.size + delayed.slot.size
    delayed = delayed.where((delayed.owner != NOBODY) & (perhaps[delayed.owner] | delayed.drains))
    if in_replay is None and delayed.slot.size:
        stuck = joined(held, delayed)
        if _look_ahead_reached(state, stuck, free, connected, situation):
            return UNSHOWN_IN_REPLAY
    # What is due may not have been read: limits hold the broker up before it knows the delay.
    if all_read or bool(shown_as_read(state, free, position).any()):
        return ""
    # Only what consumers give up lets a full subscription read on.
    reads_on = bool((~goes_on.was_read).any()) and not bool(gave_up.any())
    if not reads_on and may_be_full(state, since_us, situation.reported):
        return UNSHOWN_SUBSCRIPTION
    if not situation.limits.looks_ahead or situation.look_ahead_is_said:
        return ""
    if in_replay is None:
        in_replay = _replay_before(state, joined(held, delayed), free, situation)
    return UNSHOWN_LOOK_AHEAD if may_be_too_long(in_replay, situation.reported) else ""


def _is_sent(state: Seen, waiting: Waiters, situation: Situation) -> NDArray[np.bool_]:
    """Which entry is the one whose dispatch ends the interval; none where something else ends it."""
    if situation.sent is None:
        return np.zeros(waiting.slot.size, dtype=np.bool_)
    return at_position(state, waiting, situation.sent)


def _cause(
    state: Seen,
    waiting: Waiters,
    held: NDArray[np.bool_],
    free: Waiters,
    connected: int,
    unavailable: list[int],
    situation: Situation,
) -> tuple[str, int]:
    """The cause and the consumer to blame.

    `held` says which entries something holds up, `free` are those that could have been sent for long, and had to be.
    """
    consumers = state.consumers.view(np.ndarray)
    cause, blocking = Cause.UNEXPLAINED.word, NOBODY
    skipped = may_be_skipped(state, waiting, situation.reported)
    if free.slot.size == 0:
        blocking = most_waited_for(waiting, unavailable)
        if blocking == NOBODY:
            return Cause.DRAINING.word, _holder(state, waiting.where(waiting.drains))
        of_each = causes(state, situation.since_us, situation.ended)
        no_permits = of_each[blocking] == Cause.NO_PERMITS
        cause = (Cause.NO_PERMITS if no_permits else Cause.UNACKED_LIMIT_CONSUMER).word
    elif _explained_by_joins(state, waiting, free, situation):
        cause, blocking = Cause.RECENTLY_JOINED.word, _oldest_holder(state, situation.held_back.until[0][1])
        if blocking == NOBODY:
            # It has just acknowledged the entry that mark-delete waited for.
            blocking = situation.held_back.holder
    elif _look_ahead_reached(state, waiting.where(held & ~skipped), free, connected, situation):
        cause, blocking = Cause.LOOK_AHEAD_LIMIT.word, most_waited_for(waiting.where(waiting.was_read), unavailable)
        if blocking == NOBODY:
            blocking = _holder(state, waiting.where(waiting.drains))
    elif _unowned_ahead(state, waiting, free, situation):
        cause = Cause.NO_OWNER.word
    elif _paused_on_ack_state(state, free, situation):
        cause, blocking = Cause.ACK_HOLES_LIMIT.word, _oldest_holder(state, _AFTER_ALL)
    elif not _was_any_read(state, free, situation) and _subscription_was_full(state, situation):
        cause, blocking = Cause.UNACKED_LIMIT_SUBSCRIPTION.word, int(np.argmax(consumers["unacked"]))
    elif not situation.held_back.applies and _are_stuck(state, free, situation):
        cause, blocking = Cause.DRAINING_STUCK.word, int(state.hashes.view(np.ndarray)["drained_from"][free.hash_at[0]])
    return cause, blocking


def _are_stuck(state: Seen, free: Waiters, situation: Situation) -> bool:
    """Whether each hash had drained and is a finding by itself, so that the stall is no other one."""
    drained = bool(unserved_since_drained(state, free).all())
    return drained and are_found(state, free, situation.stall_threshold_us, situation.sent)


def _was_any_read(state: Seen, free: Waiters, situation: Situation) -> bool:
    """Whether any of the entries was read and is sent at any limit of the subscription (4.2, step 8)."""
    held = held_back(state, free, situation.held_back, situation.reported)[0]
    return bool((free.was_read & ~held).any())


def _subscription_was_full(state: Seen, situation: Situation) -> bool:
    """Whether the subscription was blocked on unacknowledged messages for at least half of the interval.

    Nothing was sent in the interval, so the limit was reached before it or not at all.
    """
    common, interval, reported = common_of(state), situation.interval, situation.reported
    if reported.unacked is not None and 0 < common["unacked_limit"] <= reported.unacked:
        # The broker may count what an administrator has skipped (5.10).
        return True
    until_us = int(record_of(state.waits.common, WAIT)["blocked_on_unacked_until_ts"])
    if common["blocked_on_unacked"] == 1:
        until_us = interval.to_ts
    return 2 * (until_us - interval.from_ts) >= interval.to_ts - interval.from_ts


def _oldest_holder(state: Seen, below: Position) -> int:
    """The holder of the oldest unacknowledged entry below a position, which mark-delete waits for."""
    entries: Any = state.entries
    held = np.flatnonzero((entries.ledger != UNKNOWN) & (entries.holder != NOBODY))
    held = held[are_before(state, held, below)]
    if held.size == 0:
        return NOBODY
    return int(entries.holder[held[np.lexsort((entries.entry[held], entries.ledger[held]))[0]]])


def _look_ahead_reached(state: Seen, stuck: Waiters, free: Waiters, consumers: int, situation: Situation) -> bool:
    """Whether the look-ahead limit kept the broker from reading what could have been sent for long (4.6, 4.7).

    It reads on without a dispatch as long as replay is below the limit, so the entries that cannot be sent and come
    before all that can are in replay by then. What was read is sent at any size of replay. A read position that stands
    for longer than a read and a pause stands for something else, if replay is below the limit meanwhile.
    """
    limit, reported = situation.limits.look_ahead(consumers), situation.reported
    if limit is None or bool(free.was_read.any()):
        return False
    if reported.in_replay is not None and reported.in_replay >= limit:
        return True
    stood_us = reported.position_us - max(reported.stands_us, situation.since_us)
    if reported.in_replay is not None and stood_us >= _READ_AND_PAUSE_US + SNAPSHOT_LAG_US:
        return False
    # The queue may have grown since a snapshot with a smaller size.
    return _replay_before(state, stuck, free, situation) >= limit


def _replay_before(state: Seen, stuck: Waiters, free: Waiters, situation: Situation) -> int:
    """How many of the entries that cannot be sent are in replay if the broker has read up to the first that can."""
    before = are_before(state, stuck.slot, oldest(state, free.slot)[0])
    return int(np.count_nonzero(before | reported_as_read(state, stuck, situation.reported)))


def _unowned_ahead(state: Seen, waiting: Waiters, free: Waiters, situation: Situation) -> bool:
    """Whether no entry that could have been sent has been read, and entries that nobody owns come before all of them.

    A read has no more entries than the consumers have permits, and one that brings nothing to send is followed by a
    pause (4.2). So few permits and many unowned entries keep the cursor long, but the dispatcher of draining hashes
    puts them into replay and reads on (4.11): each of them costs it a read at most.
    """
    if bool(free.was_read.any()):
        return False
    unowned = waiting.where(waiting.owner == NOBODY)
    first = oldest(state, free.slot)[0]
    ahead = number_before(state, unowned, first)
    if situation.held_back.applies or ahead == 0:
        return ahead > 0
    return situation.interval.to_ts - situation.interval.from_ts <= ahead * _READ_AND_PAUSE_US


def _explained_by_joins(state: Seen, waiting: Waiters, free: Waiters, situation: Situation) -> bool:
    """Whether recently joined consumers explain that nothing was sent.

    Their own entries are held back from them (6.1). Those of other consumers wait with them only until they are read.
    The broker reads in order and puts what it holds back into replay. Some releases do not read on while something is
    there (6.4); the others do (6.2), and take a read and a pause at most for each entry that comes first and was not
    read before.
    """
    reported = situation.reported
    if not situation.held_back.until:
        return False
    others = free.where(~held_back(state, free, situation.held_back, reported)[0])
    if others.slot.size == 0:
        return True
    if bool(reported_as_read(state, others, reported).any()):
        return False
    first = oldest(state, others.slot)[0]
    if not situation.limits.reads_past_replay:
        return number_before(state, waiting, first) > 0
    to_read = number_before(state, waiting.where(~waiting.was_read), first)
    return situation.interval.to_ts - situation.interval.from_ts <= to_read * _READ_AND_PAUSE_US


def _may_pause(free: Waiters, situation: Situation) -> bool:
    """Whether the dispatcher may have paused normal reads until acknowledgements close holes (4.2, step 9b)."""
    return situation.pauses_at > 0 and not bool(free.was_read.any())


def _paused_on_ack_state(state: Seen, free: Waiters, situation: Situation) -> bool:
    """Whether more ranges of entries are acknowledged than the cursor persists, or were when they were counted last."""
    counted = situation.reported.ack_holes or 0
    return _may_pause(free, situation) and max(ack_holes(state), counted) > situation.pauses_at


def _holder(state: Seen, waiting: Waiters) -> int:
    """The holder of the draining hashes that most entries wait for."""
    if waiting.slot.size == 0:
        return NOBODY
    hashes = state.hashes.view(np.ndarray)[waiting.hash_at]
    holders = np.where(hashes["away"] == 1, hashes["holder"], hashes["drained_from"])
    found, counts = np.unique(holders, return_counts=True)
    return int(found[np.argmax(counts)])
