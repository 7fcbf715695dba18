"""The sticky hash of each event: computed from its key, or as the row says it where keys are digests.

The selector of a subscription decides which hash a key has, and a batch does not show it: a topic may have several
subscriptions. So a row belongs to a sample if any selector of the release gives its key a hash of the sample; the
replay leaves out what its own selector gives none (`rows_of_sample`). The end of a dispatch names a position
only, and goes if the batch names the key of that entry. Acknowledgements and redeliveries stay: the replay does not
apply them to entries that it does not have.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dispatch_audit.pipeline.contract.profile import HashRule, Profile
from dispatch_audit.pipeline.packing.events import NO_MURMUR, Code, Column, Events, among
from dispatch_audit.pipeline.trace.arrow_columns import numbered
from dispatch_audit.udfs.hash_sample import HashSample
from dispatch_audit.udfs.sticky_key_hash import Int64Array, hash_range, sticky_from_murmur

_WITH_KEY = among(Code.PUBLISH, Code.PUBLISH_DELAYED, Code.DISPATCH_START, Code.DISPATCH_END)
# The permits that rows grant pay for entries of all hashes, and nothing shows how many are left.
_OF_ALL_HASHES = among(Code.FLOW)


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


def of_sample(batch: pa.RecordBatch, events: Events, sample: HashSample, profile: Profile) -> NDArray[np.bool_]:
    """Which rows may be of a hash of the sample, or are of no hash; `events` has one for each row."""
    keyed = _WITH_KEY[events.code]
    computed, said = keyed & (events.murmur >= 0), keyed & (events.murmur <= NO_MURMUR)
    inside = np.zeros(np.count_nonzero(computed), dtype=np.bool_)
    for rule in sorted({*profile.hash.values()}):
        inside |= sample.has(sticky_from_murmur(events.murmur[computed], rule))
    outside = np.zeros(events.code.size, dtype=np.bool_)
    outside[computed] = ~inside
    outside[said] = ~sample.has(NO_MURMUR - events.murmur[said].astype(np.int64))
    ends = np.flatnonzero((events.code == Code.DISPATCH_END) & (events.murmur == -1))
    if ends.size:
        entry = _entries(batch, events)
        outside[ends] = np.isin(entry[ends], entry[outside])
    stays: NDArray[np.bool_] = ~outside & ~_OF_ALL_HASHES[events.code]
    return stays


def _entries(batch: pa.RecordBatch, events: Events) -> NDArray[np.int64]:
    """A number for each row: equal ones are of one entry of one topic."""
    topic = numbered(batch.column("topic"))[1]
    ledgers, ledger = np.unique(events.ledger, return_inverse=True)
    entries, entry = np.unique(events.entry, return_inverse=True)
    return (topic * ledgers.size + ledger) * entries.size + entry


def rows_of_sample(events: Events, hashes: Int64Array, sample: HashSample, *, known: bool) -> NDArray[np.intp]:
    """The indexes of the rows that are not of a hash outside of the sample.

    Args:
        events: (n) the rows.
        hashes: (n) the sticky hash of each, -1 where it has none.
        sample: the hashes whose rows are replayed.
        known: whether rows before these show if the recorder writes decisions to dispatch or only their ends.
    """
    outside = _WITH_KEY[events.code] & (hashes >= 0)
    outside[outside] = ~sample.has(hashes[outside])
    if not known:
        # Ends without a key in front of the first start are of entries of other hashes.
        nameless = (events.code == Code.DISPATCH_END) & (hashes < 0)
        outside |= nameless & ~np.logical_or.accumulate((events.code == Code.DISPATCH_START) & ~outside)
    return np.flatnonzero(~outside)
