"""The settings on which a stall rests: another value of one of them might explain that nothing was sent.

A stall does not rest on a setting that a row says. Where nobody says it, what the trace claims or the default of the
release is taken, and the finding names it. Where rows that say it may be missing, or the broker contradicts it, it is
unknown, and the stall is not provable.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.replay.blocking.attribution import Interval, Waiters
from dispatch_audit.pipeline.replay.blocking.stalls.doubts import ends_it, reads_on
from dispatch_audit.pipeline.replay.blocking.stalls.held_reads import replay_before
from dispatch_audit.pipeline.replay.blocking.stalls.reported import shown_as_read
from dispatch_audit.pipeline.replay.blocking.stalls.sendable import Divided
from dispatch_audit.pipeline.replay.blocking.stalls.situation import Situation
from dispatch_audit.pipeline.replay.durations import HORIZON_US
from dispatch_audit.pipeline.replay.settings.settings_in_force import (
    DISPATCH_RATES,
    LOOK_AHEAD,
    UNACKED_PER_CONSUMER,
    UNACKED_PER_SUBSCRIPTION,
    SettingsInForce,
)
from dispatch_audit.pipeline.replay.state.memories import CLAIM
from dispatch_audit.pipeline.replay.state.output import OF_CONSUMER, OF_SUBSCRIPTION
from dispatch_audit.pipeline.replay.state.records import record_of
from dispatch_audit.pipeline.replay.state.seen import Seen
from dispatch_audit.pipeline.replay.state.state import common_of
from dispatch_audit.pipeline.replay.state.values import CLAIM_DISREGARDED

Mask = NDArray[np.bool_]

_LIMITED: Final = {UNACKED_PER_CONSUMER: OF_CONSUMER, UNACKED_PER_SUBSCRIPTION: OF_SUBSCRIPTION}

# Nobody limits replay to fewer entries.
_OF_REPLAY_MIN: Final = 100


def rests_on(situation: Situation, parts: Divided, free: Waiters) -> tuple[str, ...]:
    """The names of the settings that nobody says and that might explain a stall, alone or together; perhaps none.

    `free` are the entries that could have been sent. If one of them is held back by none of these settings, whatever
    their values, the stall rests on none.
    """
    held_by = _held_by(situation, parts, free)
    state, in_force = situation.state, situation.in_force
    perhaps = {name: held for name, held in held_by.items() if held.any() and not is_certain(state, in_force, name)}
    return tuple(perhaps) if perhaps and bool(np.logical_or.reduce([*perhaps.values()]).all()) else ()


def is_certain(state: Seen, in_force: SettingsInForce, name: str) -> bool:
    """Whether a row says a setting, and the broker does not contradict it."""
    return in_force.is_said(name) and not _is_contradicted(state, name)


def is_unknown(state: Seen, in_force: SettingsInForce, name: str) -> bool:
    """Whether nothing may be assumed of a setting: rows that say it may be missing, or the broker contradicts it."""
    return not in_force.is_known(name) or _is_contradicted(state, name)


def _is_contradicted(state: Seen, name: str) -> bool:
    if name not in _LIMITED:
        return False
    return bool(record_of(state.limits.claims, CLAIM, _LIMITED[name])["claim"] == CLAIM_DISREGARDED)


def _held_by(situation: Situation, parts: Divided, free: Waiters) -> dict[str, Mask]:
    """Which of the entries some value of each setting might have held back."""
    state, goes_on = situation.state, ends_it(situation, parts.waiting)
    consumers: Any = state.consumers.view(np.ndarray)
    gave_up: Mask = consumers["gave_up_at"]["seq"] > situation.interval.from_seq
    holds: Mask = consumers["unacked"] + consumers["uncounted"] > 0
    holds |= consumers["gave_up_at"]["ts_us"] > situation.since_us
    # Who is sent something now, and has given up nothing since the beginning, was not blocked.
    holds[goes_on.owner] &= gave_up[goes_on.owner]
    unread: Mask = ~shown_as_read(state, free, situation.reported)
    full = unread & _holds_anything(situation) & (not reads_on(goes_on, gave_up))
    pause = np.full(free.slot.size, _may_pay(state, situation.interval))
    return {
        UNACKED_PER_CONSUMER: holds[free.owner],
        UNACKED_PER_SUBSCRIPTION: full,
        LOOK_AHEAD: unread & _fills_replay(situation, parts, free),
        DISPATCH_RATES: pause,
    }


def _holds_anything(situation: Situation) -> bool:
    """Whether anything is unacknowledged in the subscription, or was until shortly before the end."""
    state = situation.state
    consumers: Any = state.consumers.view(np.ndarray)
    uncounted = bool((consumers["uncounted"][situation.connected] > 0).any())
    return uncounted or situation.unacked > 0 or bool((consumers["gave_up_at"]["ts_us"] > situation.since_us).any())


def _may_pay(state: Seen, interval: Interval) -> bool:
    """Whether a limit of the rate may have been used up by what was sent last."""
    # Where rows are missing, the last dispatch may be.
    last_us = int(common_of(state)["last_dispatch"]["ts_us"]) or interval.from_ts
    return interval.to_ts - last_us <= HORIZON_US


def _fills_replay(situation: Situation, parts: Divided, free: Waiters) -> Mask:
    """In front of which entries so many others are in replay that they may fill it."""
    if not situation.limits.looks_ahead:
        return np.zeros(free.slot.size, dtype=np.bool_)
    reported = situation.reported.in_replay
    if reported is not None:
        return np.full(free.slot.size, reported >= _OF_REPLAY_MIN)
    in_replay: Mask = replay_before(situation, parts.waiting.where(parts.held), free) >= _OF_REPLAY_MIN
    return in_replay
