"""Which entries a consumer has received, in little memory: a bit for each entry of a ledger."""


class ReceivedEntries:
    """The entries that one consumer has received. A ledger has at most some ten thousand entries."""

    def __init__(self) -> None:
        self._of_ledger: dict[int, bytearray] = {}

    def add(self, ledger: int, entry: int) -> bool:
        """Adds an entry; returns whether it is new."""
        bits = self._of_ledger.setdefault(ledger, bytearray())
        at, mask = entry >> 3, 1 << (entry & 7)
        if at >= len(bits):
            bits.extend(bytes(at + 1 - len(bits)))
        is_new = not bits[at] & mask
        bits[at] |= mask
        return is_new
