"""The scope in which the waiting of each cause counts.

The waiting of a hash, of its consumer and of a stalled subscription overlap, so scopes are not added up: each cause
counts in one of them only (docs/BLOCKING.md). The hashes of a subscription that stands still wait for as long as it
does, or some moments longer; then the row of the subscription counts, which says who held it up.
"""

from collections.abc import Mapping

# Of `blocking`, the widest last.
_SCOPES = ("hash", "consumer", "subscription")
# Of the message-seconds of the narrower scope; the wider one may begin and end some moments earlier or later.
_ABOUT_THE_SAME = 0.95


def widest_scopes(message_seconds: Mapping[tuple[str, str], float]) -> dict[str, str]:
    """Returns for each cause the scope with the most message-seconds, of about equal ones the widest.

    Args:
        message_seconds: by cause and scope.
    """
    most: dict[str, float] = {}
    for (cause, _), seconds in message_seconds.items():
        most[cause] = max(most.get(cause, 0.0), seconds)
    about_most = [of for of, seconds in message_seconds.items() if seconds >= _ABOUT_THE_SAME * most[of[0]]]
    return dict(sorted(about_most, key=lambda of: _SCOPES.index(of[1])))
