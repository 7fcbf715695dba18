"""The reason codes of the table `quarantine`.

Checks of a single row find the first group (`dispatch_audit.pipeline.trace.checks.one_row`). The second needs the rows
before it, so the replay finds it.
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
        "impossible_value": "A field holds a value that no broker can produce.",
    }
)

STATEFUL: Mapping[str, str] = MappingProxyType(
    {
        "unknown_consumer": "The event names a consumer that has not joined, or left before.",
        "impossible_transition": "The state reached by the rows before does not allow this event.",
        "duplicate_seq": "Another row of this topic and subscription has the same seq and other content.",
        "repeated_row": "The same row was delivered before; it is audited once, and the repetition is no fault.",
    }
)

REASONS: Mapping[str, str] = MappingProxyType({**STRUCTURAL, **STATEFUL})
"""Every reason code with its meaning."""
