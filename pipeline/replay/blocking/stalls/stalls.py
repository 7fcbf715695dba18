"""Finds why nothing was sent to any consumer for a while although entries waited (Q12; PIP-474's stall)."""

from typing import Any, Final

import numpy as np

from dispatch_audit.pipeline.packing.snapshot import Position
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked, largest, oldest, oldest_held
from dispatch_audit.pipeline.replay.blocking.attribution import held_by as slots_held_by
from dispatch_audit.pipeline.replay.blocking.stalls.doubts import doubt, is_unknown, rests_on
from dispatch_audit.pipeline.replay.blocking.stalls.gates import cause_of
from dispatch_audit.pipeline.replay.blocking.stalls.situation import Situation
from dispatch_audit.pipeline.replay.blocking.stalls.symptoms import symptom
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN
from dispatch_audit.pipeline.replay.state.state import common_of
from dispatch_audit.pipeline.replay.state.values import Cause

# The values in `detail` that only a stall without a cause has.
_FACTS: Final = frozenset(
    {
        "symptom",
        "went_on",
        "owners_matter",
        "could_be_sent",
        "doubt",
        "rests_on",
        "unknown",
        "oldest_since_seq",
        "sent_before",
    }
)


def stalled(situation: Situation) -> Blocked | None:
    """The stall of a time in which nothing was sent; None: nothing waited, or it waited for its turn only."""
    waiting = situation.waiting
    if waiting.slot.size == 0:
        return None
    if not situation.connected.any() or bool(np.all(waiting.owner == NOBODY)):
        return _blocked(situation, Cause.NO_OWNER, NOBODY)
    if situation.free.slot.size == 0 and not situation.unavailable.any() and not waiting.drains.any():
        return None
    cause, blocking = cause_of(situation)
    stall = _blocked(situation, cause, blocking)
    return _with_facts(stall, situation) if cause == Cause.UNEXPLAINED else stall


def limited(stall: Blocked, limit: dict[str, object]) -> Blocked:
    """A stall without a cause that turns out to be the pause of a rate limit; `limit` is added to its detail."""
    kept = {name: value for name, value in stall.detail.items() if name not in _FACTS}
    return stall._replace(cause=Cause.DISPATCH_RATE_LIMIT.word, blocking=NOBODY, detail={**kept, **limit})


def _blocked(situation: Situation, cause: Cause, blocking: int) -> Blocked:
    """The interval of a stall with a cause."""
    state, interval, waiting, common = (
        situation.state,
        situation.interval,
        situation.waiting,
        common_of(situation.state),
    )
    for_blocking = waiting.where(waiting.owner == blocking)
    detail: dict[str, object] = {
        "no_progress": True,
        "consumers": int(np.count_nonzero(situation.connected)),
        # Who has permits now that the stall is over does not count.
        "with_permits": int(np.count_nonzero(situation.ready)) if common["permits_known_by"] != 0 else None,
        "replay_size_at_least": int(common["in_replay"]),
        "replay_size_reported": situation.reported.in_replay,
        "look_ahead_limit": situation.look_ahead_limit,
        "hashes": largest(for_blocking.hash, for_blocking.waited_us(interval)),
        "waiting_for_it": for_blocking.slot.size,
    }
    if cause == Cause.RECENTLY_JOINED:
        recent = state.waits.consumers.view(np.ndarray)["recent"]
        detail["recently_joined"] = int(np.count_nonzero(situation.connected & (recent == 1)))
    waited = waiting.slot.size, int(waiting.waited_us(interval).sum()), _roots(situation, cause, blocking)
    return Blocked("subscription", cause.word, UNKNOWN, NOBODY, blocking, interval, *waited, detail)


def _roots(situation: Situation, cause: Cause, blocking: int) -> tuple[Position, ...]:
    """The oldest entries that the consumer to blame holds; without one, or if hashes had drained, that wait."""
    state = situation.state
    if blocking == NOBODY or cause == Cause.DRAINING_STUCK:
        return oldest(state, situation.waiting.slot)
    if cause == Cause.UNACKED_LIMIT_SUBSCRIPTION:
        # All consumers together reach this limit.
        return oldest(state, slots_held_by(state))
    held = oldest_held(state, blocking, situation.interval.to_seq)
    return held or ((situation.recent.waiting[0].root,) if cause == Cause.RECENTLY_JOINED else ())


def _with_facts(stall: Blocked, situation: Situation) -> Blocked:
    """A stall without a cause, with the facts of `StallKind`."""
    state, free = situation.state, situation.free.where(~situation.behind_joins)
    shown = symptom(situation, free)
    # The owner of a hash without pending entries does not matter if every consumer could be sent everything.
    recent = situation.recent.waiting or situation.recent.perhaps(state)
    hashes = state.hashes.view(np.ndarray)[free.hash_at]
    unheld = (hashes["held"] == 0) & (hashes["held_elsewhere"] == 0)
    names = rests_on(situation)
    unknown = [name for name in names if is_unknown(state, situation.in_force, name)]
    roots = oldest(state, free.slot)
    entries: Any = state.entries.view(np.ndarray)[free.slot]
    first = (entries["ledger"] == roots[0][0]) & (entries["entry"] == roots[0][1]) if roots else free.slot < 0
    facts: dict[str, object] = {
        "hashes": largest(free.hash, free.waited_us(situation.interval)),
        "symptom": shown.name,
        "went_on": False,
        "could_be_sent": free.slot.size,
        "doubt": doubt(situation),
        "rests_on": [name for name in names if name not in unknown],
        "unknown": unknown,
        "owners_matter": bool(situation.unavailable.any() or recent) or not bool(unheld.any()),
        "oldest_since_seq": int(entries["since"]["seq"][first].max(initial=UNKNOWN)),
    }
    return stall._replace(blocking=shown.consumer, roots=roots, detail={**stall.detail, **facts})
