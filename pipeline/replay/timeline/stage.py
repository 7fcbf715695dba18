"""The calls by which a timeline drives a replay."""

from collections.abc import Sequence
from typing import Protocol

from dispatch_audit.pipeline.assignment.join_orders import Precedence
from dispatch_audit.pipeline.assignment.ranges.observed import Behind
from dispatch_audit.pipeline.replay.packing.events import Events
from dispatch_audit.pipeline.replay.packing.gap import Gap
from dispatch_audit.pipeline.replay.packing.membership_rows import MembershipEvent, TracePoint
from dispatch_audit.pipeline.replay.packing.snapshot import Snapshot
from dispatch_audit.pipeline.replay.settings.settings_row import SettingsRow
from dispatch_audit.pipeline.replay.state.state import Ints
from dispatch_audit.pipeline.replay.timeline.brackets import Bracket
from dispatch_audit.pipeline.replay.timeline.change_points import Bounds, Ordered
from dispatch_audit.pipeline.replay.timeline.given_up import GivenUp


class Stage(Protocol):
    """The replay that a timeline drives; its methods are called in the order in which events took effect."""

    def register_consumer(self, row: MembershipEvent, at: TracePoint) -> None:
        """Adds a consumer, which may be sent to before the end of its join is recorded."""

    def depends_on_earlier_rows(self) -> bool:
        """Whether all rows before must be replayed before changes enter the assignment and consumers are added."""

    def choose_selector(self, changes: Sequence[Bracket]) -> bool:
        """Chooses the selector for the changes that come next; the first consumer of a dispatcher decides it.

        Returns:
            Whether rows have other hashes now.
        """

    def update_assignment(
        self,
        changes: Sequence[Bracket],
        bounds: Sequence[Bounds],
        precedes: Precedence,
        behind: Behind,
        passages: Sequence[tuple[int, int]],
    ) -> Ordered:
        """Adds changes to the assignment, and returns them in a possible order; their points are located later.

        Args:
            changes: in a possible order.
            bounds: for each change the seqs between which it took effect.
            precedes: which of them certainly happened before which.
            behind: the observations of the assignment after all of them.
            passages: the numbers of a join and of the leave of the same consumer, where it is open on which side of a
                snapshot both happened.
        """

    def commit_change(self, change: Bracket, at: TracePoint, given_up: GivenUp) -> None:
        """Applies a change; called in the order that `update_assignment` returned.

        Args:
            change: the change.
            at: the point at which it takes effect.
            given_up: the entries that consumers gave up between this point and the row in front of which the change
                certainly took effect.
        """

    def begin_leaving(self, row: MembershipEvent, at: TracePoint) -> None:
        """Notes that a consumer may be gone from here on."""

    def begin_reset(self, row: MembershipEvent, at: TracePoint) -> None:
        """Notes that a reset may take effect from here on."""

    def end_reset(self, row: MembershipEvent, at: TracePoint) -> None:
        """Notes that the reset has taken effect."""

    def begin_skip(self, row: MembershipEvent, at: TracePoint) -> None:
        """Notes that an administrator moves mark-delete at about this row."""

    def refuse(self, row: MembershipEvent) -> None:
        """Refuses a row that the consumers known so far make impossible."""

    def hashes(self, events: Events) -> Ints:
        """The sticky hash of each row."""

    def begin_gap(self, gap: Gap, at: TracePoint) -> None:
        """Notes that rows are missing from here on."""

    def end_gap(self, gap: Gap, at: TracePoint) -> None:
        """Notes that all rows after this one are there again, unless another gap goes on."""

    def announce_settings(self, row: SettingsRow, at: TracePoint) -> None:
        """Notes that the values of a row may be in force from here on."""

    def put_settings(self, row: SettingsRow, at: TracePoint) -> None:
        """Puts the values of a row in force."""

    def begin_snapshot(self, snapshot: Snapshot, at: TracePoint) -> None:
        """Notes that the broker took a snapshot here or later."""

    def end_snapshot(self, snapshot: Snapshot, at: TracePoint) -> None:
        """Notes that the broker took a snapshot here or earlier."""

    def replay(self, events: Events, hashes: Ints) -> None:
        """Replays rows, given with their sticky hashes, under the routing in force."""
