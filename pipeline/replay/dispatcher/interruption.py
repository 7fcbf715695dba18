"""The state behind a gap: what rows have shown of entries and hashes is no longer certain, so it is dropped.

Consumers stay connected, unless joins and leaves may be missing too; then the caller judges nothing by them.
"""

from typing import Final

import numpy as np

from dispatch_audit.pipeline.replay.state.state import (
    UNKNOWN,
    Ints,
    Records,
    State,
    common_of,
    new_state,
)

# What entries do not decide, or what only grows: it stays true.
_KEPT_IN_COMMON: Final = (
    "connected",
    "resetting",
    "starts_seen",
    "acks_seen",
    "highest_dispatched_ledger",
    "highest_dispatched_entry",
    "counts_indexes",
    "last_dispatch_seq",
    "last_dispatch_ts",
    "second_last_ts",
    "third_last_ts",
    "last_seq",
    "look_ahead_limit",
    "unacked_max",
    "blocks_at",
    "subscription_max",
    "unacked_limit",
    "consumer_said",
    "subscription_said",
    "read_batch_max",
    "publish_skew_us",
    "first_published_ledger",
    "first_published_entry",
    "last_published_ledger",
    "last_published_entry",
    "without_publish",
    "unseen_until_ts",
    "skip_begun_ts",
    "skip_until_ts",
)
_KEPT_OF_WAITS: Final = (
    "next_sample_ts",
    "look_ahead_us",
    "blocked_on_unacked_us",
    "blocked_on_unacked_until_ts",
)
_KEPT_OF_LIMITS: Final = (
    "consumer_claim",
    "consumer_passes",
    "consumer_held_back",
    "consumer_stood",
    "consumer_passed_seq",
    "consumer_most",
    "consumer_most_by",
    "subscription_claim",
    "subscription_passes",
    "subscription_held_back",
    "subscription_passed_seq",
    "subscription_passed_at",
    "subscription_held_at",
    "subscription_most",
    "contradicted_seq",
    "contradicted_ts",
)
# Of consumers, what depends on entries.
_DROPPED: Final = ("held", "unacked", "maybe_skipped", "permits", "blocked", "withheld")
_DROPPED_OF_WAITS: Final = ("half_full", "cause", "unserved_since_ts", "former", "counts_more", "recent")
_DROPPED_OF_LIMITS: Final = ("full_ts", "freed_ts", "freed_from_ts", "passing", "stood")


def without_entries(state: State) -> State:
    """A state with the same consumers and counts, and without entries and hashes; its arrays have the same sizes."""
    found = new_state(state.entries.size, state.hashes.size, 0, state.words.size, state.ledger_ids.size)
    kept = (
        (found.common, state.common, _KEPT_IN_COMMON),
        (found.waits.common, state.waits.common, _KEPT_OF_WAITS),
        (found.limits.common, state.limits.common, _KEPT_OF_LIMITS),
    )
    for common, before, names in kept:
        for name in names:
            common[name] = before[name]
    return found._replace(
        consumers=_without(state.consumers, _DROPPED),
        routing=state.routing,
        waits=found.waits._replace(consumers=_without(state.waits.consumers, _DROPPED_OF_WAITS)),
        limits=found.limits._replace(consumers=_without(state.limits.consumers, _DROPPED_OF_LIMITS)),
        checks=found.checks._replace(counts=state.checks.counts),
    )


def _without(records: Records, names: tuple[str, ...]) -> Records:
    found: Records = records.copy()
    for name in names:
        found[name] = 0
    return found


def highest_position(state: State) -> tuple[int, int]:
    """The highest position that a row has named, as far as the state remembers; (-1, -1): none."""
    common, entries = common_of(state), state.entries.view(np.ndarray)
    used = entries[entries["ledger"] != UNKNOWN]
    found = [(int(common[f"{of}_ledger"]), int(common[f"{of}_entry"])) for of in ("highest_dispatched", "mark_delete")]
    found.append((int(common["last_published_ledger"]), int(common["last_published_entry"])))
    if used.size:
        ledgers: Ints = used["ledger"]
        ledger = int(ledgers.max())
        found.append((ledger, int(used["entry"][ledgers == ledger].max())))
    return max([(-1, -1), *(position for position in found if position[0] != UNKNOWN)])
