"""The kinds of objects and records that the replay of one group is made of.

A new class, attribute or field of the state is added here, and `checkpoint.STATE_VERSION` is raised. Until then writing
a checkpoint fails. What the caller says anew each time, the configuration of the replay, has no kind.
"""

from typing import Final

from pipeline.assignment.epochs import AssignmentLog, Epoch, Undecided
from pipeline.assignment.ranges.reported_ranges import ReportedRanges
from pipeline.assignment.ranges.routing import Routing
from pipeline.assignment.selectors.auto_split import AutoSplit
from pipeline.assignment.selectors.consistent_hashing import ConsistentHashing
from pipeline.assignment.selectors.consistent_hashing_3x import ConsistentHashing3x
from pipeline.assignment.selectors.contests import Contests
from pipeline.assignment.selectors.exclusive import Exclusive
from pipeline.assignment.selectors.exclusive_boundaries import ExclusiveBoundaries
from pipeline.assignment.selectors.ring import Ring
from pipeline.assignment.selectors.ring_points import NameIndexes
from pipeline.assignment.selectors.ring_selector import Member
from pipeline.assignment.shares import HashShares
from pipeline.replay.blocking.attribution import Blocked, Interval
from pipeline.replay.blocking.broker_limits import BrokerLimits
from pipeline.replay.blocking.capacity_samples import Sample
from pipeline.replay.blocking.monitor import BlockingMonitor
from pipeline.replay.blocking.recently_joined import RecentlyJoined, _Waiting
from pipeline.replay.blocking.starved_hashes import (
    OwnershipMove,
    StarvationKind,
    StarvedHash,
    StarvedHashes,
    _Counted,
)
from pipeline.replay.blocking.thresholds import Thresholds
from pipeline.replay.dispatcher.consumer_index import ConsumerIndex
from pipeline.replay.dispatcher.dispatcher import Dispatcher
from pipeline.replay.dispatcher.routings import Routings
from pipeline.replay.packing.events import Events
from pipeline.replay.packing.membership_rows import MembershipEvent, TracePoint
from pipeline.replay.packing.producer_summary import MixedBatch, Sent
from pipeline.replay.packing.refused import Refused
from pipeline.replay.packing.snapshot import ConsumerSnapshot, Snapshot
from pipeline.replay.rules.capped_findings import CappedFindings
from pipeline.replay.rules.finding_collector import FindingCollector
from pipeline.replay.snapshots.blocked_attempts import BlockedAttempts
from pipeline.replay.snapshots.comparison import Comparison, Mismatch, Moment
from pipeline.replay.snapshots.reconstruction import Bounds, Reconstruction
from pipeline.replay.state.output import EPISODE, FINDING, INTERVAL, WITHDRAWAL, Output
from pipeline.replay.state.policy import Policy
from pipeline.replay.state.state import COMMON, CONSUMER, ENTRY, HASH, State
from pipeline.replay.subscription.checkpoint_schema import Kind, Schema
from pipeline.replay.subscription.cold_start import ColdStart
from pipeline.replay.subscription.completeness import RowsSeen
from pipeline.replay.subscription.epoch_history import EpochHistory, OpenedEpoch
from pipeline.replay.subscription.range_ownership import Beginning, OwnedRange, RangeOwnership
from pipeline.replay.subscription.result import Stay, Surplus
from pipeline.replay.subscription.snapshot_check import SnapshotCheck
from pipeline.replay.subscription.subscription import Subscription
from pipeline.replay.subscription.watermark import Watermark
from pipeline.replay.timeline.brackets import Bracket, Membership
from pipeline.replay.timeline.one_sided_recording import OneSidedRecording
from pipeline.replay.timeline.reported_ranges import LatestRanges, View
from pipeline.replay.timeline.timeline import Timeline, _Step
from pipeline.replay.timeline.undecided_ranges import UndecidedRange, UndecidedRanges
from pipeline.replay.traffic.dispatch_counts import DispatchCounts, Peak, Peaks
from pipeline.replay.traffic.heavy_hitters import HeavyHitters, KeyCounts
from pipeline.replay.traffic.producers import Producers
from udfs.sticky_key_hash import HashRange

