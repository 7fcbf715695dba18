"""Which rows of a stretch are of the sampled hashes, as far as rows of one entry show it."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.replay.packing.events import Code, Events, among
from dispatch_audit.pipeline.replay.state.records import Ints
from dispatch_audit.udfs.hash_sample import HashSample

_DISPATCHED: Final = among(Code.PUBLISH, Code.PUBLISH_DELAYED, Code.DISPATCH_START, Code.DISPATCH_END)


def rows_of_sample(events: Events, hashes: Ints, sample: HashSample, *, known: bool) -> NDArray[np.intp]:
    """The indexes of the rows that are not of a hash outside of the sample.

    Args:
        events: (n) the rows.
        hashes: (n) the sticky hash of each, -1 where it has none.
        sample: the hashes whose rows are replayed.
        known: whether rows before these show if the recorder writes decisions to dispatch or only their ends.
    """
    outside = _DISPATCHED[events.code] & (hashes >= 0)
    outside[outside] = ~sample.has(hashes[outside])
    if not known:
        # Ends without a key in front of the first start are of entries of other hashes.
        nameless = (events.code == Code.DISPATCH_END) & (hashes < 0)
        outside |= nameless & ~np.logical_or.accumulate((events.code == Code.DISPATCH_START) & ~outside)
    return np.flatnonzero(~outside)
