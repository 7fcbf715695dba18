"""Standstills, and what findings say of them.

A standstill is waits of a subscription, or of one hash, in which the same entry is the oldest that could be sent.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from dispatch_audit.pipeline.plural import count, entries
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked, Interval
from dispatch_audit.pipeline.replay.state.output import ENDINGS, By
from dispatch_audit.pipeline.replay.state.records import NOBODY
from dispatch_audit.pipeline.replay.verdicts.finding import Names, position
from dispatch_audit.pipeline.utc import moment


class Standstill(NamedTuple):
    """The waits of one standstill, at least one, in their order.

    While nothing is sent to the whole subscription, an entry may be sent now and then. Each such dispatch ends an
    interval of `blocking`, but not the standstill. A hash that is passed over may get another owner meanwhile.
    """

    parts: tuple[Blocked, ...]

    @property
    def span(self) -> Interval:
        """The time from the beginning of the first wait to the end of the last one."""
        first, last = self.parts[0].span, self.parts[-1].span
        return last._replace(from_seq=first.from_seq, from_ts=first.from_ts)

    @property
    def idle_us(self) -> int:
        """The time in which nothing was sent to anybody, or nothing of the hash."""
        return sum(part.span.to_ts - part.span.from_ts for part in self.parts)

    @property
    def longest(self) -> Blocked:
        """The longest of them, whose reason is that of the standstill."""
        return max(self.parts, key=lambda part: part.span.to_ts - part.span.from_ts)

    @property
    def sent_meanwhile(self) -> int:
        """How many entries were sent between its parts."""
        first, last = self.parts[0], self.parts[-1]
        return int(last.detail["sent_before"] - first.detail["sent_before"])


def standstills(waits: Iterable[tuple[Blocked, bool]]) -> list[Standstill]:
    """The standstills, in the order in which their last parts began.

    Where a part of one is proven, the others, which something may explain, say nothing against it and do not count.

    Args:
        waits: those of one subscription, and whether each is proven.
    """
    found: dict[Hashable, list[tuple[Blocked, bool]]] = {}
    for wait, proven in sorted(waits, key=lambda of: (of[0].span.from_ts, of[0].span.from_seq)):
        # The waits of a hash that is sent nothing follow on one another.
        begun, end = (wait.span.from_ts, wait.span.to_ts) if wait.is_passed_over else (0, 0)
        found[wait.standstill, end] = [*found.pop((wait.standstill, begun), []), (wait, proven)]
    return [
        Standstill(tuple(wait for wait, proven in parts if proven == any(proven for _, proven in parts)))
        for parts in found.values()
    ]


class Told(NamedTuple):
    """A standstill in words; `about` has further columns of the finding."""

    what: str
    against: str
    evidence: Sequence[str]
    detail: dict[str, object]
    about: dict[str, Any]


def of_hash(standstill: Standstill, names: Names) -> Told:
    """A hash that was passed over."""
    of, span = standstill.parts[-1], standstill.span
    head, passed = position(*of.roots[0]), position(*of.detail["passed"])
    owner, passed_by = names.spoken(of.consumer), names.spoken(of.detail["passed_by"])
    seconds, is_open = standstill.idle_us / 1e6, span.ended_by == By.OPEN
    until = "the end of the trace" if is_open else f"{moment(span.to_ts)} (seq {names.seq(span.to_seq)})"
    waited = f"{entries(of.entries)} of hash {of.hash} waited, the first of them {head}"
    if of.entries == 1:
        waited = f"entry {head} of hash {of.hash} waited"
    drained = f" (it had drained from {names.spoken(of.blocking)} before)" if of.blocking != NOBODY else ""
    permits = f"{owner} had permits; " if passed_by != owner else ""
    moves = [
        f"seq {names.seq(move.at.seq)}: hash {of.hash} moves from {names.spoken(move.before)} to "
        f"{names.spoken(move.after)}; pending: {entries(move.held)}"
        for move in of.detail["moves"]
    ]
    return Told(
        f"{waited} for {seconds:.3f} s to be sent to {owner}, from {moment(span.from_ts)} until {until}",
        f"no other consumer held an entry of the hash{drained} and {permits}{passed_by} was meanwhile sent the later "
        f"entry {passed}",
        [
            *moves,
            f"seq {names.seq(span.from_seq)}: from here on no other consumer holds the hash, and {head} waits",
            f"{moment(of.detail['passed_ts'])}: {passed_by} is sent the later entry {passed}",
        ],
        {
            "entries": of.entries,
            "seconds": seconds,
            "from_seq": names.own_seq(span.from_seq),
            "ended_by": ENDINGS[span.ended_by],
            "counted_as_draining": of.detail["registered"],
        },
        {"sticky_hash": of.hash, "consumer": of.consumer, "other_consumer": of.blocking},
    )


# The details of a stall that have a column or a sentence.
_TOLD = ("rests_on", "unknown", "went_on")


def of_subscription(standstill: Standstill, names: Names) -> Told:
    """A time in which no consumer was sent anything."""
    stall, span, parts = standstill.longest, standstill.span, standstill.parts
    longest_us = stall.span.to_ts - stall.span.from_ts
    what = f"no entry was sent to any consumer for {standstill.idle_us / 1e6:.3f} s"
    evidence = [f"seq {names.seq(span.from_seq)}: no entry is sent from here on"]
    if len(parts) == 1:
        what += f" from {moment(span.from_ts)} on"
    else:
        sent = count(standstill.sent_meanwhile, "entry was", "entries were")
        what += f", in {len(parts):,} parts of up to {longest_us / 1e6:.3f} s, from {moment(span.from_ts)} until "
        what += f"{moment(span.to_ts)}, while {sent} sent in between"
        sent = count(standstill.sent_meanwhile, "entry is", "entries are")
        evidence.append(f"{sent} sent in between, at {count(len(parts) - 1, 'time')}")
    until = "the end of the trace" if span.ended_by == By.OPEN else "here"
    return Told(
        what,
        _could_be_sent(standstill),
        [*evidence, f"seq {names.seq(span.to_seq)}: until {until}"],
        {
            **{name: value for name, value in stall.detail.items() if name not in _TOLD},
            "entries": max(part.entries for part in parts),
            "seconds": standstill.idle_us / 1e6,
            "times": len(parts),
            "longest_seconds": longest_us / 1e6,
            "from_seq": names.own_seq(span.from_seq),
            "sent_meanwhile": standstill.sent_meanwhile,
        },
        {"consumer": stall.blocking},
    )


def _could_be_sent(standstill: Standstill) -> str:
    stall, several = standstill.longest, len(standstill.parts) > 1
    root = f" (oldest: {position(*stall.roots[0])})" if stall.roots else ""
    waited = entries(max(part.detail["could_be_sent"] for part in standstill.parts))
    consumers = stall.detail["consumers"]
    if not stall.kind.permits_known:
        return f"{waited} waited{root} for {count(consumers, 'consumer')}"
    most, always = ("up to ", " all the time") if several else ("", "")
    ready = f"{stall.detail['with_permits']} of {count(consumers, 'consumer')} had permits"
    return f"{most}{waited} could have been sent{always}{root} and {ready}"
