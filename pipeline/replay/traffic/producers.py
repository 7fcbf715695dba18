"""The producers of one subscription's topic, from the summaries that travel with the packed batches (Q29)."""

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.packing.producer_summary import SHOWN_MAX, MixedBatch, Published, SentByProducer

# The number of records that are kept before they are added up.
_PARTS_MAX = 100_000


@checkpointed("producers")
class Producers:
    """The producers of one subscription's topic, batch by batch.

    A row that another packed batch repeats is counted once more here: repeated rows are dropped only where batches are
    merged, and the summaries do not name their rows.

    Attributes:
        mixed: the first batches of several keys.
    """

    __slots__ = ("_parts", "mixed")

    def __init__(self) -> None:
        self._parts: list[SentByProducer] = []
        self.mixed: list[MixedBatch] = []

    def add(self, published: Published) -> None:
        """Adds the summary of another packed batch."""
        self._parts += published.sent
        if len(self._parts) > _PARTS_MAX:
            self.all()
        self.mixed = sorted([*self.mixed, *published.mixed], key=lambda b: b.seq)[:SHOWN_MAX]

    def forget(self) -> None:
        """Restarts the counts after the last entry of each producer, because a chunked message may continue there."""
        self._parts = [SentByProducer(sent.producer, 0, 0, 0, 0, 0, 0, 0, sent.last, sent.last) for sent in self.all()]
        self.mixed = []

    def all(self) -> list[SentByProducer]:
        """All producers, those with most entries first. Packed batches come in any order of time, so it sorts them."""
        together: dict[str | None, SentByProducer] = {}
        for part in sorted(self._parts, key=lambda sent: sent.first[0]):
            before = together.get(part.producer)
            together[part.producer] = part if before is None else before.followed_by(part)
        self._parts = list(together.values())
        return sorted(self._parts, key=lambda sent: (-sent.entries, sent.producer or ""))
