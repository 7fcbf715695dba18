"""Finds why nothing was sent to any consumer for a while although entries waited (Q12; PIP-474's stall)."""

import numpy as np

from dispatch_audit.pipeline.replay.blocking.attribution import (
    Blocked,
    Waiters,
    largest,
    oldest,
    oldest_held,
    oldest_held_by_all,
    waiters,
)
from dispatch_audit.pipeline.replay.blocking.stalls.gates import cause_of
from dispatch_audit.pipeline.replay.blocking.stalls.reported import shown_as_read
from dispatch_audit.pipeline.replay.blocking.stalls.sendable import (
    cannot_be_sent,
    causes,
    divided,
)
from dispatch_audit.pipeline.replay.blocking.stalls.situation import Situation
from dispatch_audit.pipeline.replay.blocking.stalls.unexplained import unexplained
from dispatch_audit.pipeline.replay.packing.snapshot import Position
from dispatch_audit.pipeline.replay.state.causes import Cause
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN
from dispatch_audit.pipeline.replay.state.state import common_of


def stalled(situation: Situation) -> Blocked | None:
    """The stall of an interval, with its cause; None: nothing waited, or it waited for its turn only."""
    state, since_us = situation.state, situation.since_us
    waiting = _waiting_in(situation)
    if waiting.slot.size == 0:
        return None
    if not situation.connected.any() or bool(np.all(waiting.owner == NOBODY)):
        return _blocked(situation, waiting, Cause.NO_OWNER, NOBODY)
    # Plain arrays: each attribute of a record array takes microseconds.
    lately = state.waits.hashes.view(np.ndarray)["clear"]["ts_us"][waiting.hash_at] > since_us
    has_drained = state.hashes.view(np.ndarray)["drained_from"][waiting.hash_at] != NOBODY
    waiting = waiting._replace(drains=waiting.drains | (lately & has_drained))
    parts = divided(situation, waiting, situation.connected & cannot_be_sent(situation, since_us))
    if parts.free.slot.size == 0 and not parts.unavailable.any() and not waiting.drains.any():
        return None
    cause, blocking = cause_of(situation, parts)
    stall = _blocked(situation, waiting, cause, blocking)
    return unexplained(situation, parts, stall) if cause == Cause.UNEXPLAINED else stall


def _blocked(situation: Situation, waiting: Waiters, cause: Cause, blocking: int) -> Blocked:
    """The interval of a stall with a cause."""
    state, interval, connected = situation.state, situation.interval, situation.connected
    # Who has permits now that the stall is over does not count.
    with_permits = np.count_nonzero(connected & (causes(situation, situation.since_us) == Cause.READY.value))
    for_blocking = waiting.where(waiting.owner == blocking)
    common = common_of(state)
    detail: dict[str, object] = {
        "no_progress": True,
        "consumers": int(np.count_nonzero(connected)),
        "with_permits": int(with_permits) if common["permits_known_by"] != 0 else None,
        "replay_size_at_least": int(common["in_replay"]),
        "replay_size_reported": situation.reported.in_replay,
        "look_ahead_limit": situation.look_ahead_limit,
        "hashes": largest(for_blocking.hash, for_blocking.waited_us(interval)),
        "waiting_for_it": for_blocking.slot.size,
    }
    if cause == Cause.RECENTLY_JOINED:
        recent = state.waits.consumers.view(np.ndarray)["recent"]
        detail["recently_joined"] = int(np.count_nonzero(connected & (recent == 1)))
    waited_us = int(waiting.waited_us(interval).sum())
    waited = waiting.slot.size, waited_us, _roots(situation, waiting, cause, blocking)
    return Blocked("subscription", cause.word, UNKNOWN, NOBODY, blocking, interval, *waited, detail)


def _roots(situation: Situation, waiting: Waiters, cause: Cause, blocking: int) -> tuple[Position, ...]:
    """The oldest entries that the consumer to blame holds; without one, or if hashes had drained, that wait."""
    if blocking == NOBODY or cause == Cause.DRAINING_STUCK:
        return oldest(situation.state, waiting.slot)
    if cause == Cause.UNACKED_LIMIT_SUBSCRIPTION:
        # All consumers together reach this limit.
        return oldest_held_by_all(situation.state)
    held = oldest_held(situation.state, blocking, situation.interval.to_seq)
    return held or ((situation.held_back.root,) if cause == Cause.RECENTLY_JOINED else ())


def _waiting_in(situation: Situation) -> Waiters:
    """The entries that wait in an interval; what is before the read position of a snapshot was read."""
    waiting = waiters(situation.state)
    waiting = waiting.where(waiting.since_ts < situation.interval.to_ts)
    reported = situation.reported
    lasting = reported._replace(read_position=reported.read_since(situation.since_us))
    return waiting._replace(was_read=shown_as_read(situation.state, waiting, lasting))
