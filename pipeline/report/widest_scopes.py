"""The scope in which the waiting of each cause counts.

The waiting of a hash, of its consumer and of a stalled subscription overlap, so scopes are not added up: each cause
counts in one of them only (docs/BLOCKING.md).
"""

from collections.abc import Mapping

# Of `blocking`, the widest last.
_SCOPES = ("hash", "consumer", "subscription")


def widest_scopes(message_seconds: Mapping[tuple[str, str], float]) -> dict[str, str]:
    """Returns for each cause the scope with the most message-seconds, of equal ones the widest.

    Args:
        message_seconds: by cause and scope.
    """
    # Sums of the same times differ in the last digits by the order of their rows.
    ranked = sorted(message_seconds.items(), key=lambda item: (round(item[1], 3), _SCOPES.index(item[0][1])))
    return {cause: scope for (cause, scope), _ in ranked}
