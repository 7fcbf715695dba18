"""Makes the configuration of a replay from a trace, its profile and the settings of the audit."""

from dispatch_audit.pipeline.contract.profile import Profile
from dispatch_audit.pipeline.replay.config import OrderLimits, ReplayConfig
from dispatch_audit.pipeline.replay.settings.broker_limits import Thresholds
from dispatch_audit.pipeline.settings import Settings
from dispatch_audit.pipeline.trace import Manifest
from dispatch_audit.pipeline.trace.chosen_rows import sample_of


def replay_config(
    manifest: Manifest,
    profile: Profile,
    settings: Settings,
    complete_from_start: bool,
    ends_us: int | None = None,
) -> ReplayConfig:
    """Returns everything that the replay of a trace depends on besides its rows, in the units of the replay.

    Args:
        manifest: of the trace.
        profile: of the broker.
        settings: of the audit.
        complete_from_start: whether the first join is among the rows that are replayed.
        ends_us: when the window ends, microseconds since 1970 UTC; None: the log ends with it.
    """
    blocking = settings.blocking
    return ReplayConfig(
        profile=profile,
        version=manifest.pulsar_version,
        broker=profile.broker(manifest.settings),
        written=manifest.recorder.events,
        given=frozenset(name for name, value in manifest.settings.items() if value is not None),
        skew_us=settings.trace.recorder_skew_us,
        open_entries_max=settings.limits.open_entries_max,
        orders=OrderLimits(settings.orders.assignments_max, settings.orders.rows_max),
        hot_keys_max=settings.report.hot_keys_max,
        complete_from_start=complete_from_start,
        ends_us=ends_us,
        recorded_by=manifest.recorded_by,
        keys_digested=manifest.keys_digested,
        digests_change=manifest.digests_change,
        sample=sample_of(manifest, settings.choice),
        thresholds=Thresholds(
            report_min_us=blocking.report_min_ms * 1000,
            stall_threshold_us=blocking.stall_threshold_ms * 1000,
            sample_us=settings.capacity.sample_interval_s * 1_000_000,
            intervals_max=blocking.intervals_max,
            as_pip_282=blocking.recently_joined == "last_sent_position",
        ),
    )
