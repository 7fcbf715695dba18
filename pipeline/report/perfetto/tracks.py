"""The tracks of a time line, and what lies on them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from dispatch_audit.pipeline.report.wording import consumer, named, printable

Row = Mapping[str, Any]

_FINDINGS: Final = 0
_SUBSCRIPTION: Final = 1
_CONSUMER: Final = 2
_HASH: Final = 3


class Process(NamedTuple):
    """A subscription of a topic, in one run, on one broker; they sort as a viewer shows them."""

    run: int
    trace: str
    topic: str
    subscription: str
    broker: str

    @property
    def label(self) -> str:
        """Its name in a viewer; empty parts are left out."""
        return printable(" · ".join(part for part in self[1:] if part))


class Track(NamedTuple):
    """A row of a viewer; the tracks of a process sort as a viewer shows them.

    Attributes:
        kind: findings, the subscription, a consumer or a hash.
        place: among those of its kind.
        number: of the track among those of one consumer; of a hash, the hash.
    """

    process: Process
    kind: int
    place: int
    number: int
    label: str

    @property
    def is_hash(self) -> bool:
        """Whether it is the track of a hash."""
        return self.kind == _HASH


@dataclass(frozen=True)
class Event:
    """A slice or an instant on a track.

    Attributes:
        name: what the viewer writes on it.
        category: wait, draining, owner, membership or finding.
        ts: microseconds since the first row of the run.
        dur: microseconds; None: an instant.
        args: what the viewer shows of it when it is chosen; values that JSON has.
    """

    track: Track
    name: str
    category: str
    ts: int
    dur: int | None
    args: Mapping[str, object]


@dataclass(frozen=True)
class Timeline:
    """The time of a run, and where its rows belong.

    Attributes:
        run: the number of the run in the file.
        trace: its name, if the file has several runs; else empty.
        from_ts_us: the first row, at which the times of the file begin, in microseconds since 1970 UTC.
        to_ts_us: the last row, at which intervals that are still open end.
        keys: a key of each hot hash by topic, subscription and hash, and how many keys the hash has.
    """

    run: int
    trace: str
    from_ts_us: int
    to_ts_us: int
    keys: Mapping[tuple[str, str, int], tuple[str, int]]

    def at(self, ts_us: int) -> int:
        """Returns a moment as the file has it; what a window continues begins with the window."""
        return max(0, ts_us - self.from_ts_us)

    def interval(self, row: Row) -> tuple[int, int]:
        """Returns the beginning and the length of an interval."""
        begin = self.at(row["from_ts_us"])
        end = self.at(self.to_ts_us if row["to_ts_us"] is None else row["to_ts_us"])
        return begin, max(0, end - begin)

    def process(self, row: Row) -> Process:
        """Returns the process of a row."""
        return Process(self.run, self.trace, row["topic"], row["subscription"], row["broker"] or "")

    def of_findings(self, row: Row) -> Track:
        """Returns the track of the findings."""
        return Track(self.process(row), _FINDINGS, 0, 0, "findings")

    def of_subscription(self, row: Row) -> Track:
        """Returns the track of what all consumers waited for."""
        return Track(self.process(row), _SUBSCRIPTION, 0, 0, "all consumers wait")

    def of_consumer(self, row: Row) -> Track:
        """Returns the track of what a consumer owned."""
        return Track(self.process(row), _CONSUMER, row["consumer"], 0, consumer(row["consumer"], row["consumer_name"]))

    def of_waiting_consumer(self, row: Row) -> Track:
        """Returns the track of what a consumer waited for, which is the next one."""
        label = f"{consumer(row['consumer'], row['consumer_name'])} waits"
        return Track(self.process(row), _CONSUMER, row["consumer"], 1, label)

    def of_hash(self, row: Row) -> Track:
        """Returns the track of a hash, named by a key if it is hot."""
        label = f"hash {row['sticky_hash']}"
        if key := self.keys.get((row["topic"], row["subscription"], row["sticky_hash"])):
            label += f" ({named(key[0])}{f' and {key[1] - 1:,} more' if key[1] > 1 else ''})"
        return Track(self.process(row), _HASH, 0, row["sticky_hash"], label)
