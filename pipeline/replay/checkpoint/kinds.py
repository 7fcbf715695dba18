"""The kinds of objects and records that the replay of one group is made of.

A new class, attribute or field of the state is added here, and `STATE_VERSION` is raised. Until then writing
a checkpoint fails. What the caller says anew each time, the configuration of the replay, has no kind.
"""

from typing import Final

from dispatch_audit.pipeline.assignment.epochs import AssignmentLog, Epoch, Undecided
from dispatch_audit.pipeline.assignment.ranges.range_columns import RangeColumns
from dispatch_audit.pipeline.assignment.ranges.routing import Routing
from dispatch_audit.pipeline.assignment.selectors.auto_split import AutoSplit
from dispatch_audit.pipeline.assignment.selectors.consistent_hashing import ConsistentHashing
from dispatch_audit.pipeline.assignment.selectors.consistent_hashing_3x import ConsistentHashing3x
from dispatch_audit.pipeline.assignment.selectors.consistent_hashing_shared import ConsistentHashingShared
from dispatch_audit.pipeline.assignment.selectors.contests import Contests
from dispatch_audit.pipeline.assignment.selectors.exclusive import Exclusive
from dispatch_audit.pipeline.assignment.selectors.exclusive_boundaries import ExclusiveBoundaries
from dispatch_audit.pipeline.assignment.selectors.ring import Ring
from dispatch_audit.pipeline.assignment.selectors.ring_points import NameIndexes
from dispatch_audit.pipeline.assignment.selectors.ring_selector import Member
from dispatch_audit.pipeline.assignment.shares import HashShares
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked, Interval
from dispatch_audit.pipeline.replay.blocking.capacity_samples import Sample
from dispatch_audit.pipeline.replay.blocking.monitor import BlockingMonitor
from dispatch_audit.pipeline.replay.blocking.rate_limits import DispatchPace, Paced, RecentDispatches, _Burst
from dispatch_audit.pipeline.replay.blocking.rate_limits import Sent as SentDispatches
from dispatch_audit.pipeline.replay.blocking.recently_joined import RecentlyJoined, _Waiting
from dispatch_audit.pipeline.replay.blocking.stall_symptoms import Reported
from dispatch_audit.pipeline.replay.blocking.stall_watch import StallWatch
from dispatch_audit.pipeline.replay.blocking.stalls import StallKind
from dispatch_audit.pipeline.replay.blocking.starved_hashes import (
    OwnershipMove,
    StarvationKind,
    StarvedHash,
    StarvedHashes,
    _Counted,
)
from dispatch_audit.pipeline.replay.blocking.thresholds import Thresholds
from dispatch_audit.pipeline.replay.checkpoint.schema import Kind, Schema
from dispatch_audit.pipeline.replay.dispatcher.claimed_limits import ContradictedLimit
from dispatch_audit.pipeline.replay.dispatcher.dispatcher import Dispatcher
from dispatch_audit.pipeline.replay.evidence.compared_settings import Claim, ComparedSettings, Contradiction
from dispatch_audit.pipeline.replay.evidence.limit_evidence import (
    LimitEvidence,
    _ChangedLimit,
    _Disputed,
    _Reported,
    _Vouched,
)
from dispatch_audit.pipeline.replay.evidence.reported_assignments import ReportedAssignment, ReportedAssignments
from dispatch_audit.pipeline.replay.packing.events import Events
from dispatch_audit.pipeline.replay.packing.gap import Gap
from dispatch_audit.pipeline.replay.packing.membership_rows import MembershipEvent, TracePoint
from dispatch_audit.pipeline.replay.packing.producer_summary import MixedBatch, Sent
from dispatch_audit.pipeline.replay.packing.refused import Refused
from dispatch_audit.pipeline.replay.packing.snapshot import ConsumerSnapshot, Snapshot
from dispatch_audit.pipeline.replay.rules.capped_findings import CappedFindings
from dispatch_audit.pipeline.replay.rules.finding_collector import FindingCollector
from dispatch_audit.pipeline.replay.settings.broker_limits import BrokerLimits
from dispatch_audit.pipeline.replay.settings.settings_in_force import DispatchRate, Setting, SettingsInForce
from dispatch_audit.pipeline.replay.settings.settings_row import SettingsRow
from dispatch_audit.pipeline.replay.snapshots.blocked_attempts import BlockedAttempts
from dispatch_audit.pipeline.replay.snapshots.cleared_hashes import ClearedHashes, _Total
from dispatch_audit.pipeline.replay.snapshots.comparison import Comparison, Mismatch, Moment
from dispatch_audit.pipeline.replay.snapshots.impossible_counters import ImpossibleCounter, ImpossibleCounters
from dispatch_audit.pipeline.replay.snapshots.reconstruction import Bounds, Reconstruction
from dispatch_audit.pipeline.replay.state.consumer_index import ConsumerIndex
from dispatch_audit.pipeline.replay.state.output import EPISODE, FINDING, INTERVAL, WITHDRAWAL, Output
from dispatch_audit.pipeline.replay.state.policy import Policy
from dispatch_audit.pipeline.replay.state.routings import Routings
from dispatch_audit.pipeline.replay.state.state import COMMON, CONSUMER, ENTRY, HASH, State
from dispatch_audit.pipeline.replay.subscription.cold_start import ColdStart
from dispatch_audit.pipeline.replay.subscription.completeness import RowsSeen
from dispatch_audit.pipeline.replay.subscription.epoch_history import EpochHistory, OpenedEpoch
from dispatch_audit.pipeline.replay.subscription.hash_owners import HashOwners
from dispatch_audit.pipeline.replay.subscription.missing_rows import MissingRows
from dispatch_audit.pipeline.replay.subscription.range_ownership import Beginning, OwnedRanges, RangeOwnership
from dispatch_audit.pipeline.replay.subscription.replay_stage import ReplayStage
from dispatch_audit.pipeline.replay.subscription.result import PlacedEpoch, Stay, Surplus, UnseenRows
from dispatch_audit.pipeline.replay.subscription.snapshot_check import SnapshotCheck
from dispatch_audit.pipeline.replay.subscription.subscription import Subscription
from dispatch_audit.pipeline.replay.subscription.watermark import Watermark
from dispatch_audit.pipeline.replay.timeline.brackets import Bracket, Membership
from dispatch_audit.pipeline.replay.timeline.held_rows import HeldRows
from dispatch_audit.pipeline.replay.timeline.one_sided_recording import OneSidedRecording
from dispatch_audit.pipeline.replay.timeline.open_changes import OpenChanges
from dispatch_audit.pipeline.replay.timeline.reported_ranges import LatestRanges, View
from dispatch_audit.pipeline.replay.timeline.timeline import Timeline, _Step
from dispatch_audit.pipeline.replay.timeline.undecided_ranges import UndecidedRange, UndecidedRanges
from dispatch_audit.pipeline.replay.traffic.dispatch_counts import DispatchCounts, Peak, Peaks
from dispatch_audit.pipeline.replay.traffic.heavy_hitters import HeavyHitters, KeyCounts
from dispatch_audit.pipeline.replay.traffic.producers import Producers
from dispatch_audit.udfs.sticky_key_hash import HashRange

