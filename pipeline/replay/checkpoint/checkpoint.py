"""The state of a replay at the end of a window, as bytes from which the next window goes on.

It is data: one JSON document and arrays, made of objects whose classes are `checkpointed`. Reading builds nothing else
and runs nothing. What the numbers in the arrays mean is not checked: a checksum guards them against damage, but not
against a writer with access to the table of states. The configuration is not in it, because the caller gives it each
time.

    bytes   "dispatch-audit checkpoint" and a line feed, and compressed with zlib:
            8 bytes   the length of the document, least byte first
            document  {"version": `STATE_VERSION`, "selector": null, ...} in JSON (`codec`); null: the selector is that
                      of the configuration, else it is a `SelectorClaim`
            arrays    one after the other, integers with the least byte first
"""

import json
import zlib
from typing import Any, Final, NamedTuple

import numpy as np

from dispatch_audit.pipeline.checkpointed import KINDS, RECORDS
from dispatch_audit.pipeline.errors import StateError
from dispatch_audit.pipeline.replay.checkpoint.codec import Encoded, decode, dtypes_of, encode
from dispatch_audit.pipeline.replay.checkpoint.schema import Schema
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.subscription.completeness import RowsSeen
from dispatch_audit.pipeline.replay.subscription.range_ownership import RangeOwnership
from dispatch_audit.pipeline.replay.subscription.subscription import Subscription
from dispatch_audit.pipeline.replay.traffic.producers import Producers
from dispatch_audit.pipeline.replay.trial.other_selectors import SelectorClaim, selector_of

STATE_VERSION: Final = 68
"""The version of checkpoints; raised with every change of the fields that the classes of the replay keep."""

# The modules of `GroupState` import every class and all records that a replay is made of.
SCHEMA: Final = Schema(KINDS, RECORDS)

_WAY_OUT: Final = "audit the log from its beginning"
_BEGINNING: Final = b"dispatch-audit checkpoint\n"
_LENGTH_BYTES: Final = 8
# Room that is free is most of a state, and all zeros or ones.
_LEVEL: Final = 1


class GroupState(NamedTuple):
    """The state of the replay of one group.

    Attributes:
        subscription: the replay of its rows.
        range_ownership: the owners of its ranges of hashes.
        producers: what producers sent.
        seen: the counts of its rows.
    """

    subscription: Subscription
    range_ownership: RangeOwnership
    producers: Producers
    seen: RowsSeen


def write_checkpoint(state: GroupState, config: ReplayConfig) -> bytes:
    """Returns a state as bytes, without what was reported already; `state` stays as it is.

    Args:
        state: of one group.
        config: as the trace claims it; that of the replay may have another selector.

    Raises:
        TypeError: a class of the replay is not `checkpointed`, or has attributes that it does not declare.
    """
    own = state.subscription.config
    given = _given(own)
    copy = GroupState(*decode(encode(tuple(state), SCHEMA, given), SCHEMA, given))
    copy.subscription.forget()
    copy.producers.forget()
    copy.seen.forget()
    return _packed(encode(tuple(copy), SCHEMA, given), None if own == config else selector_of(own))


def read_checkpoint(payload: bytes, config: ReplayConfig) -> GroupState:
    """Returns what `write_checkpoint` wrote.

    Args:
        payload: the bytes.
        config: as the trace claims it; that of the replay that goes on may have another selector.

    Raises:
        StateError: it is something else, was written by another version, or was damaged.
    """
    if not payload.startswith(_BEGINNING):
        raise StateError("the state of the window before is no checkpoint, or one of an older version", _WAY_OUT)
    try:
        encoded = _unpacked(payload)
        selector = encoded.document["selector"]
        own = config if selector is None else SelectorClaim(*selector).applied(config)
        return _checked(decode(encoded, SCHEMA, _given(own)))
    # A damaged document fails wherever something in it is used.
    except Exception as error:
        raise StateError(f"the state of the window before cannot be read: {error}", _WAY_OUT) from error


def _given(config: ReplayConfig) -> dict[str, object]:
    return {"config": config, "profile": config.profile}


def _checked(found: Any) -> GroupState:
    state = GroupState(*found)
    for value, of in zip(state, GroupState.__annotations__.values(), strict=True):
        if type(value) is not of:
            raise ValueError(f"{type(value).__name__} stands for {of.__name__}")
    return state


def _packed(encoded: Encoded, selector: SelectorClaim | None) -> bytes:
    document = {"version": STATE_VERSION, "selector": selector, **encoded.document}
    text = json.dumps(document, separators=(",", ":")).encode()
    compressor = zlib.compressobj(_LEVEL)
    parts = [_BEGINNING, compressor.compress(len(text).to_bytes(_LENGTH_BYTES, "little") + text)]
    parts += [compressor.compress(array.view(np.uint8).data) for array in encoded.arrays]
    return b"".join([*parts, compressor.flush()])


def _unpacked(payload: bytes) -> Encoded:
    inflater = zlib.decompressobj()
    raw = inflater.decompress(memoryview(payload)[len(_BEGINNING) :])
    if not inflater.eof or inflater.unused_data:
        raise ValueError("it is shorter or longer than what was written")
    text_end = _LENGTH_BYTES + int.from_bytes(raw[:_LENGTH_BYTES], "little")
    document = json.loads(raw[_LENGTH_BYTES:text_end])
    if document["version"] != STATE_VERSION:
        raise ValueError(f"it is of version {document['version']}, not {STATE_VERSION}")
    described = dtypes_of(document, SCHEMA)
    if text_end + sum(dtype.itemsize * size for dtype, size in described) != len(raw):
        raise ValueError("its arrays are shorter or longer than its document says")
    arrays, at = [], text_end
    for dtype, size in described:
        arrays.append(np.frombuffer(raw, dtype, size, at))
        at += dtype.itemsize * size
    return Encoded(document, arrays)
