"""The state of a replay at the end of a window, as bytes from which the next window goes on.

It is data, and what the numbers in it mean is not checked: a checksum guards them against damage, but not against a
writer with access to the table of states. The configuration is not in it, because the caller gives it each time.

    bytes   "dispatch-audit checkpoint" and a line feed, and compressed with zlib:
            a line of JSON   {"version": `STATE_VERSION`, "selector": null}; null: the selector is that of the
                             configuration, else the values of a `SelectorClaim`
            the objects      as `checkpoint_objects.dumps` writes them
"""

import json
import zlib
from typing import Final, NamedTuple

from dispatch_audit.pipeline.checkpoint_objects import dumps, loads, version_of
from dispatch_audit.pipeline.checkpointed import KINDS, RECORDS
from dispatch_audit.pipeline.errors import StateError
from dispatch_audit.pipeline.packing.producer_summary import Producers
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.subscription.completeness import RowsSeen
from dispatch_audit.pipeline.replay.subscription.range_ownership import RangeOwnership
from dispatch_audit.pipeline.replay.subscription.subscription import Subscription
from dispatch_audit.pipeline.replay.trial.other_selectors import SelectorClaim, selector_of

# The modules of `GroupState` import every class and all records that a replay is made of.
STATE_VERSION: Final = version_of(KINDS, RECORDS)
"""The version of checkpoints: it differs wherever the classes of the replay keep other fields."""

_WAY_OUT: Final = "audit the log from its beginning"
_BEGINNING: Final = b"dispatch-audit checkpoint\n"
# Room that is free is most of a state, and all zeros or ones.
_LEVEL: Final = 1


class GroupState(NamedTuple):
    """The state of the replay of one group."""

    subscription: Subscription  # the replay of its rows
    range_ownership: RangeOwnership  # the owners of its ranges of hashes
    producers: Producers  # what producers sent
    seen: RowsSeen  # the counts of its rows


def write_checkpoint(state: GroupState, config: ReplayConfig) -> bytes:
    """Returns a state as bytes, without what was reported already; `state` stays as it is.

    The configuration is the one that the trace claims; that of the replay may have another selector.

    Raises:
        TypeError: a class of the replay is not `checkpointed`, or has attributes that it does not declare.
    """
    own = state.subscription.config
    given = _from_caller(own)
    copy = GroupState(*loads(dumps(tuple(state), given), given))
    copy.subscription.forget()
    copy.producers.forget()
    copy.seen.forget()
    head = {"version": STATE_VERSION, "selector": None if own == config else selector_of(own)}
    text = json.dumps(head, separators=(",", ":")).encode()
    return _BEGINNING + zlib.compress(b"\n".join((text, dumps(tuple(copy), given))), _LEVEL)


def read_checkpoint(payload: bytes, config: ReplayConfig) -> GroupState:
    """Returns what `write_checkpoint` wrote.

    Raises:
        StateError: it is something else, was written by another version, or was damaged.
    """
    if not payload.startswith(_BEGINNING):
        raise StateError("the state of the window before is no checkpoint, or one of an older version", _WAY_OUT)
    try:
        return _read(payload, config)
    # Damaged bytes fail wherever something in them is used.
    except Exception as error:
        raise StateError(f"the state of the window before cannot be read: {error}", _WAY_OUT) from error


def _read(payload: bytes, config: ReplayConfig) -> GroupState:
    inflater = zlib.decompressobj()
    text, _, objects = inflater.decompress(memoryview(payload)[len(_BEGINNING) :]).partition(b"\n")
    if not inflater.eof or inflater.unused_data:
        raise ValueError("it is shorter or longer than what was written")
    head = json.loads(text)
    if head["version"] != STATE_VERSION:
        raise ValueError(f"it is of version {head['version']}, not {STATE_VERSION}")
    selector = head["selector"]
    own = config if selector is None else SelectorClaim(*selector).applied(config)
    state = GroupState(*loads(objects, _from_caller(own)))
    for value, of in zip(state, GroupState.__annotations__.values(), strict=True):
        if type(value) is not of:
            raise ValueError(f"{type(value).__name__} stands for {of.__name__}")
    return state


def _from_caller(config: ReplayConfig) -> dict[str, object]:
    return {"config": config, "profile": config.profile}
