"""What happened in a simulated partition over time, at equal steps, and that of several partitions together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

STEPS_MAX = 300
"""Steps of a series at most: whenever there would be more, two become one."""


@dataclass(slots=True)
class Series:
    """Queues and what was sent. A step begins after its first moment and ends with its last; the last may be shorter.

    Attributes:
        step_us: the length of a step; each look falls into one, and there is a look in every step.
        until_us: the time of the last look.
        sent: entries sent from the beginning to the end of each step, those sent again included.
        replay: the most entries in replay at any look of each step.
        backlog: entries published and not acknowledged at the end of each step; those in an overflow ledger count.
    """

    step_us: int
    until_us: int = 0
    sent: list[int] = field(default_factory=list)
    replay: list[int] = field(default_factory=list)
    backlog: list[int] = field(default_factory=list)

    def add(self, now_us: int, sent: int, replay: int, backlog: int) -> None:
        """Adds a look; each is later than the one before it, by a step at most."""
        at = max(now_us - 1, 0) // self.step_us
        if at >= STEPS_MAX:
            self._join_pairs()
            at //= 2
        if at == len(self.sent):
            self.sent.append(sent)
            self.replay.append(replay)
            self.backlog.append(backlog)
        else:
            self.sent[at] = sent
            self.replay[at] = max(self.replay[at], replay)
            self.backlog[at] = backlog
        self.until_us = now_us

    def with_steps_of(self, step_us: int) -> "Series":
        """The same with longer steps.

        Args:
            step_us: the length of its steps, doubled any number of times.
        """
        longer = replace(self)
        while longer.step_us < step_us:
            longer._join_pairs()
        return longer

    def sent_per_s(self) -> list[float]:
        """Entries sent a second in each step."""
        found: list[float] = []
        before = 0
        for at, sent in enumerate(self.sent):
            length_us = min(self.until_us - at * self.step_us, self.step_us)
            found.append((sent - before) * 1e6 / max(length_us, 1))
            before = sent
        return found

    def _join_pairs(self) -> None:
        self.step_us *= 2
        self.sent = [pair[-1] for pair in _pairs(self.sent)]
        self.replay = [max(pair) for pair in _pairs(self.replay)]
        self.backlog = [pair[-1] for pair in _pairs(self.backlog)]


def with_equal_steps(series: Sequence[Series]) -> list[Series]:
    """The same series, all with the steps of the one that has the longest."""
    longest_us = max((one.step_us for one in series), default=0)
    return [one.with_steps_of(longest_us) for one in series]


def of_partitions(series: Sequence[Series]) -> Series:
    """The series of a topic: what was sent and the backlog are sums, replay is that of the partition with the most.

    A partition that ended before the others keeps its sums, and has no replay queue any more.

    Args:
        series: one of each partition, at least one.
    """
    equal = with_equal_steps(series)
    steps = range(max(len(one.sent) for one in equal))
    return Series(
        equal[0].step_us,
        max(one.until_us for one in equal),
        [sum(one.sent[min(at, len(one.sent) - 1)] for one in equal) for at in steps],
        [max((one.replay[at] for one in equal if at < len(one.replay)), default=0) for at in steps],
        [sum(one.backlog[min(at, len(one.backlog) - 1)] for one in equal) for at in steps],
    )


def _pairs(values: list[int]) -> Iterator[list[int]]:
    return (values[at : at + 2] for at in range(0, len(values), 2))
