"""The names of policies, without their imports: the command line shows them before it imports anything large."""

from typing import Literal, get_args

PolicyName = Literal["draining", "recently_joined", "last_sent", "hot_key_overflow", "count_per_hash"]

POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)
"""The names of all policies."""
