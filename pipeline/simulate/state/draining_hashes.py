"""Draining hashes: hashes that moved while their former owner still has pending entries of them (contract 3.4)."""

from collections.abc import Callable

from dispatch_audit.pipeline.simulate.state.replay_queue import NO_HASH


class DrainingHash:
    """A draining hash.

    Attributes:
        holder: the consumer that has pending entries of it.
        entries: how many the broker counts.
        blocked_attempts: how often another consumer asked for it.
    """

    __slots__ = ("blocked_attempts", "entries", "holder")

    def __init__(self, holder: int) -> None:
        self.holder = holder
        self.entries = 0
        self.blocked_attempts = 0


class DrainingHashes:
    """The broker's tracker of draining hashes.

    Attributes:
        by_hash: the draining hashes.
        cleared: of each holder, how many of its hashes have stopped draining.
    """

    __slots__ = ("_batches", "_notify", "_unblocked_in_batch", "by_hash", "cleared")

    def __init__(self, notify: Callable[[], None]) -> None:
        """Starts without a draining hash.

        Args:
            notify: asks for a read, when a hash that has blocked a consumer stops draining.
        """
        self.by_hash: dict[int, DrainingHash] = {}
        self.cleared: dict[int, int] = {}
        self._notify = notify
        self._batches = 0
        self._unblocked_in_batch = False

    def add_entry(self, holder: int, sticky_hash: int) -> None:
        """Counts a pending entry of a hash that moved away from its holder.

        A hash has one holder at a time: the broker raises otherwise, and so does this.

        Raises:
            AssertionError: the hash drains at another holder.
        """
        found = self.by_hash.get(sticky_hash)
        if found is None:
            self.by_hash[sticky_hash] = found = DrainingHash(holder)
        if found.holder != holder:
            raise AssertionError(f"hash {sticky_hash} drains at {found.holder}, not at {holder}")
        found.entries += 1

    def remove_entry(self, holder: int, sticky_hash: int, closing: bool = False) -> None:
        """Removes an entry from the count; asks for a read if a hash that has blocked a consumer stops draining."""
        found = self.by_hash.get(sticky_hash)
        if found is None:
            return
        if found.holder != holder:
            raise AssertionError(f"hash {sticky_hash} drains at {found.holder}, not at {holder}")
        found.entries -= 1
        if found.entries:
            return
        del self.by_hash[sticky_hash]
        self._cleared(holder)
        if found.blocked_attempts and not closing:
            if self._batches:
                self._unblocked_in_batch = True
            else:
                self._notify()

    def should_block(self, owner: int, sticky_hash: int) -> bool:
        """Whether an entry must wait; a hash that is back at its holder stops draining with this question."""
        if sticky_hash == NO_HASH:
            return False
        found = self.by_hash.get(sticky_hash)
        if found is None:
            return False
        if found.holder == owner:
            del self.by_hash[sticky_hash]
            self._cleared(owner)
            return False
        found.blocked_attempts += 1
        return True

    def blocks(self, owner: int, sticky_hash: int) -> bool:
        """Whether the hash drains at another consumer, without an effect: what the race guard asks (contract 3.7)."""
        found = self.by_hash.get(sticky_hash)
        return found is not None and found.holder != owner

    def start_batch(self) -> None:
        """Puts notifications off until the outermost batch ends."""
        self._batches += 1

    def end_batch(self) -> None:
        """Ends a batch, with one notification if any hash was unblocked in it."""
        self._batches -= 1
        if not self._batches and self._unblocked_in_batch:
            self._unblocked_in_batch = False
            self._notify()

    def clear(self) -> None:
        """Drops everything, when no consumer is left."""
        self.by_hash.clear()
        self.cleared.clear()

    def of_holder(self, holder: int) -> list[tuple[int, DrainingHash]]:
        """The hashes that drain at a consumer, ascending."""
        return sorted((h, found) for h, found in self.by_hash.items() if found.holder == holder)

    def _cleared(self, holder: int) -> None:
        self.cleared[holder] = self.cleared.get(holder, 0) + 1
