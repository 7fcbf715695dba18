"""Stalls that nothing explains, with the facts that decide their verdict."""

from typing import Any, Final, NamedTuple

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked, largest, oldest
from dispatch_audit.pipeline.replay.blocking.stalls.doubts import doubt
from dispatch_audit.pipeline.replay.blocking.stalls.rests_on import is_unknown, rests_on
from dispatch_audit.pipeline.replay.blocking.stalls.sendable import Divided, held_back
from dispatch_audit.pipeline.replay.blocking.stalls.situation import Situation
from dispatch_audit.pipeline.replay.blocking.stalls.symptoms import symptom
from dispatch_audit.pipeline.replay.packing.snapshot import Position
from dispatch_audit.pipeline.replay.state.causes import Cause
from dispatch_audit.pipeline.replay.state.output import BY_GAP, BY_LEAVE, BY_RESET, STILL_OPEN
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, Ints
from dispatch_audit.pipeline.replay.state.seen import Seen

# The values in `detail` that only a stall without a cause has.
_FACTS: Final = frozenset(
    {
        "symptom",
        "went_on",
        "owners_matter",
        "could_be_sent",
        "joins_known",
        "doubt",
        "rests_on",
        "unknown",
        "oldest_since_seq",
        "sent_before",
    }
)


@checkpointed("stall_kind")
class StallKind(NamedTuple):
    """The facts that decide the verdict on a stall.

    Attributes:
        permits_known: whether rows or snapshots show the permits of consumers; else a lack of them may be why.
        joins_known: whether it is known which consumers had joined recently, as far as it matters (3.x and classic).
        symptom: what the rows show of a known bug, see `symptoms`; empty: nothing.
        healed: whether sending certainly went on, and no new dispatcher or consumer was needed.
        doubt: what rows leave open and may be why, see `doubts`; empty: nothing.
        unknown: whether it rests on a setting of which nothing is known.
    """

    permits_known: bool
    joins_known: bool
    symptom: str
    healed: bool
    doubt: str = ""
    unknown: bool = False

    @property
    def provable(self) -> bool:
        """Whether the rows rule out every cause that leaves no row of its own."""
        certain = self.permits_known and self.joins_known
        return certain and not (self.doubt or self.unknown)


def is_finding(interval: Blocked) -> bool:
    """Whether the interval breaks rule `stalled`."""
    return interval.scope == "subscription" and interval.cause == Cause.UNEXPLAINED.word


def kind_of(stall: Blocked) -> StallKind:
    """The facts that decide the verdict on a stall."""
    detail = stall.detail
    healed = detail["went_on"] or stall.span.ended_by not in (BY_RESET, BY_LEAVE, BY_GAP, STILL_OPEN)
    known = detail["with_permits"] is not None, detail["joins_known"]
    return StallKind(*known, detail["symptom"], healed, detail["doubt"], bool(detail["unknown"]))


def standstill_of(stall: Blocked) -> tuple[Position | None, int]:
    """The oldest entry that could be sent in a stall without a cause, and the row since which it waits."""
    return next(iter(stall.roots), None), stall.detail["oldest_since_seq"]


def unexplained(situation: Situation, parts: Divided, stall: Blocked) -> Blocked:
    """A stall without a cause, with the facts of `StallKind`."""
    state, waiting = situation.state, parts.waiting
    held, perhaps_held = held_back(situation, parts.free)
    free = parts.free.where(~held)
    shown = symptom(situation, waiting, free)
    # The owner of a hash without pending entries does not matter if every consumer could be sent everything.
    recent = situation.held_back.until or situation.held_back.perhaps
    hashes = state.hashes.view(np.ndarray)[free.hash_at]
    unheld = (hashes["held"] == 0) & (hashes["held_elsewhere"] == 0)
    names = rests_on(situation, parts, free)
    unknown = [name for name in names if is_unknown(state, situation.in_force, name)]
    facts: dict[str, object] = {
        "hashes": largest(free.hash, free.waited_us(situation.interval)),
        "joins_known": not bool(perhaps_held.all()),
        "symptom": shown.name,
        "went_on": False,
        "could_be_sent": free.slot.size,
        "doubt": doubt(situation, parts),
        "rests_on": [name for name in names if name not in unknown],
        "unknown": unknown,
        "owners_matter": bool(parts.unavailable.any() or recent) or not bool(unheld.any()),
    }
    roots = oldest(state, free.slot)
    facts["oldest_since_seq"] = _waits_since_seq(state, free.slot, roots)
    return stall._replace(blocking=shown.consumer, roots=roots, detail={**stall.detail, **facts})


def _waits_since_seq(state: Seen, slots: Ints, roots: tuple[Position, ...]) -> int:
    """The row since which the oldest of some entries waits."""
    entries: Any = state.entries.view(np.ndarray)[slots]
    first = (entries["ledger"] == roots[0][0]) & (entries["entry"] == roots[0][1]) if roots else slots < 0
    return int(entries["since"]["seq"][first].max(initial=UNKNOWN))


def limited(stall: Blocked, limit: dict[str, object]) -> Blocked:
    """A stall without a cause that turns out to be the pause of a rate limit; `limit` is added to its detail."""
    kept = {name: value for name, value in stall.detail.items() if name not in _FACTS}
    return stall._replace(cause=Cause.DISPATCH_RATE_LIMIT.word, blocking=NOBODY, detail={**kept, **limit})
