"""The contract that an audit holds a broker to: the rules, and what may break them legitimately.

Their names are public: they stand in the tables, in reports and in `conf/`. Which of them apply to a broker is said
by its profile (`pipeline.contract.profile`), how they are checked by the replay.

Source: contract 9.2 (statements) and 9.3 (exceptions).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

RuleName = Literal[
    "single_holder",
    "ownership",
    "first_delivery_order",
    "redelivery_order",
    "replay_overtaken",
    "early_duplicate",
    "redelivery_count",
    "unacked_limit",
    "stalled",
    "draining_stuck",
    "gap_delivery",
    "assignment_mismatch",
    "draining_mismatch",
    "mixed_key_batch",
    "cumulative_ack",
    "foreign_ack",
]

RULES: tuple[RuleName, ...] = get_args(RuleName)
"""All rules, in the order in which reports name them."""

STATEMENTS: Mapping[RuleName, str] = MappingProxyType(
    {
        "single_holder": "The unacknowledged entries of a hash are held by one consumer at a time.",
        "ownership": "An entry goes to the consumer that owns its hash in the epoch.",
        "first_delivery_order": "The first deliveries of a hash ascend, over all consumers.",
        "redelivery_order": "What a leaver held is redelivered ascending, before later entries of the hash.",
        "replay_overtaken": "No entry passes an earlier one of its hash that waits.",
        "early_duplicate": "An entry is sent again only after it was given back, and never after it was acknowledged.",
        "redelivery_count": "The redelivery count is the number of redeliver requests since the last reset.",
        "unacked_limit": "A consumer holds no more messages than maxUnackedMessagesPerConsumer and one batch allow.",
        "stalled": "An entry that can be delivered is delivered.",
        "draining_stuck": "A hash of which the old holder holds nothing any more is served to its new owner.",
        "gap_delivery": "A hash outside of all ranges of STICKY consumers goes to nobody.",
        "assignment_mismatch": "The hash ranges that the broker reports are the reconstructed ones.",
        "draining_mismatch": "The draining hashes that the broker reports are the reconstructed ones.",
        "mixed_key_batch": "The messages of a batch have one key; others are ordered by the batch's key only.",
        "cumulative_ack": "Acknowledgements are individual; the broker ignores cumulative ones.",
        "foreign_ack": "An entry is acknowledged by the consumer that holds it.",
    }
)
"""What holds while a rule is kept."""

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
"""What the broken rule is then due to."""
