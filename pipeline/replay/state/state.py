"""The state of one subscription: what the kernel knows between two events.

It consists of arrays of integer records, which compiled functions can take and the interpreter can show. It does not
grow with the length of a trace: an entry has a slot from its publish (or first dispatch) until mark-delete has passed
it and no consumer holds it; a hash has a slot while it is held, awaited or draining, or while an entry above
mark-delete could still break its order.

Observers read all of it, and write their own memory (`memories`). Under which name a function takes the state says what
it writes; `tests/layout/test_one_writer.py` follows its writes and finds all others.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from dispatch_audit.pipeline.assignment import Routing
from dispatch_audit.pipeline.assignment.ranges.routing import routing_of_ranges
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.contract.rule import Counted
from dispatch_audit.pipeline.packing.events import Events
from dispatch_audit.pipeline.packing.snapshot import Position
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.index import Slots, empty_table, find
from dispatch_audit.pipeline.replay.state.kinds import COMMON, CONSUMER, ENTRY, HASH, LEDGER
from dispatch_audit.pipeline.replay.state.memories import (
    CLAIM,
    CONSUMER_LIMIT,
    CONSUMER_WAIT,
    HASH_WAIT,
    LIMIT,
    WAIT,
    Checks,
    LimitsSeen,
    Waits,
)
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, Ints, Records, record_of
from dispatch_audit.pipeline.replay.state.values import Mark

# What `Checks.counts` counts, and the indexes into it.
COUNTED: Final[tuple[Counted, ...]] = (
    "dispatches",
    "first deliveries",
    "acknowledgements",
    "dispatches with a redelivery count",
    "dispatches under a limit",
    "dispatches of STICKY subscriptions",
)
DISPATCHES, FIRST_DELIVERIES, ACKNOWLEDGEMENTS, COUNTED_DISPATCHES, LIMITED_DISPATCHES, STICKY_DISPATCHES = range(6)


@checkpointed("state")
class State(NamedTuple):
    """The dispatcher's state, which its transitions alone write, and the memories of its observers.

    `ledgers` are those seen, ascending. `routing` is the one in force; its owners are indexes of consumers.
    """

    entries: Records  # of ENTRY
    entry_table: Slots
    entries_free: Ints
    hashes: Records  # of HASH
    hash_table: Slots
    hashes_free: Ints
    consumers: Records  # of CONSUMER
    words: Ints
    ledgers: Records  # of LEDGER
    common: Records  # one of COMMON
    routing: Routing
    waits: Waits
    limits: LimitsSeen
    checks: Checks


Seen: TypeAlias = State
"""The state of the dispatcher and the memories of all observers, to be read."""
SeenByRules: TypeAlias = State
"""The state as a rule takes it: it notes what it has checked (`checks`)."""
SeenByLimits: TypeAlias = State
"""The state as `rules.limits` takes it: it writes `limits`."""
SeenByBlocking: TypeAlias = State
"""The state as `blocking` takes it: it writes `waits`."""


def common_of(state: State) -> Mapping[str, Any]:
    """The values of the subscription as a whole, to be read by name."""
    values: Mapping[str, Any] = record_of(state.common, COMMON)
    return values


@compiled
def entry_at(state: State, ledger: int, entry: int) -> int:
    """The slot of an entry, or -1."""
    entries: Any = state.entries
    return find(state.entry_table, entries.ledger, entries.entry, ledger, entry)


@compiled
def owner_of(routing: Routing, sticky_hash: int) -> int:
    """The index of the consumer that one hash belongs to, or NOBODY; `Routing.owners_of` for compiled functions."""
    slot = sticky_hash % routing.modulus if routing.modulus > 0 else sticky_hash
    owner = int(routing.owners[np.searchsorted(routing.uppers, slot)])
    if owner >= NOBODY:
        return owner
    # Several share the interval (`Routing.sharers`).
    sharers = NOBODY - 1 - owner
    return int(routing.sharers[sharers + 1 + slot % routing.sharers[sharers]])


@compiled
def was_reset(state: Seen) -> bool:
    """Whether a seek, unload or transfer has reset the dispatcher, so that rows may be about what was before it."""
    return bool(state.common[0].unseen_until_ts != UNKNOWN)


def new_state(entries: int, hashes: int, consumers: int, words: int, ledgers: int) -> State:
    """The state of a subscription before its first event, with room for that many records of each kind."""
    common = COMMON.new(1)
    common["free_entries"], common["free_hashes"] = entries, hashes
    return State(
        entries=ENTRY.free(entries),
        entry_table=empty_table(entries),
        entries_free=free_slots(entries),
        hashes=HASH.free(hashes),
        hash_table=empty_table(hashes),
        hashes_free=free_slots(hashes),
        consumers=CONSUMER.new(consumers),
        words=np.zeros(words, dtype=np.int64),
        ledgers=LEDGER.new(ledgers),
        common=common,
        routing=routing_of_ranges(()),
        waits=Waits(HASH_WAIT.free(hashes), CONSUMER_WAIT.new(consumers), WAIT.new(1)),
        limits=LimitsSeen(CONSUMER_LIMIT.new(consumers), CLAIM.new(2), LIMIT.new(1)),
        checks=Checks(np.zeros(len(COUNTED), dtype=np.int64), np.full(entries, UNKNOWN, dtype=np.int64)),
    )


def free_slots(rows: int) -> Ints:
    """A stack of the slots 0 to rows - 1."""
    # Popped from the end, so slots are handed out in ascending order.
    return np.arange(rows - 1, -1, -1, dtype=np.int64)


def positions_at_joins(state: State, of: str) -> list[Position | None]:
    """By the index of the consumer, its `dispatched_at_join` or `published_at_join`; None: nothing was by then."""
    return [at if at[0] >= 0 else None for at in state.consumers.view(np.ndarray)[of].tolist()]


def outstanding(state: State) -> tuple[int, int]:
    """The number of entries without a first dispatch, and of those dispatched and not acknowledged."""
    entries = state.entries.view(np.ndarray)
    marks = entries["marks"][entries["ledger"] != UNKNOWN]
    waits = marks & (Mark.WAITING | Mark.SENT | Mark.ACKED) == Mark.WAITING
    unacknowledged = marks & (Mark.SENT | Mark.ACKED) == Mark.SENT
    return int(np.count_nonzero(waits)), int(np.count_nonzero(unacknowledged))


def highest_position(state: State) -> tuple[int, int]:
    """The highest position that was sent, deleted or published, as far as the state remembers; (-1, -1): none."""
    common = common_of(state)
    found: list[tuple[int, int]] = [common[of].item() for of in ("highest_dispatched", "mark_delete", "last_published")]
    return max([(-1, -1), *(position for position in found if position[0] != UNKNOWN)])


@checkpointed("policy")
class Policy(NamedTuple):
    """The settings of the kernel, from the profile and the subscription."""

    skew_us: int  # how much later than its event a row may be recorded if its early side is missing
    # Two dispatches recorded closer than this may have been decided in the other order; 0 where the decision itself is
    # recorded.
    unordered_us: int
    mark_delete_releases: bool  # whether ordinary moves of mark-delete release pending entries (contract 3.11)
    keeps_order: bool  # False for a subscription that allows out-of-order delivery (E5)
    sticky: bool  # whether its consumers declare their hashes (STICKY)
    report_min_us: int  # the shortest interval of waiting that is reported
    stall_threshold_us: int  # the shortest time without a dispatch that is a stall, or that starves a hash
    delay_tick_us: int  # delayedDeliveryTickTimeMillis: how long after its time a delayed entry may become due (4.13)


class Stretch(NamedTuple):
    """Rows under one policy, and the routing that is in force."""

    events: Events  # the rows, in the order of seq
    consumers: Ints  # the index in the state of each row's consumer; -1 where it has none
    # The sticky hash of each row; -1 where it has none. The kernel fills in that of a dispatch without a key, and its
    # `key_id`, if they are known by then.
    hashes: Ints
    policy: Policy  # the settings in force
