"""Where a trace was recorded, and what can be judged from there.

A recorder inside of the broker sees decisions and effects. A client sees messages after their dispatch, and neither the
decision nor a reconnect; the admin API shows moments. So nothing that they record proves a violation.

Source: contract 10 and 9.3; docs/RECORDING_CLIENTS.md has the reasons.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from dispatch_audit.pipeline.contract.rules import RuleName

RecordedBy = Literal["broker", "client", "admin_api"]

BROKER: Final = "broker"
CLIENT: Final = "client"
ADMIN_API: Final = "admin_api"


class Outside(NamedTuple):
    """What a trace that was recorded outside of the broker allows.

    Attributes:
        shown: the rules of which it shows findings, none of them proven.
        described: where it was recorded, for a report.
        not_judged: what it does not allow, and why, as a clause.
    """

    shown: frozenset[RuleName]
    described: str
    not_judged: str


OUTSIDE: Final[Mapping[str, Outside]] = MappingProxyType(
    {
        CLIENT: Outside(
            frozenset({"first_delivery_order", "single_holder"}),
            "recorded in a client, after the dispatch",
            "the order of a key at each consumer, and keys that two consumers of the process worked on, are shown and "
            "not proven, because a client sees no reconnect, seek or unload; owners, draining, redelivery, limits and "
            "waiting could not be judged, because it sees neither other clients nor the dispatcher",
        ),
        ADMIN_API: Outside(
            frozenset(),
            "recorded from the admin API, which shows single moments",
            "no rule could be judged, because there are no dispatches, acknowledgements, joins and leaves; consumers "
            "that appear or vanish between two polls did so at an unknown time",
        ),
    }
)
"""By `recorded_by` of `trace.json`; a trace of the broker is not among them."""