_OF_A_GROUP: Final = (
    Kind("subscription", Subscription, "stage _config _timeline _latest _last _reported _watermark"),
    Kind(
        "replay_stage",
        ReplayStage,
        "dispatcher owners stays cold_start snapshots missing one_sided settings reported limits _config"
        " _recorded_late _certain_us _perhaps_empty _refused _settings_seen",
    ),
    Kind("hash_owners", HashOwners, "epochs doubts undecided unknown _config _kind _log _before_gap"),
    Kind("compared_settings", ComparedSettings, "checked found _compared"),
    Kind("reported_assignments", ReportedAssignments, "seen confirmed _drains"),
    Kind("reported_assignment", ReportedAssignment),
    Kind("contradiction", Contradiction),
    Kind("claim", Claim),
    Kind("limit_evidence", LimitEvidence, "_changed _disputed _since _vouched _said_since _reported"),
    Kind("changed_limit", _ChangedLimit),
    Kind("disputed_limit", _Disputed),
    Kind("vouched_limit", _Vouched),
    Kind("reported_messages", _Reported),
    Kind("contradicted_limit", ContradictedLimit),
    Kind("missing_rows", MissingRows, "unseen joins_missing_from _until"),
    Kind(
        "epoch_history",
        EpochHistory,
        "began changes in_force known_since shares _shared_us _opened _closed _of_former_selectors",
    ),
    Kind("opened_epoch", OpenedEpoch),
    Kind(
        "snapshot_check",
        SnapshotCheck,
        "comparison blocked_attempts cleared counters joined_at surpluses listed _begun _lazy_return",
    ),
    Kind("stay", Stay),
    Kind("surplus", Surplus),
    Kind("refused_row", Refused),
    Kind(
        "cold_start",
        ColdStart,
        "censored censored_by_gaps interrupted settled _complete _known _open _highest _ranges _late_us _inside"
        " _members_missing _behind_seq _opens_us",
    ),
    Kind("unseen_rows", UnseenRows),
    Kind("placed_epoch", PlacedEpoch),
    Kind("watermark", Watermark, "_unsettled_us _marks _clock_us"),
    Kind("range_ownership", RangeOwnership, "_going_on _epoch _until"),
    Kind("owned_ranges", OwnedRanges),
    Kind("beginning", Beginning),
    Kind(
        "rows_seen",
        RowsSeen,
        "rows clock_steps gaps dropped publishes first_gap_us _starts _ends _skew_us _first_seq _last_seq _last_us"
        " _distinct",
    ),
    Kind("producers", Producers, "_parts _mixed"),
    Kind("sent", Sent),
    Kind("mixed_batch", MixedBatch),
    Kind("dispatch_counts", DispatchCounts, "dispatched unkeyed _keys _hashes"),
    Kind("heavy_hitters", HeavyHitters, "error_max _room _block _counts _sums _new _waiting"),
    Kind("key_counts", KeyCounts),
    Kind("peaks", Peaks, "_room _parts _size"),
    Kind("peak", Peak),
)

