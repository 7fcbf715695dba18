"""The cursor of a subscription: what was read, what is acknowledged, and the holes between.

Source: contract 4.2 (read position), 4.4 (acknowledged entries are not read again), 5.10 (what an unload keeps).
"""


class Cursor:
    """Positions are indexes of entries; -1 stands before the first.

    Attributes:
        end: number of entries published so far.
        read_position: the next entry of a normal read.
        mark_delete: all entries up to this one are acknowledged.
        ranges: acknowledged ranges above mark-delete; with the gaps before them, the ack holes.
        ranges_peak: the most of them at one time.
        acked: one byte an entry, 1 if acknowledged.
        acknowledged: how many entries are acknowledged.
    """

    __slots__ = ("acked", "acknowledged", "end", "mark_delete", "ranges", "ranges_peak", "read_position")

    def __init__(self, entries: int) -> None:
        """A cursor before the first entry.

        Args:
            entries: how many will be published at most.
        """
        self.end = 0
        self.read_position = 0
        self.mark_delete = -1
        self.ranges = 0
        self.ranges_peak = 0
        self.acked = bytearray(entries + 2)
        self.acknowledged = 0

    @property
    def has_more(self) -> bool:
        """Whether a normal read would find an entry."""
        return self.read_position < self.end

    @property
    def backlog(self) -> int:
        """Entries published and not acknowledged."""
        return self.end - self.acknowledged

    def read(self, entries_max: int) -> list[int]:
        """Takes up to `entries_max` entries that are not acknowledged, and moves the read position past them."""
        at, end, acked = self.read_position, self.end, self.acked
        if not acked[at]:
            # Nearly always none of them is acknowledged: only after a rewind some are.
            stop = min(at + entries_max, end)
            if acked.find(1, at, stop) < 0:
                self.read_position = stop
                return list(range(at, stop))
        found: list[int] = []
        while at < end and len(found) < entries_max:
            if not acked[at]:
                found.append(at)
            at += 1
        self.read_position = at
        return found

    def nth_unacknowledged(self, number: int) -> int:
        """The unacknowledged entry with this number above mark-delete, from 1; the last entry if there are fewer."""
        at = self.mark_delete
        for _ in range(number):
            at = self.acked.find(0, at + 1, self.end)
            if at < 0:
                return self.end - 1
        return at

    def rewind(self) -> None:
        """Moves the read position to the first entry above mark-delete."""
        self.read_position = self.mark_delete + 1

    def acknowledge(self, position: int) -> bool:
        """Acknowledges one entry; returns whether mark-delete moved."""
        acked = self.acked
        if acked[position]:
            return False
        acked[position] = 1
        self.acknowledged += 1
        if position == self.mark_delete + 1:
            if acked[position + 1]:
                position = acked.find(0, position + 1) - 1
                self.ranges -= 1
            self.mark_delete = position
            return True
        # It may join the range before it, the range after it, or both.
        self.ranges += 1 - acked[position - 1] - acked[position + 1]
        self.ranges_peak = max(self.ranges_peak, self.ranges)
        return False

    def move_mark_delete(self, position: int) -> bool:
        """Acknowledges everything up to `position`, as expiry and skipping do; returns whether mark-delete moved."""
        if position <= self.mark_delete:
            return False
        first = self.mark_delete + 1
        # Mark-delete also passes a range that begins right after the position, or goes on after it.
        self.ranges -= _ranges_in(self.acked, first, position + 1)
        self.acknowledged += self.acked.count(0, first, position + 1)
        self.acked[first : position + 1] = b"\1" * (position + 1 - first)
        at = self.acked.find(0, position + 1)
        self.mark_delete = at - 1
        self.read_position = max(self.read_position, at)
        return True

    def reset(self, position: int) -> None:
        """Moves back or forth so that `position` is the next entry, and forgets acknowledgements from there on."""
        self.acked[:position] = b"\1" * position
        self.acked[position:] = bytes(len(self.acked) - position)
        self.acknowledged = position
        self.mark_delete = position - 1
        self.ranges = 0
        self.read_position = position

    def forget_ranges(self, persisted_max: int) -> None:
        """Forgets the acknowledged ranges above mark-delete beyond the first `persisted_max`, as a reload does."""
        at, kept = self.mark_delete + 1, 0
        while kept < persisted_max:
            at = self.acked.find(1, at, self.end)
            if at < 0:
                return
            at = self.acked.find(0, at)
            kept += 1
        self.acknowledged -= self.acked.count(1, at)
        self.acked[at:] = bytes(len(self.acked) - at)
        self.ranges = min(self.ranges, kept)


def _ranges_in(acked: bytearray, first: int, last: int) -> int:
    """How many acknowledged ranges begin between two positions, inclusive."""
    found, at = 0, acked.find(1, first, last + 1)
    while at >= 0:
        found += 1
        gap = acked.find(0, at)
        at = acked.find(1, gap, last + 1)
    return found
