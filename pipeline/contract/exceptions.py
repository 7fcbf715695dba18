"""The exceptions that permit a broker to break a rule (contract 9.3).

The ids are public: tables, reports and `conf/` name them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

Dispatcher = Literal["draining", "recently_joined"]
"""The dispatcher of PIP-379, and that of 3.x, which 4.x keeps as the classic one."""

ExceptionId = Literal[
    "E1", "E2", "E3", "E4", "E5", "E6", "E7", "E8", "E9", "E10", "E11", "E12", "E13", "E14", "E15", "E16", "E17"
]

EXCEPTIONS: Mapping[ExceptionId, str] = MappingProxyType(
    {
        "E1": "a negative acknowledgement, an ack timeout or a redeliver request",
        "E2": "delayed delivery",
        "E3": "a seek, an unload, a restart, a transfer, or the last consumer leaving",
        "E4": "an entry filter that rejected or rescheduled the entry, or a marker",
        "E5": "consumers that allow out-of-order delivery",
        "E6": "expiry, skip or clear past entries that a consumer held",
        "E7": "an older entry of the hash that entered replay while a replay read was in flight",
        "E8": "a hash that stopped draining in the middle of a read",
        "E9": "a client that reconnected",
        "E10": "producers whose order of publishing is not the order of positions",
        "E11": "transactions",
        "E12": "a batch that was acknowledged in part and redelivered whole",
        "E13": "a race between the hooks of the recorder",
        "E14": "flaws of the dispatcher of recently joined consumers",
        "E15": "an entry that the broker held back after the recorder saw it go",
        "E16": "another generation of the dispatcher, with another hash or mapping",
        "E17": "overlapping replay reads",
    }
)
"""The circumstance that each exception stands for, as a phrase after "due to"."""

# All other exceptions apply to both dispatchers. Only the draining one has a guard that holds an entry back (6.1).
_ONE_DISPATCHER_ONLY: Mapping[ExceptionId, Dispatcher] = {
    "E8": "draining",
    "E14": "recently_joined",
    "E15": "draining",
}


def exceptions_of(dispatcher: Dispatcher) -> tuple[ExceptionId, ...]:
    """The exceptions that can apply to a dispatcher; the profiles say to which of its versions."""
    return tuple(known for known in EXCEPTIONS if _ONE_DISPATCHER_ONLY.get(known, dispatcher) == dispatcher)