_OF_THE_DISPATCHER: Final = (
    Kind(
        "dispatcher",
        Dispatcher,
        "policy drains holds_back monitor traffic peaks consumers _routings _open_entries_max _state _out _collector"
        " _at_the_end _without_publish_told _contradicted",
    ),
    Kind("consumer_index", ConsumerIndex, "numbers of"),
    Kind("routings", Routings, "in_force _served _former"),
    Kind("policy", Policy),
    Kind("state", State),
    Kind("output", Output),
    Kind("finding_collector", FindingCollector, "findings _exceptions _episodes _unsent _withdrawn _without_end_told"),
    Kind("capped_findings", CappedFindings, "beyond _kept_max _counts _parts"),
    Kind(
        "blocking_monitor",
        BlockingMonitor,
        "samples starved left_out stalls_beyond recent limits in_force open_until _thresholds _blocked _noted _moves"
        " _watch _last_stalls _since_seq _unsettled _pace"
        " _recent_dispatches _rates _rates_of _rates_by_time",
    ),
    Kind(
        "stall_watch",
        StallWatch,
        "_threshold_us _skew_us _reported _explained _unexplained _before_leaves _left_us _brought_about",
    ),
    Kind("reported_reading", Reported),
    Kind("dispatch_pace", DispatchPace, "_open _recent _paced"),
    Kind("burst", _Burst),
    Kind("paced", Paced),
    Kind("recent_dispatches", RecentDispatches, "_stretches"),
    Kind("sent_dispatches", SentDispatches),
    Kind("dispatch_rate", DispatchRate),
    Kind("stall_kind", StallKind),
    Kind("broker_limits", BrokerLimits),
    Kind("settings_in_force", SettingsInForce, "changed _defaults _start _said _announced _lost"),
    Kind("setting", Setting),
    Kind("settings_row", SettingsRow),
    Kind("thresholds", Thresholds),
    Kind("sample", Sample),
    Kind("blocked", Blocked),
    Kind("interval", Interval),
    Kind("starved_hashes", StarvedHashes, "kept beyond _kept_max _kept_last _counted_last"),
    Kind("starved_hash", StarvedHash),
    Kind("starvation_kind", StarvationKind),
    Kind("counted_starvation", _Counted),
    Kind("ownership_move", OwnershipMove),
    Kind("recently_joined", RecentlyJoined, "applies _as_pip_282 held_behind reported _waiting _perhaps"),
    Kind("held_back_consumer", _Waiting),
)

