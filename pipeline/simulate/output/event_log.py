"""The log of a simulation: what a recorder would have seen, as integers until rows are made of it.

A simulated dispatch is one action, so its start and its end are two rows of one moment. An event is five numbers, not
an object: a simulation has millions of them.
"""

from array import array
from typing import Final

PUBLISH: Final = 0
DISPATCH: Final = 1
ACK: Final = 2
REDELIVER: Final = 3
JOIN: Final = 4
LEAVE: Final = 5
FLOW: Final = 6
STATS: Final = 7
RESET: Final = 8
SETTINGS: Final = 9

NUMBERS: Final = 5
"""Numbers of an event: kind, microseconds, consumer, position, and one more.

In place of the position: the permits of a flow, the client of a join, 1 at the end of a reset, and of settings one of
`CHANGED_HERE`, `CHANGED_SINCE`, `LOOKED_AT`.
"""


CHANGED_HERE: Final = 0
"""Settings are in force from their row on."""
CHANGED_SINCE: Final = 1
"""Settings came into force between the row at which the recorder looked before, and this one."""
LOOKED_AT: Final = 2
"""The recorder saw no change; this event makes no row."""


class EventLog:
    """Events in their order.

    Attributes:
        events: `NUMBERS` integers for each event. The last is of a dispatch the redelivery count; of an ack and of a
            redeliver 1 for the first position of a command, else 0; of stats, join, leave, reset and settings an index
            into `texts`.
        texts: what is no number: snapshots as JSON, names, reasons.
    """

    __slots__ = ("_extend", "events", "texts")

    def __init__(self) -> None:
        self.events = array("q")
        self.texts: list[str] = []
        self._extend = self.events.extend

    def __len__(self) -> int:
        return len(self.events) // NUMBERS

    def published(self, now_us: int, position: int) -> None:
        """Logs an entry at the tail of the topic."""
        self._extend((PUBLISH, now_us, -1, position, 0))

    def dispatched(self, now_us: int, consumer: int, position: int, redelivery_count: int) -> None:
        """Logs that an entry was sent."""
        self._extend((DISPATCH, now_us, consumer, position, redelivery_count))

    def acknowledged(self, now_us: int, consumer: int, positions: list[int]) -> None:
        """Logs one command that acknowledged entries."""
        self._command(ACK, now_us, consumer, positions)

    def redelivered(self, now_us: int, consumer: int, positions: list[int]) -> None:
        """Logs one command that gave entries back."""
        self._command(REDELIVER, now_us, consumer, positions)

    def flow(self, now_us: int, consumer: int, permits: int) -> None:
        """Logs permits that a client granted."""
        self._extend((FLOW, now_us, consumer, permits, 0))

    def joined(self, now_us: int, consumer: int, client: int, name: str) -> None:
        """Logs that a consumer of a client joined."""
        self._extend((JOIN, now_us, consumer, client, self._text(name)))

    def left(self, now_us: int, consumer: int, reason: str) -> None:
        """Logs that a consumer left."""
        self._extend((LEAVE, now_us, consumer, 0, self._text(reason)))

    def reset(self, now_us: int, reason: str, ended: bool) -> None:
        """Logs that the cursor is about to be moved or the topic to be loaded anew, or that this has ended."""
        self._extend((RESET, now_us, -1, int(ended), self._text(reason)))

    def stats(self, now_us: int, snapshot: str) -> None:
        """Logs the state that the broker reported, as JSON without the seqs that frame it."""
        self._extend((STATS, now_us, -1, 0, self._text(snapshot)))

    def settings(self, now_us: int, settings: str, when: int) -> None:
        """Logs the settings that the recorder saw, as JSON; `when` is one of the three constants above."""
        self._extend((SETTINGS, now_us, -1, when, self._text(settings)))

    def take(self) -> tuple["array[int]", list[str]]:
        """Returns `events` and `texts` so far, and empties the log."""
        taken = self.events, self.texts
        self.events, self.texts = array("q"), []
        self._extend = self.events.extend
        return taken

    def _command(self, kind: int, now_us: int, consumer: int, positions: list[int]) -> None:
        first = 1
        for position in positions:
            self._extend((kind, now_us, consumer, position, first))
            first = 0

    def _text(self, text: str) -> int:
        self.texts.append(text)
        return len(self.texts) - 1
