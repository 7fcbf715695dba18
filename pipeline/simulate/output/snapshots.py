"""Snapshots of a simulated dispatcher, as the broker's statistics report it (TRACE_FORMAT, contract 7)."""

import json
from collections.abc import Sequence
from typing import Final

from dispatch_audit.pipeline.simulate.policies.policy import DispatcherPolicy
from dispatch_audit.pipeline.simulate.state.consumer import Consumer
from dispatch_audit.pipeline.simulate.state.dispatcher_state import DispatcherState

_JOINED_AT: Final = "read_position_when_joining"


def position_text(position: int, positions: Sequence[tuple[int, int]] | None) -> str:
    """An entry as `ledger:entry`; one before the first or after the last continues its ledger."""
    if positions is None:
        return f"1:{position}"
    if 0 <= position < len(positions):
        return f"{positions[position][0]}:{positions[position][1]}"
    if position < 0:
        return f"{positions[0][0]}:{positions[0][1] - 1}" if positions else "1:-1"
    return f"{positions[-1][0]}:{positions[-1][1] + 1}"


def snapshot_of(state: DispatcherState, policy: DispatcherPolicy, positions: Sequence[tuple[int, int]] | None) -> str:
    """The state of a dispatcher as JSON, without the seqs that frame it."""
    ranges: dict[int, list[list[int]]] = {}
    for start, end, consumer in state.selector.ranges().rows:
        ranges.setdefault(consumer, []).append([start, end])
    cursor = state.cursor
    return json.dumps(
        {
            "msg_in_replay": len(state.replay),
            "unacked_messages": state.unacked,
            "msg_backlog": cursor.backlog,
            "read_position": position_text(cursor.read_position, positions),
            "mark_delete_position": position_text(cursor.mark_delete, positions),
            "consumers": [
                {
                    "consumer": consumer.number,
                    "consumer_name": consumer.name,
                    "available_permits": consumer.permits,
                    "unacked_messages": consumer.unacked,
                    "key_hash_ranges": ranges.get(consumer.number, []),
                    **_statistics(policy, consumer, positions),
                }
                for consumer in state.consumers
            ],
        }
    )


def _statistics(
    policy: DispatcherPolicy, consumer: Consumer, positions: Sequence[tuple[int, int]] | None
) -> dict[str, object]:
    """What a policy reports of a consumer, entries as positions."""
    found = policy.statistics(consumer)
    joined_at = found.get(_JOINED_AT)
    return {**found, _JOINED_AT: position_text(joined_at, positions)} if isinstance(joined_at, int) else found
