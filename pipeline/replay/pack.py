"""From typed rows of a trace to chunks: what travels through the exchange.

One vectorized pass over an Arrow batch. Keys are hashed here and stay behind; a chunk holds the integer columns of
one group (topic, subscription), sorted, as one binary value, so that the exchange and the sort move thousands of
rows instead of billions. A publish belongs to every subscription of its topic.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.profile import Profile
from pipeline.replay.events import DTYPES, Code, Events
from pipeline.replay.membership import Row
from udfs.sticky_key_hash import hash_keys, keyless_keys

_CODES = {
    ("publish", "end"): Code.PUBLISH,
    ("dispatch", "start"): Code.DISPATCH_START,
    ("dispatch", "end"): Code.DISPATCH_END,
    ("ack", "start"): Code.ACK_START,
    ("ack", "end"): Code.ACK_END,
    ("redeliver", "end"): Code.REDELIVER,
    ("join", "start"): Code.JOIN_START,
    ("join", "end"): Code.JOIN_END,
    ("leave", "start"): Code.LEAVE_START,
    ("leave", "end"): Code.LEAVE_END,
    ("reset", "start"): Code.RESET_START,
    ("reset", "end"): Code.RESET_END,
    ("stats", "end"): Code.MARK_DELETE,
}
_EVENTS = pa.array([event for event, _ in _CODES])
_PHASED = frozenset({"dispatch", "ack", "join", "leave", "reset"})
_MEMBERSHIP = (
    Code.JOIN_START,
    Code.JOIN_END,
    Code.LEAVE_START,
    Code.LEAVE_END,
    Code.RESET_START,
    Code.RESET_END,
)
