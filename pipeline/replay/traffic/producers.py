"""The producers of one subscription's topic, from the summaries that travel with the packed batches (Q29)."""

from pipeline.replay.packing.producer_summary import SHOWN_MAX, MixedBatch, Published, Sent

# Records of chunks that are kept before they are added up.
_PARTS_MAX = 100_000


class Producers:
    """The producers of one subscription's topic, chunk by chunk.

    A row that is repeated in another chunk is counted here once more: it is left out where chunks are merged, and of
    what is counted here nothing travels with the rows.
    """

    def __init__(self) -> None:
        self._parts: list[Sent] = []
        self._mixed: list[MixedBatch] = []

    def add(self, of_chunk: Published) -> None:
        """Takes what another chunk says."""
        self._parts += of_chunk.sent
        if len(self._parts) > _PARTS_MAX:
            self.all()
        self._mixed = sorted([*self._mixed, *of_chunk.mixed], key=lambda b: b.seq)[:SHOWN_MAX]

    def forget(self) -> None:
        """Counts anew behind the last entry of each producer; a chunked message may go on there."""
        self._parts = [Sent(sent.producer, 0, 0, 0, 0, 0, 0, 0, sent.last, sent.last) for sent in self.all()]
        self._mixed = []

    def all(self) -> list[Sent]:
        """Every producer, who sent most first; a chunk may hold the rows of any time, so they are put in order here."""
        together: dict[str | None, Sent] = {}
        for part in sorted(self._parts, key=lambda sent: sent.first[0]):
            before = together.get(part.producer)
            together[part.producer] = part if before is None else before.followed_by(part)
        self._parts = list(together.values())
        return sorted(self._parts, key=lambda sent: (-sent.entries, sent.producer or ""))

    @property
    def mixed(self) -> list[MixedBatch]:
        """The first batches of several keys."""
        return self._mixed
