"""The selector that a broker of some version runs for a subscription."""

from dispatch_audit.pipeline.assignment.selectors.auto_split import AutoSplit
from dispatch_audit.pipeline.assignment.selectors.consistent_hashing import ConsistentHashing
from dispatch_audit.pipeline.assignment.selectors.consistent_hashing_3x import ConsistentHashing3x
from dispatch_audit.pipeline.assignment.selectors.consistent_hashing_shared import ConsistentHashingShared
from dispatch_audit.pipeline.assignment.selectors.exclusive import Exclusive
from dispatch_audit.pipeline.assignment.selectors.exclusive_boundaries import ExclusiveBoundaries
from dispatch_audit.pipeline.assignment.selectors.selector import Selector
from dispatch_audit.pipeline.contract.profile import Profile, SelectorKind, newest_profile, profile_named
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.udfs.sticky_key_hash import HashRange, hash_range

DEFAULT_POINTS = 100
"""Default of `subscriptionKeySharedConsistentHashingReplicaPoints` in all versions (contract 2)."""


def make_selector(kind: SelectorKind, points: int = DEFAULT_POINTS, profile: Profile | str | None = None) -> Selector:
    """An empty selector.

    Args:
        kind: the kind of selector, which mode and settings of the subscription decide (contract 2).
        points: ring points of a consumer under consistent hashing; other selectors have none.
        profile: the broker's version, or a profile's name; None for the newest one.

    Raises:
        UsageError: there is no selector or profile of that name, or `points` is below 1.
    """
    rules = _profile(profile)
    if kind == "consistent_hashing":
        if points < 1:
            raise UsageError(f"{points} ring points leave a consumer without hashes", "give at least 1")
        if rules.ring_collision == "shared_by_modulo":
            return ConsistentHashingShared(points, rules.ring_point_text)
        if rules.ring_collision == "newcomer_replaces":
            return ConsistentHashing3x(points)
        return ConsistentHashing(points, rules.hash[kind])
    if kind == "auto_split":
        return AutoSplit(_modulus(kind, rules))
    if kind == "exclusive":
        selector = ExclusiveBoundaries if rules.exclusive_gap_delivery else Exclusive
        return selector(_modulus(kind, rules))
    raise UsageError(f"there is no selector {kind!r}", "use one of: consistent_hashing, auto_split, exclusive")


def slot_range(kind: SelectorKind, profile: Profile | str | None = None) -> HashRange:
    """The hashes that the selector of `make_selector` distinguishes, after its own reduction.

    Raises:
        UsageError: there is no selector or profile of that name.
    """
    return hash_range(_profile(profile).hash[kind] if kind == "consistent_hashing" else kind)


def _profile(profile: Profile | str | None) -> Profile:
    if isinstance(profile, Profile):
        return profile
    return newest_profile() if profile is None else profile_named(profile)


def _modulus(kind: SelectorKind, rules: Profile) -> int:
    # 3.x passes the murmur value to every selector; these two reduce it to their own range.
    return hash_range(kind).size if rules.hash[kind] == "raw" else 0
