"""For which time each consumer of a subscription was connected, and the joins that the broker refused."""

from dataclasses import dataclass, field
from typing import Final

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.packing.membership_rows import MembershipEvent, TracePoint


@checkpointed("stay")
@dataclass
class Stay:
    """The time for which one consumer was connected."""

    row: MembershipEvent  # the first row of its join; where that is missing, its values in the snapshot that showed it
    # Where its join took effect; None: its row is missing, or it has not taken effect yet.
    joined: TracePoint | None = None
    left: TracePoint | None = None  # where its leave took effect
    leave_reason: str = ""  # the reason that its leave, or the reset that closed it, gives
    # Whether it may have been the last consumer when it left, because a join overlaps with its leave.
    perhaps_last: bool = False
    unseen: bool = False  # whether its join is missing, and `joined` is where a snapshot showed it


KINDS_MAX: Final = 1_000


@checkpointed("refused_joins")
@dataclass(eq=False, slots=True)
class RefusedJoins:
    """The joins that the broker refused: they have no consumer, change nothing here, and are facts about clients."""

    total: int = 0  # how many there were
    # Of each name and reason the last row, and how many there were; those beyond `KINDS_MAX` are left out.
    kinds: dict[tuple[str, str], tuple[MembershipEvent, int]] = field(default_factory=dict)

    def note(self, row: MembershipEvent) -> None:
        """Counts a join without a consumer number."""
        self.total += 1
        kind = (row.name, row.reason)
        if kind in self.kinds or len(self.kinds) < KINDS_MAX:
            _, before = self.kinds.get(kind, (row, 0))
            self.kinds[kind] = (row, before + 1)
