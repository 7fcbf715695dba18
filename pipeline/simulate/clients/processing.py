"""When a client processes its messages: one after the other, several at a time, or each key by itself."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from heapq import heapify, heapreplace


class Processing(ABC):
    """Decides when the processing of a message starts, from the order in which messages arrive."""

    __slots__ = ()

    @abstractmethod
    def start_us(self, position: int, arrival_us: int, service_us: int) -> int:
        """When a message starts that arrives at `arrival_us`; it then occupies its thread or key for `service_us`."""

    @abstractmethod
    def interrupt(self, until_us: int) -> None:
        """Drops what is in process; nothing starts before this time."""


class Threads(Processing):
    """A number of messages at a time, in the order of arrival."""

    __slots__ = ("_free",)

    def __init__(self, threads: int) -> None:
        self._free = [0] * threads

    def start_us(self, position: int, arrival_us: int, service_us: int) -> int:
        """When it has arrived and a thread is free."""
        start_us = max(arrival_us, self._free[0])
        heapreplace(self._free, start_us + service_us)
        return start_us

    def interrupt(self, until_us: int) -> None:
        """Frees all threads from then on."""
        self._free = [until_us] * len(self._free)
        heapify(self._free)


class PerKey(Processing):
    """One message of each key at a time, all keys at once."""

    __slots__ = ("_free", "_from_us", "_keys")

    def __init__(self, keys: Sequence[int]) -> None:
        """Starts with nothing in process.

        Args:
            keys: the number of the key of each entry.
        """
        self._keys = keys
        self._free: dict[int, int] = {}
        self._from_us = 0

    def start_us(self, position: int, arrival_us: int, service_us: int) -> int:
        """When it has arrived and the previous message of its key is done."""
        key = self._keys[position]
        start_us = max(arrival_us, self._free.get(key, self._from_us))
        self._free[key] = start_us + service_us
        return start_us

    def interrupt(self, until_us: int) -> None:
        """Frees all keys from then on."""
        self._free.clear()
        self._from_us = until_us


class AtOnce(Processing):
    """Every message as soon as it arrives: recorded acknowledgement delays already contain the waiting."""

    __slots__ = ("_from_us",)

    def __init__(self) -> None:
        self._from_us = 0

    def start_us(self, position: int, arrival_us: int, service_us: int) -> int:
        """When it arrives, but not before the last interruption."""
        return max(arrival_us, self._from_us)

    def interrupt(self, until_us: int) -> None:
        """Lets nothing start before this time."""
        self._from_us = until_us
