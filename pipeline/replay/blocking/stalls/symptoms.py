"""What the rows of a stall show of the known bugs that stop all sending (contract 3.9, 3.11, 3.12, 4.2, 6.2, 6.3).

docs/BLOCKING.md has what the rows show in each. Each names a bug only where the catalogue has one for the release and
the dispatcher.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from dispatch_audit.pipeline.contract.known_bugs import Symptom
from dispatch_audit.pipeline.replay.blocking.attribution import Waiters, are_before, held_by, oldest
from dispatch_audit.pipeline.replay.blocking.passed_over import unserved_since_drained
from dispatch_audit.pipeline.replay.blocking.stalls.gates import is_full
from dispatch_audit.pipeline.replay.blocking.stalls.reported import reported_as_read
from dispatch_audit.pipeline.replay.blocking.stalls.situation import Situation
from dispatch_audit.pipeline.replay.settings.broker_limits import READ_BATCH_DEFAULT
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN
from dispatch_audit.pipeline.replay.state.state import Seen, common_of
from dispatch_audit.pipeline.replay.state.values import Mark

NO_READ_PENDING: Final = "no_read_pending"

BUGS_OF: Final[Mapping[str, Symptom]] = {
    "parked_at_the_end": "parked_at_the_end",
    "head_of_replay": "passed_over_in_replay",
    "reads_pass_replay": "passed_over_in_replay",
    "joined_out_of_order": "joined_out_of_order",
    "write_not_completed": "write_not_completed",
    "counted_as_draining_again": "counted_as_draining_again",
    "nothing_is_read": "nothing_is_read",
}
"""The symptom in the catalogue of known bugs, by the symptom that rows show."""


class Shown(NamedTuple):
    """A symptom, and the index of the consumer that it is about; an empty name: none, NOBODY: it is about none."""

    name: str
    consumer: int


def symptom(situation: Situation, free: Waiters) -> Shown:
    """The symptom that the rows of a stall show, in which some entries could have been sent."""
    state, reported = situation.state, situation.reported
    unwritten = _unwritten_to(state, situation.interval.to_ts - situation.stall_threshold_us)
    # One slow connection holds up the others; its own entries wait for it on any release.
    if unwritten != NOBODY and bool((free.owner != unwritten).any()):
        return Shown("write_not_completed", unwritten)
    parked = _parked(situation, free)
    if parked:
        return Shown(parked, NOBODY)
    longest_us = reported.position_us - situation.interval.from_ts
    stands = reported.read_position is not None and longest_us >= situation.stall_threshold_us
    if stands and not reported_as_read(state, free, reported).any():
        return Shown(NO_READ_PENDING if reported.reads is False else "nothing_is_read", NOBODY)
    counted_again = state.hashes.view(np.ndarray)["registered"][free.hash_at] > 1
    stuck = free.slot.size > 0 and bool((counted_again & unserved_since_drained(state, free)).all())
    return Shown("counted_as_draining_again" if stuck else "", NOBODY)


def _parked(situation: Situation, free: Waiters) -> str:
    """What keeps a dispatcher from the entries in replay that could be sent; empty: nothing that is known."""
    waiting = situation.waiting
    read, long = reported_as_read(situation.state, waiting, situation.reported), waiting.since_ts <= situation.since_us
    if not situation.recent.applies:
        # What was published later is not among `free`, although its owner may be ready.
        parked = bool(read.all()) and np.count_nonzero(long) > free.slot.size
        passed = bool(read[long].all()) and _reads_pass(situation, _before_first_free(situation, free))
        return "parked_at_the_end" if parked or passed else ""
    # A read of new entries may go past the head of replay, so what came last need not have been read; a subscription
    # that is blocked on unacknowledged messages makes none.
    if not (bool(read[long].all()) or is_full(situation)):
        return ""
    return _passed_over(situation, free) if free.slot.size else ""


def _passed_over(situation: Situation, free: Waiters) -> str:
    """What keeps a dispatcher of recently joined consumers from what could be sent and was read."""
    state, reported = situation.state, situation.reported
    if set(free.owner.tolist()) <= situation.recent.out_of_order(state):
        return "joined_out_of_order"
    ahead = _before_first_free(situation, free)
    if ahead >= _picked(situation):
        return "head_of_replay"
    # Not while consumers are recently joined (6.2).
    read_to = reported.read_position
    joined_later = read_to is not None and all(position >= read_to for position in situation.recent.until.values())
    return "reads_pass_replay" if joined_later and _reads_pass(situation, ahead) else ""


def _before_first_free(situation: Situation, free: Waiters) -> int:
    """How many entries that wait come before the first that could be sent."""
    first = oldest(situation.state, free.slot)
    return int(np.count_nonzero(are_before(situation.state, situation.waiting.slot, first[0]))) if first else 0


def _reads_pass(situation: Situation, ahead: int) -> bool:
    """Whether the broker reads on past the first entry that could be sent, which is in replay.

    Each read that sends nothing may make the next one pass over replay (4.10, 6.2).
    """
    reported = situation.reported
    moved = reported.read_position is not None and reported.stands_us > situation.interval.from_ts
    return moved and reported.in_replay is not None and ahead < min(reported.in_replay, reported.replay_at_read)


def _picked(situation: Situation) -> int:
    """How many of the first entries in replay a read of the older dispatcher looks at: min(permits, batch) (6.2)."""
    permits = int(np.maximum(situation.consumers["permits"][situation.ready], 0).sum())
    return max(min(permits, situation.limits.read_batch or READ_BATCH_DEFAULT), 1)


def _unwritten_to(state: Seen, before_us: int) -> int:
    """The receiver of a dispatch before a time that had no end by then although others had; NOBODY: there is none."""
    entries: Any = state.entries.view(np.ndarray)
    common, written = common_of(state), entries["marks"] & Mark.DISPATCH_CONFIRMED != 0
    if common["starts_seen"] == 0 or not bool((written & (entries["ledger"] != UNKNOWN)).any()):
        return NOBODY
    held = held_by(state)
    slots = held[~written[held] & (entries["sent_at"]["ts_us"][held] <= before_us)]
    if slots.size:
        return int(entries["holder"][slots[np.argmin(entries["sent_at"]["seq"][slots])]])
    # The row that ends the stall may be the late end of such a dispatch.
    lately = common["written_late_since_ts"] <= before_us <= common["written_late_ts"]
    return int(common["written_late_to"]) if lately else NOBODY
