"""The claimed limits of unacknowledged messages in the state: which are in force, and which the broker contradicts."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.settings.settings_in_force import (
    READ_BATCH,
    UNACKED_PER_CONSUMER,
    UNACKED_PER_SUBSCRIPTION,
    SettingsInForce,
)
from dispatch_audit.pipeline.replay.state.kinds import COMMON
from dispatch_audit.pipeline.replay.state.memories import CLAIM, LIMIT
from dispatch_audit.pipeline.replay.state.output import CONTRADICTED, OF_CONSUMER, Output
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, record_of
from dispatch_audit.pipeline.replay.state.state import Seen, State
from dispatch_audit.pipeline.replay.state.values import CLAIM_CONTRADICTED, CLAIM_DISREGARDED, CLAIM_STANDS, Cause


class _Limit(NamedTuple):
    """One of the two limits: its name, its fields in the common record, and the cause of waiting that it is."""

    setting: str
    at_most: str
    blocks_at: str
    said: str
    cause: Cause


# By `OF_CONSUMER` and `OF_SUBSCRIPTION`.
_LIMITS: Final = (
    _Limit(UNACKED_PER_CONSUMER, "unacked_max", "blocks_at", "consumer_said", Cause.UNACKED_LIMIT_CONSUMER),
    _Limit(
        UNACKED_PER_SUBSCRIPTION,
        "subscription_max",
        "unacked_limit",
        "subscription_said",
        Cause.UNACKED_LIMIT_SUBSCRIPTION,
    ),
)
LIMITED: Final[Mapping[str, int]] = {limit.setting: limited for limited, limit in enumerate(_LIMITS)}
"""Whose limit a setting is: OF_CONSUMER, OF_SUBSCRIPTION."""


@checkpointed("contradicted_limit")
class ContradictedLimit(NamedTuple):
    """A claimed limit that the broker does not have."""

    setting: str  # its name
    cause: str  # the cause of waiting that it would be
    at: TracePoint  # the dispatch that completed the evidence
    first_seq: int  # the first dispatch beyond it
    passes: int  # how often it was passed
    most: int  # unacknowledged messages, the most that were seen


def take_limits(state: State, in_force: SettingsInForce) -> None:
    """Takes over the limits that are in force, but for those that are disregarded."""
    common = record_of(state.common, COMMON)
    for limited, (name, at_most, blocks_at, said, _) in enumerate(_LIMITS):
        known = in_force.is_known(name)
        stands = _claim(state, limited)["claim"] == CLAIM_STANDS
        common[said] = in_force.of(name).said_by_row
        common[at_most] = in_force.highest(name) if known and stands else 0
        if known or not stands:
            # Where the limit is unknown, the former one still explains why the broker holds back.
            common[blocks_at] = in_force.lowest(name) if stands else 0
    common["read_batch_max"] = in_force.highest(READ_BATCH)


def _claim(state: Seen, limited: int) -> Any:
    return record_of(state.limits.claims, CLAIM, limited)


def disregard(state: State, out: Output) -> list[ContradictedLimit]:
    """Drops the limits that the kernel has found contradicted, and that anything waits for them."""
    common, found = record_of(state.common, COMMON), list[ContradictedLimit]()
    for limited, limit in enumerate(_LIMITS):
        claim = _claim(state, limited)
        if claim["claim"] != CLAIM_CONTRADICTED:
            continue
        at = TracePoint(*claim["contradicted"].item())
        passed_seq, passes, most = (int(claim[name]) for name in ("passed_seq", "passes", "most"))
        found.append(ContradictedLimit(limit.setting, limit.cause.word, at, passed_seq, passes, most))
        claim["claim"] = CLAIM_DISREGARDED
        common[limit.at_most] = common[limit.blocks_at] = 0
        waits = state.waits.hashes.view(np.ndarray)
        waits["why"][waits["why"] == limit.cause] = Cause.READY
        if limited == OF_CONSUMER:
            _unblock_all(state)
        else:
            common["blocked_on_unacked"] = 0
    if out.stop[0] == CONTRADICTED:
        out.stop[0] = 0
    return found


def look_at_reads(state: State, read_position: tuple[int, int] | None, since_us: int) -> None:
    """Notes that nothing from a read position on had been read, if the subscription was at its limit before.

    The broker took the snapshot that reports the position at `since_us` or later.
    """
    seen = record_of(state.limits.common, LIMIT)
    if read_position is None or not 0 < seen["full_since_ts"] < since_us:
        return
    before = seen["unread"].item()
    if before[0] == UNKNOWN or read_position < before:
        seen["unread"] = read_position


def _unblock_all(state: State) -> None:
    consumers = state.consumers.view(np.ndarray)
    consumers["permits"] += consumers["withheld"]
    consumers["withheld"] = consumers["blocked"] = 0
    causes = state.waits.consumers.view(np.ndarray)["cause"]
    # Many a consumer lacked permits, too.
    lacking = (record_of(state.common, COMMON)["permits_known_by"] != 0) & (consumers["permits"] <= 0)
    blocked = causes == Cause.UNACKED_LIMIT_CONSUMER
    causes[blocked] = np.where(lacking[blocked], Cause.NO_PERMITS, Cause.READY)