_OF_THE_TIMELINE: Final = (
    Kind("timeline", Timeline, "_stage _skew_us _held_us _held _changes _steps _early"),
    Kind("open_changes", OpenChanges, "views _held _skew_us _undecided_rows_max _membership _placed_seq"),
    Kind("held_rows", HeldRows, "recorded_late _rows _clock _released _taken _hashes _decisions"),
    Kind("step", _Step),
    Kind("trace_point", TracePoint),
    Kind("events", Events),
    Kind("membership", Membership, "open _joins _left _resetting"),
    Kind("bracket", Bracket),
    Kind("membership_event", MembershipEvent),
    Kind("one_sided_recording", OneSidedRecording, "_seen _changes"),
    Kind("undecided_ranges", UndecidedRanges, "all modulus _ranges"),
    Kind("undecided_range", UndecidedRange),
    Kind("latest_ranges", LatestRanges, "_ranges"),
    Kind("view", View),
    Kind("gap", Gap),
    Kind("snapshot", Snapshot),
    Kind("consumer_snapshot", ConsumerSnapshot),
    Kind("comparison", Comparison, "compared agreed beyond mismatches _places _lazy_return"),
    Kind("mismatch", Mismatch),
    Kind("moment", Moment),
    Kind("reconstruction", Reconstruction),
    Kind("bounds", Bounds),
    Kind("blocked_attempts", BlockedAttempts, "_counts _listed"),
    Kind("cleared_hashes", ClearedHashes, "_totals"),
    Kind("cleared_total", _Total),
    Kind("impossible_counters", ImpossibleCounters, "checked found beyond _below"),
    Kind("impossible_counter", ImpossibleCounter),
)

_OF_THE_ASSIGNMENT: Final = (
    Kind(
        "assignment_log",
        AssignmentLog,
        "_settings _space _selector _others _complete _names _closed routing promised current undecided",
    ),
    Kind("epoch", Epoch),
    Kind("undecided", Undecided),
    Kind("routing", Routing),
    Kind("range_columns", RangeColumns),
    Kind("hash_range", HashRange),
    Kind("hash_shares", HashShares, "_owned _there"),
    Kind("auto_split", AutoSplit, "_consumers _modulus _uppers _owners"),
    Kind("exclusive", Exclusive, "_consumers _ranges"),
    Kind("exclusive_boundaries", ExclusiveBoundaries, "_consumers _modulus _boundaries _owners _declared"),
    Kind("consistent_hashing", ConsistentHashing, "_consumers _points _hash_rule _ring _names _members _contests"),
    Kind(
        "consistent_hashing_3x",
        ConsistentHashing3x,
        "_consumers _points _hash_rule _ring _names _members _contests _indexed",
    ),
    Kind("consistent_hashing_shared", ConsistentHashingShared, "_consumers _points _text _names _at"),
    Kind("ring", Ring, "_points _owners"),
    Kind("ring_member", Member),
    Kind("name_indexes", NameIndexes, "_taken _given"),
    Kind("contests", Contests, "claims first_wins _unordered"),
)

SCHEMA: Final = Schema(
    (*_OF_A_GROUP, *_OF_THE_DISPATCHER, *_OF_THE_TIMELINE, *_OF_THE_ASSIGNMENT),
    {
        "entry": ENTRY,
        "hash": HASH,
        "consumer": CONSUMER,
        "common": COMMON,
        "finding": FINDING,
        "episode": EPISODE,
        "interval": INTERVAL,
        "withdrawal": WITHDRAWAL,
    },
)
