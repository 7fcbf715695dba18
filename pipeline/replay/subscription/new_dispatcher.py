"""The dispatcher of a subscription in front of the first row."""

from typing import Final

from dispatch_audit.pipeline.replay.blocking.monitor import BlockingMonitor
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.dispatcher.dispatcher import Dispatcher
from dispatch_audit.pipeline.replay.state.state import Policy
from dispatch_audit.pipeline.replay.state.values import SETS_COUNT, SETS_DELETE, SETS_IGNORED

_BATCH_INDEX_ACKS: Final = "acknowledgmentAtBatchIndexLevelEnabled"
_DELAY_TICK: Final = "delayedDeliveryTickTimeMillis"
_DELAY_TICK_MS: Final = 1000
"""The default of the setting in every release."""


def new_dispatcher(config: ReplayConfig) -> Dispatcher:
    """Returns a dispatcher without entries and consumers; the first consumer decides the rest of its policy."""
    policy = Policy(
        skew_us=config.skew_us,
        unordered_us=0,
        mark_delete_releases=config.profile.mark_delete_releases == "any",
        keeps_order=True,
        sticky=False,
        report_min_us=config.thresholds.report_min_us,
        stall_threshold_us=config.thresholds.stall_threshold_us,
        delay_tick_us=_tick_ms(config) * 1000,
    )
    exceptions, sampled = config.profile.exceptions, not config.sample.is_all
    monitor = BlockingMonitor(config.limits, config.thresholds, config.settings_in_force(), config.skew_us, sampled)
    return Dispatcher(policy, config.open_entries_max, monitor, _ack_sets(config), exceptions, sampled)


def _ack_sets(config: ReplayConfig) -> int:
    """What ack sets do. A client sends them for a broker that counts them, unless the trace says that it does not."""
    if config.broker.get(_BATCH_INDEX_ACKS) is True:
        return SETS_COUNT
    return SETS_IGNORED if _BATCH_INDEX_ACKS in config.given else SETS_DELETE


def _tick_ms(config: ReplayConfig) -> int:
    tick_ms = config.broker.get(_DELAY_TICK)
    return tick_ms if isinstance(tick_ms, int) and tick_ms >= 0 else _DELAY_TICK_MS