_OF_A_GROUP: Final = (
    Kind(
        "subscription",
        Subscription,
        "_config _kind _log _perhaps_empty _refused _stays _recorded_late _last _told _watermark _dispatcher _timeline"
        " _doubts _one_sided _undecided _cold_start _epochs _latest _snapshots",
    ),
    Kind(
        "epoch_history",
        EpochHistory,
        "began changes in_force known_since shares _shared_us _opened _closed _of_former_selectors",
    ),
    Kind("opened_epoch", OpenedEpoch),
    Kind("snapshot_check", SnapshotCheck, "comparison blocked_attempts joined_at surpluses listed _begun"),
    Kind("stay", Stay),
    Kind("surplus", Surplus),
    Kind("refused_row", Refused),
    Kind("cold_start", ColdStart, "censored settled _complete _known _open _highest _ranges"),
    Kind("watermark", Watermark, "_unsettled_us _marks _clock_us"),
    Kind("range_ownership", RangeOwnership, "_going_on _epoch _until"),
    Kind("owned_range", OwnedRange),
    Kind("beginning", Beginning),
    Kind("rows_seen", RowsSeen, "rows clock_steps _skew_us _first_seq _last_seq _last_us _distinct"),
    Kind("producers", Producers, "_parts _mixed"),
    Kind("sent", Sent),
    Kind("mixed_batch", MixedBatch),
    Kind("dispatch_counts", DispatchCounts, "dispatched unkeyed _keys _hashes"),
    Kind("heavy_hitters", HeavyHitters, "error_max _room _block _counts _sums _new"),
    Kind("key_counts", KeyCounts),
    Kind("peaks", Peaks, "_room _parts _size"),
    Kind("peak", Peak),
)

_OF_THE_DISPATCHER: Final = (
    Kind(
        "dispatcher",
        Dispatcher,
        "policy drains holds_back monitor traffic peaks consumers _routings _open_entries_max _state _out _collector"
        " _at_the_end _without_publish_told",
    ),
    Kind("consumer_index", ConsumerIndex, "numbers of _ascending _index_of_ascending"),
    Kind("routings", Routings, "in_force _served _former"),
    Kind("policy", Policy),
    Kind("state", State),
    Kind("output", Output),
    Kind("finding_collector", FindingCollector, "findings _exceptions _episodes _unsent _withdrawn _without_end_told"),
    Kind("capped_findings", CappedFindings, "beyond _kept_max _counts _parts"),
    Kind(
        "blocking_monitor",
        BlockingMonitor,
        "samples starved left_out stalls_beyond recent limits open_until _thresholds _blocked _noted _moves _reported"
        " _stall _since_seq _brought_about",
    ),
    Kind("broker_limits", BrokerLimits),
    Kind("thresholds", Thresholds),
    Kind("sample", Sample),
    Kind("blocked", Blocked),
    Kind("interval", Interval),
    Kind("starved_hashes", StarvedHashes, "kept beyond _kept_max _kept_last _counted_last"),
    Kind("starved_hash", StarvedHash),
    Kind("starvation_kind", StarvationKind),
    Kind("counted_starvation", _Counted),
    Kind("ownership_move", OwnershipMove),
    Kind("recently_joined", RecentlyJoined, "_as_pip_282 held_behind _waiting"),
    Kind("held_back_consumer", _Waiting),
)

_OF_THE_TIMELINE: Final = (
    Kind(
        "timeline",
        Timeline,
        "_stage _undecided_rows_max _views _placed_seq _skew_us _held_us _membership _held _clock _done _steps"
        " _recorded_late",
    ),
    Kind("step", _Step),
    Kind("trace_point", TracePoint),
    Kind("events", Events),
    Kind("membership", Membership, "open _joins _left _resetting"),
    Kind("bracket", Bracket),
    Kind("membership_event", MembershipEvent),
    Kind("one_sided_recording", OneSidedRecording, "_starts _ends _changes"),
    Kind("undecided_ranges", UndecidedRanges, "all modulus _ranges"),
    Kind("undecided_range", UndecidedRange),
    Kind("latest_ranges", LatestRanges, "_ranges"),
    Kind("view", View),
    Kind("snapshot", Snapshot),
    Kind("consumer_snapshot", ConsumerSnapshot),
    Kind("comparison", Comparison, "compared agreed beyond mismatches _places _lazy_return"),
    Kind("mismatch", Mismatch),
    Kind("moment", Moment),
    Kind("reconstruction", Reconstruction),
    Kind("bounds", Bounds),
    Kind("blocked_attempts", BlockedAttempts, "_counts _listed"),
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
    Kind("reported_ranges", ReportedRanges, "ranges consumers"),
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
