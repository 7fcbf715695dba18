"""The state as observers take it: they read all of it, and write their own memory (`memories`).

Each protocol is the state with other fields read-only, so mypy refuses a write that is not the observer's. It does not
know the columns that numpy takes out of records; `tests/layout/test_one_writer.py` looks after those.
"""

from typing import Any, Protocol

from dispatch_audit.pipeline.assignment import Routing
from dispatch_audit.pipeline.replay.state.memories import Checks, LimitsSeen, Waits


class SeenRecord(Protocol):
    """One record, to be read by the names of its fields."""

    def __getattr__(self, name: str, /) -> Any:
        """The value of a field."""


class SeenRecords(Protocol):
    """Records, to be read."""

    @property
    def size(self) -> int:
        """Their number."""

    def __len__(self) -> int:
        """Their number."""

    def __getitem__(self, slot: Any, /) -> SeenRecord:
        """One of them."""

    def view(self, of: Any, /) -> Any:
        """The same records as an array of another kind."""


class SeenMemory(Protocol):
    """What an observer remembers of the consumers and of the subscription, to be read."""

    @property
    def consumers(self) -> SeenRecords:
        """One for each consumer."""

    @property
    def common(self) -> SeenRecords:
        """The only one, for the subscription."""


class SeenLimits(SeenMemory, Protocol):
    """`LimitsSeen`, to be read."""

    @property
    def claims(self) -> SeenRecords:
        """Of `CLAIM`."""


class SeenWaits(SeenMemory, Protocol):
    """`Waits`, to be read."""

    @property
    def hashes(self) -> SeenRecords:
        """Of `HASH_WAIT`."""


class Seen(Protocol):
    """The state of the dispatcher and the memories of all observers, to be read."""

    @property
    def entries(self) -> SeenRecords:
        """Of `ENTRY`."""

    @property
    def entry_table(self) -> Any:
        """The index of `entries` by position."""

    @property
    def hashes(self) -> SeenRecords:
        """Of `HASH`."""

    @property
    def consumers(self) -> SeenRecords:
        """Of `CONSUMER`."""

    @property
    def common(self) -> SeenRecords:
        """One of `COMMON`."""

    @property
    def routing(self) -> Routing:
        """The routing in force, to indexes of consumers."""

    @property
    def waits(self) -> SeenWaits:
        """The memory of `blocking`."""

    @property
    def limits(self) -> SeenLimits:
        """The memory of the limits (`rules`)."""


class SeenByRules(Seen, Protocol):
    """The state as a rule takes it: it notes what it has checked."""

    @property
    def checks(self) -> Checks:
        """The memory of the rules."""


class SeenByLimits(Seen, Protocol):
    """The state as `rules.limit_of_consumer` and `limit_of_subscription` take it."""

    @property
    def limits(self) -> LimitsSeen:
        """Its memory."""


class SeenByBlocking(Seen, Protocol):
    """The state as `blocking` takes it."""

    @property
    def waits(self) -> Waits:
        """Its memory."""
