"""Why a row was refused: the codes of the quarantine table.

The first group is found by looking at one row (`pipeline.trace.validate`), the second needs the rows before
it and is found by the replay.
"""

from collections.abc import Mapping
from types import MappingProxyType

STRUCTURAL: Mapping[str, str] = MappingProxyType(
    {
        "broken_json": "The line is not exactly one JSON object.",
        "cut_off": "The log ends in the middle of this row; rows after it may be lost.",
        "wrong_type": "A field holds a value of another type, or one that does not fit its type.",
        "bad_key": "key_b64 is not base64.",
        "unknown_event": "The event is none of format 1.",
        "unknown_phase": "The phase is neither start nor end.",
        "missing_field": "A field that this event needs is absent.",
        "impossible_value": "A field holds a value that no broker could have meant.",
    }
)

STATEFUL: Mapping[str, str] = MappingProxyType(
    {
        "unknown_consumer": "The event names a consumer that has not joined, or left before.",
        "impossible_transition": "The state reached by the rows before does not allow this event.",
        "duplicate_seq": "Another row of this topic and subscription has the same seq and says something else.",
        "repeated_row": "The same row was delivered more than once; it counts once, and this one is no fault.",
    }
)

REASONS: Mapping[str, str] = MappingProxyType({**STRUCTURAL, **STATEFUL})
"""Every reason code, with what it says of the row."""
