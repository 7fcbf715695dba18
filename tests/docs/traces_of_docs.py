"""The traces that the tests of the documentation audit in one call."""

from typing import Final

HEAVY: Final = "heavy-churn-3.0.7"
HUNG: Final = "hung-consumer-4.0.8"
JOIN_LEAVE: Final = "join-leave-4.0.8"
UNBLOCKED: Final = "hash-unblock-1-4.0.1"
NAMES: Final = "equal-names-4.0.8"
MIXED: Final = "mixed-batch-4.0.8"
BAD: Final = "bad-rows"
"""A copy of the sample `JOIN_LEAVE` with two lines that are no JSON."""
