"""The policy of a setup, by its name."""

from collections.abc import Callable, Mapping

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.simulate.policies.count_per_hash import CountPerHashPolicy, per_hash
from dispatch_audit.pipeline.simulate.policies.draining import DrainingPolicy
from dispatch_audit.pipeline.simulate.policies.hot_key_overflow import HotKeyOverflowPolicy, overflow_settings
from dispatch_audit.pipeline.simulate.policies.policy import DispatcherPolicy
from dispatch_audit.pipeline.simulate.policies.recently_joined import LastSentPolicy, RecentlyJoinedPolicy
from dispatch_audit.pipeline.simulate.state.dispatcher_state import DispatcherState

_POLICIES: Mapping[str, Callable[[DispatcherState, Mapping[str, object]], DispatcherPolicy]] = {
    "draining": lambda state, _: DrainingPolicy(state),
    "recently_joined": lambda state, _: RecentlyJoinedPolicy(state),
    "hot_key_overflow": lambda state, options: HotKeyOverflowPolicy(state, overflow_settings(options)),
    "count_per_hash": lambda state, options: CountPerHashPolicy(state, per_hash(options)),
    "last_sent": lambda state, _: LastSentPolicy(state),
}


def make_policy(name: str, state: DispatcherState, options: Mapping[str, object]) -> DispatcherPolicy:
    """The policy called `name`.

    Raises:
        UsageError: there is none, or an option makes no sense.
    """
    try:
        make = _POLICIES[name]
    except KeyError:
        raise UsageError(f"there is no policy {name!r}", f"use one of: {', '.join(_POLICIES)}") from None
    return make(state, options)
