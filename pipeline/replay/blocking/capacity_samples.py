"""Samples of a subscription's distance to its limits (Q20, Q21; contract 4.7)."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.blocking.attribution import are_after
from dispatch_audit.pipeline.replay.settings.broker_limits import BrokerLimits
from dispatch_audit.pipeline.replay.state.records import UNKNOWN
from dispatch_audit.pipeline.replay.state.state import Seen, common_of
from dispatch_audit.pipeline.replay.state.values import Mark


@checkpointed("sample")
class Sample(NamedTuple):
    """The state of the subscription at one moment.

    Attributes:
        ts_us: the time.
        consumers: the number of connected consumers.
        replay_size: the entries in replay, from a snapshot; else at least that many, from the trace.
        reported: whether `replay_size` comes from a snapshot.
        look_ahead_limit: the limit of entries in replay; None: there is none.
        ack_holes: the number of ranges of acknowledged entries above mark-delete.
        ack_holes_max: how many such ranges the cursor persists.
        mark_delete_gap: the number of entries above mark-delete that were read.
        waiting: the number of entries that wait to be sent and are not delayed.
    """

    ts_us: int
    consumers: int
    replay_size: int
    reported: bool
    look_ahead_limit: int | None
    ack_holes: int
    ack_holes_max: int
    mark_delete_gap: int
    waiting: int


def sample(state: Seen, ts_us: int, limits: BrokerLimits, replay_size: int | None) -> Sample:
    """A sample of the state; `replay_size` comes from a snapshot of this moment, None: there is none."""
    common, slots = common_of(state), _above_mark_delete(state)
    entries: Any = state.entries.view(np.ndarray)
    read = ~are_after(state, slots, common["highest_dispatched"].item())
    # A rewound cursor does not read acknowledged entries again.
    read |= entries["marks"][slots] & Mark.ACKED != 0
    holes = _holes(state, slots)
    consumers = int(common["connected"])
    return Sample(
        ts_us,
        consumers,
        int(common["in_replay"]) if replay_size is None else replay_size,
        replay_size is not None,
        limits.look_ahead(consumers),
        holes,
        limits.ack_holes,
        int(np.count_nonzero(read)),
        int(common["waiting"]),
    )


def ack_holes(state: Seen) -> int:
    """The number of ranges of acknowledged entries above mark-delete."""
    return _holes(state, _above_mark_delete(state))


def _holes(state: Seen, slots: NDArray[np.intp]) -> int:
    entries: Any = state.entries.view(np.ndarray)
    acked = slots[entries["marks"][slots] & Mark.ACKED != 0]
    if not acked.size:
        return 0
    ledger, entry = entries["ledger"][acked], entries["entry"][acked]
    order = np.lexsort((entry, ledger))
    return 1 + int(np.count_nonzero((np.diff(ledger[order]) != 0) | (np.diff(entry[order]) != 1)))


def _above_mark_delete(state: Seen) -> NDArray[np.intp]:
    entries: Any = state.entries.view(np.ndarray)
    common, used = common_of(state), np.flatnonzero(entries["ledger"] != UNKNOWN)
    above: NDArray[np.intp] = used[are_after(state, used, common["mark_delete"].item())]
    return above
