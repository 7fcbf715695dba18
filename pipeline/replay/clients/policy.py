"""What a consumer asks for with its KeySharedPolicy, which all consumers of a subscription have to agree on."""

from typing import Final

from dispatch_audit.pipeline.replay.packing.membership_rows import MembershipEvent

Policy = tuple[bool, bool]
"""Whether the mode is STICKY, and whether delivery out of order is allowed."""

ONE_POLICY: Final = "Give all consumers of a subscription one KeySharedPolicy, or a subscription each."
"""What helps where consumers of a subscription ask for different ones."""


def policy_of(join: MembershipEvent) -> Policy:
    """What a join asks for."""
    return join.sticky, join.out_of_order


def spoken(policy: Policy) -> str:
    """A policy in words."""
    sticky, out_of_order = policy
    return (
        f"{'STICKY' if sticky else 'AUTO_SPLIT'}, out-of-order delivery {'allowed' if out_of_order else 'not allowed'}"
    )
