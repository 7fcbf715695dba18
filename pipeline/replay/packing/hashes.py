"""The sticky hash of each event: computed from its key, or as the row says it where keys are digests."""

import numpy as np

from dispatch_audit.pipeline.contract.profile import HashRule
from dispatch_audit.pipeline.replay.packing.events import NO_MURMUR, Code, Column, Events
from dispatch_audit.udfs.sticky_key_hash import Int64Array, hash_range, sticky_from_murmur


def hashes_of(events: Events, rule: HashRule, rule_of_publishes: HashRule) -> Int64Array:
    """The sticky hash of each event; -1 where its row has none that this selector works with.

    The selector of the subscription hashes by `rule`; publishes have, beside the digests of keys, the hashes of
    `rule_of_publishes`.
    """
    hashes = np.full(events.murmur.size, -1, dtype=np.int64)
    keyed = events.murmur >= 0
    if keyed.any():
        hashes[keyed] = sticky_from_murmur(events.murmur[keyed], rule)
    said = events.murmur <= NO_MURMUR
    if said.any():
        if hash_range(rule) != hash_range(rule_of_publishes):
            said &= (events.code != Code.PUBLISH) & (events.code != Code.PUBLISH_DELAYED)
        recorded: Column = events.murmur[said]
        hashes[said] = NO_MURMUR - recorded
    return hashes
