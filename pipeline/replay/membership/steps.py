"""The steps of a subscription: what `Membership` hands to the replay.

They are in the order in which events took effect. Each is data, by which the replay changes the dispatcher
(`subscription/step_loop.py`). `HashOwners` in turn learns from rows and snapshots the owners that are open.
"""

from typing import NamedTuple, TypeAlias

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.membership.epoch_history import OpenedEpoch
from dispatch_audit.pipeline.replay.packing.events import Events
from dispatch_audit.pipeline.replay.packing.gap import Gap
from dispatch_audit.pipeline.replay.packing.membership_rows import MembershipEvent, TracePoint
from dispatch_audit.pipeline.replay.packing.snapshot import Snapshot
from dispatch_audit.pipeline.replay.settings.settings_row import SettingsRow
from dispatch_audit.pipeline.replay.state.records import Ints


class Rows(NamedTuple):
    """Rows under one routing, with the sticky hash of each, -1 where it has none."""

    events: Events
    hashes: Ints


class RefusedChange(NamedTuple):
    """A join or leave that the consumers known so far make impossible."""

    row: MembershipEvent


class DispatcherOpened(NamedTuple):
    """The first consumer of a dispatcher has decided how it works (contract 2, E16)."""

    keeps_order: bool  # whether the subscription promises order
    sticky: bool  # whether consumers declare their ranges
    drains: bool  # whether moved hashes drain (contract 3.1)
    holds_back: bool  # whether recently joined consumers get no new entries (contract 6.1)
    rehashed: bool  # whether keys have other hashes than before


@checkpointed("registered")
class Registered(NamedTuple):
    """A consumer may be sent to from here on, before the end of its join is recorded."""

    at: TracePoint
    row: MembershipEvent


class ConsumerJoined(NamedTuple):
    """A join took effect."""

    at: TracePoint
    consumer: int


@checkpointed("leaving")
class Leaving(NamedTuple):
    """A consumer may be gone from here on."""

    at: TracePoint
    consumer: int


class ConsumerLeft(NamedTuple):
    """A leave took effect, or a restart closed the consumer."""

    at: TracePoint
    consumer: int


@checkpointed("restart_begins")
class RestartBegins(NamedTuple):
    """A seek, unload or transfer may take effect from here on."""

    at: TracePoint


class Restarted(NamedTuple):
    """A seek, unload or transfer took effect; a `ConsumerLeft` of each connected consumer follows."""

    at: TracePoint


@checkpointed("restart_over")
class RestartOver(NamedTuple):
    """A seek, unload or transfer has taken effect."""

    at: TracePoint


class EpochBegins(NamedTuple):
    """Another assignment is in force, or the present one is corrected."""

    opened: OpenedEpoch  # the epoch, and what it promises and serves
    at: TracePoint  # the point from which on it is in force
    over_us: int  # the time by which it certainly was, in microseconds; rows may be far apart
    over_seq: int = -1  # the row in front of which it certainly was; -1: at once


@checkpointed("mark_delete_moves")
class MarkDeleteMoves(NamedTuple):
    """An administrator moves mark-delete at about this row (E6)."""

    at: TracePoint  # the row
    over: bool  # whether it has moved for certain; else it moves here or later


@checkpointed("gap_begins")
class GapBegins(NamedTuple):
    """Rows are missing from here on."""

    at: TracePoint
    gap: Gap


@checkpointed("gap_ends")
class GapEnds(NamedTuple):
    """All rows after this one are there again, unless another gap goes on."""

    at: TracePoint
    gap: Gap


@checkpointed("settings_announced")
class SettingsAnnounced(NamedTuple):
    """The values of a row may be in force from here on."""

    at: TracePoint
    row: SettingsRow


@checkpointed("settings_begin")
class SettingsBegin(NamedTuple):
    """The values of a row are in force from here on."""

    at: TracePoint
    row: SettingsRow


@checkpointed("snapshot_begins")
class SnapshotBegins(NamedTuple):
    """The broker took a snapshot here or later."""

    at: TracePoint
    snapshot: Snapshot


@checkpointed("snapshot_ends")
class SnapshotEnds(NamedTuple):
    """The broker took a snapshot here or earlier."""

    at: TracePoint
    snapshot: Snapshot


Planned: TypeAlias = (
    Registered
    | Leaving
    | RestartBegins
    | RestartOver
    | MarkDeleteMoves
    | GapBegins
    | GapEnds
    | SettingsAnnounced
    | SettingsBegin
    | SnapshotBegins
    | SnapshotEnds
)
"""The steps of single rows, whose points are known as soon as the row is."""

Step: TypeAlias = (
    Planned | Rows | RefusedChange | DispatcherOpened | ConsumerJoined | ConsumerLeft | Restarted | EpochBegins
)
