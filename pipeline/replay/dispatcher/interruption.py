"""The state after a gap: what rows have shown of entries and hashes is no longer certain, so it is dropped.

Consumers stay connected, unless joins and leaves may be missing too; then the caller judges nothing by them.
"""

import numpy as np

from dispatch_audit.pipeline.replay.state.memories import CLAIM, CONSUMER_LIMIT, CONSUMER_WAIT, LIMIT, WAIT, LimitsSeen
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Ints
from dispatch_audit.pipeline.replay.state.seen import Seen
from dispatch_audit.pipeline.replay.state.state import COMMON, CONSUMER, State, common_of, new_state


def without_entries(state: State) -> State:
    """A state with the same consumers and counts, and without entries and hashes; its arrays have the same sizes."""
    found = new_state(state.entries.size, state.hashes.size, 0, state.words.size, state.ledger_ids.size)
    common, waits, limits = COMMON.after_gap(state.common), state.waits, state.limits
    for name in ("free_entries", "free_hashes"):
        common[name] = found.common[name]
    return found._replace(
        consumers=CONSUMER.after_gap(state.consumers),
        common=common,
        routing=state.routing,
        waits=found.waits._replace(
            consumers=CONSUMER_WAIT.after_gap(waits.consumers), common=WAIT.after_gap(waits.common)
        ),
        limits=LimitsSeen(
            CONSUMER_LIMIT.after_gap(limits.consumers), CLAIM.after_gap(limits.claims), LIMIT.after_gap(limits.common)
        ),
        checks=found.checks._replace(counts=state.checks.counts),
    )


def highest_position(state: Seen) -> tuple[int, int]:
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
