"""Findings of `stalled` about a whole subscription: no consumer was sent an entry.

A standstill is a finding if the trace does not explain it. It names a known bug if its rows have the symptom of that
bug. If no row shows permits, the consumers may have had none, and the stall is not provable.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple

from dispatch_audit.pipeline.contract.known_bugs import label, remedy, titles
from dispatch_audit.pipeline.contract.severity import Severity
from dispatch_audit.pipeline.plural import count, entries
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked, Interval, StallKind
from dispatch_audit.pipeline.replay.blocking.stalls.doubts import DOUBTS
from dispatch_audit.pipeline.replay.blocking.stalls.symptoms import BUGS_OF, NO_READ_PENDING
from dispatch_audit.pipeline.replay.durations import FAILED_READ_US
from dispatch_audit.pipeline.replay.state.output import STILL_OPEN
from dispatch_audit.pipeline.replay.state.records import NOBODY
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import FindingText, JudgedFinding
from dispatch_audit.pipeline.replay.verdicts.missing.alibis import doubt_of_waits
from dispatch_audit.pipeline.replay.verdicts.missing.assumed import assumed, is_not_known, of_waits, unknown
from dispatch_audit.pipeline.replay.verdicts.missing.filtered import doubt_of_filters
from dispatch_audit.pipeline.replay.verdicts.naming import position
from dispatch_audit.pipeline.replay.verdicts.stalls.hangs import bugs_of, hang_in, spoken
from dispatch_audit.pipeline.utc import moment


class Standstill(NamedTuple):
    """The stalls of one standstill, at least one, in their order: in each the same entry is the oldest to be sent.

    While it waits, others may be sent now and then. Each such dispatch ends an interval of `blocking`, but not the
    standstill.
    """

    parts: tuple[Blocked, ...]

    @property
    def span(self) -> Interval:
        """The time from the beginning of the first stall to the end of the last one."""
        first, last = self.parts[0].span, self.parts[-1].span
        return last._replace(from_seq=first.from_seq, from_ts=first.from_ts)

    @property
    def idle_us(self) -> int:
        """The time in which nothing was sent to anybody."""
        return sum(part.span.to_ts - part.span.from_ts for part in self.parts)

    @property
    def longest(self) -> Blocked:
        """The longest of them, whose reason is that of the standstill."""
        return max(self.parts, key=lambda part: part.span.to_ts - part.span.from_ts)

    @property
    def longest_us(self) -> int:
        """The length of that one."""
        return self.longest.span.to_ts - self.longest.span.from_ts

    @property
    def sent_meanwhile(self) -> int:
        """How many entries were sent between its parts."""
        first, last = self.parts[0], self.parts[-1]
        return int(last.detail["sent_before"] - first.detail["sent_before"])


def _standstills(stalls: Iterable[tuple[Blocked, bool]]) -> list[Standstill]:
    """The standstills, in the order in which they began.

    Where a part of one is proven, the others, which something may explain, say nothing against it and do not count.

    Args:
        stalls: those of one subscription, and whether each is proven.
    """
    found: dict[Hashable, list[tuple[Blocked, bool]]] = {}
    for stall, proven in sorted(stalls, key=lambda of: (of[0].span.from_ts, of[0].span.from_seq)):
        found.setdefault(stall.standstill, []).append((stall, proven))
    standstills = []
    for parts in found.values():
        any_proven = any(proven for _, proven in parts)
        standstills.append(Standstill(tuple(stall for stall, proven in parts if proven == any_proven)))
    return standstills


def stalls(context: FindingContext) -> list[JudgedFinding]:
    """The standstills of the whole subscription that the window reports, a finding each."""
    found = context.reported_stalls
    proven = (stall.kind.provable and not _doubt(stall, context) for stall in found)
    return [_finding(standstill, context) for standstill in _standstills(zip(found, proven, strict=True))]


def _doubt(stall: Blocked, context: FindingContext) -> str:
    """Why a stall is not provable although its rows show it, as a clause; empty: it is provable."""
    undecided = context.doubts.between(stall.span.from_seq, stall.span.to_seq)
    # The owners of the waiting hashes decide which consumers could have been sent something.
    if undecided and stall.detail["owners_matter"]:
        return undecided[0].because
    filtered = doubt_of_filters(context, stall.roots[0] if stall.roots else None)
    stood_still = _perhaps_stood_still(stall.span, context) or doubt_of_waits(context, stall.span.to_seq)
    return filtered or stood_still or unknown(stall.detail["rests_on"], context)


def _perhaps_stood_still(span: Interval, context: FindingContext) -> str:
    """Why the whole broker may have stood still in an interval, as a clause.

    Empty if the interval without the times in which the broker wrote no row is still long enough for a stall.
    """
    found = context.found
    silent_us = found.signs.without_running(found.silence.within(span.from_ts, span.to_ts))
    if span.to_ts - span.from_ts - silent_us >= context.config.thresholds.stall_threshold_us:
        return ""
    return (
        f"for {silent_us / 1e6:.3f} s of it the broker wrote no row at all, not even the snapshots that were due, so "
        "all of it may have stood still, as in a garbage collection or on a paused machine"
    )


def stalls_beyond(context: FindingContext) -> Counter[Severity]:
    """The severities of the stalls beyond `blocking.intervals_max`, which were only counted."""
    counts: Counter[Severity] = Counter()
    for kind, number in context.found.monitor.intervals.stalls_beyond.items():
        counts[_severity(kind, _bugs(kind, context, keeps_order=True))] += number
    return counts


def _severity(kind: StallKind, bugs: tuple[str, ...]) -> Severity:
    if not kind.provable:
        return "not_provable"
    return "known_bug" if bugs else "violation"


def _bugs(kind: StallKind, context: FindingContext, keeps_order: bool) -> tuple[str, ...]:
    """The bugs whose symptom the rows of a stall show, if the release may have them."""
    symptom = BUGS_OF.get(kind.symptom)
    if symptom is None or (symptom == "nothing_is_read" and kind.healed):
        # The dispatcher waits for a read that does not exist, so such a stall does not heal by itself.
        return ()
    if symptom == "parked_at_the_end" and not keeps_order:
        symptom = "parked_at_the_end_out_of_order"
    return context.bugs_with(symptom)


def _finding(standstill: Standstill, context: FindingContext) -> JudgedFinding:
    stall, interval, names = standstill.longest, standstill.span, context.names
    kind, doubt = stall.kind, _doubt(stall, context)
    hang = hang_in(interval, context)
    bugs: tuple[str, ...] = ()
    if kind.provable and not doubt:
        keeps_order = context.found.dispatcher.policy.keeps_order
        bugs = _bugs(kind, context, keeps_order) if hang is None else bugs_of(hang, context)
    severity = "not_provable" if doubt else _severity(kind, bugs)
    named = dict.fromkeys(name for part in standstill.parts for name in part.detail["rests_on"])
    taken = assumed(() if severity == "not_provable" else (*named, *of_waits(context)), context)
    until = "the end of the trace" if interval.ended_by == STILL_OPEN else "here"
    evidence = [f"seq {names.seq(interval.from_seq)}: no entry is sent from here on"]
    if len(standstill.parts) > 1:
        sent = count(standstill.sent_meanwhile, "entry is", "entries are")
        evidence.append(f"{sent} sent in between, at {count(len(standstill.parts) - 1, 'time')}")
    return JudgedFinding(
        severity=severity,
        seq=interval.to_seq,
        ts_us=interval.to_ts,
        explanation=FindingText(
            what=_what(standstill),
            contrast="although",
            against=_against(standstill, kind.permits_known),
            why=(*([] if hang is None else [spoken(hang)]), *_reasons(stall, context, bugs, doubt)),
            remedy=remedy(bugs, context.release),
            assumes=taken,
        ),
        evidence=[*evidence, f"seq {names.seq(interval.to_seq)}: until {until}"],
        ledger_id=stall.roots[0][0] if stall.roots else None,
        entry_id=stall.roots[0][1] if stall.roots else None,
        consumer=names.number(stall.blocking),
        known_bugs=bugs,
        assumes=taken,
        detail={
            **_told(stall.detail),
            "entries": max(part.entries for part in standstill.parts),
            "seconds": standstill.idle_us / 1e6,
            "times": len(standstill.parts),
            "longest_seconds": standstill.longest_us / 1e6,
            "from_seq": names.own_seq(interval.from_seq),
            "sent_meanwhile": standstill.sent_meanwhile,
        },
    )


def _told(detail: Mapping[str, object]) -> dict[str, object]:
    """The details without those that have a column or a sentence."""
    return {name: value for name, value in detail.items() if name not in ("rests_on", "unknown", "went_on")}


def _what(standstill: Standstill) -> str:
    began = moment(standstill.span.from_ts)
    idle = f"no entry was sent to any consumer for {standstill.idle_us / 1e6:.3f} s"
    if len(standstill.parts) == 1:
        return f"{idle} from {began} on"
    parts = f"in {len(standstill.parts):,} parts of up to {standstill.longest_us / 1e6:.3f} s"
    sent = count(standstill.sent_meanwhile, "entry was", "entries were")
    return f"{idle}, {parts}, from {began} until {moment(standstill.span.to_ts)}, while {sent} sent in between"


def _against(standstill: Standstill, permits_known: bool) -> str:
    stall, several = standstill.longest, len(standstill.parts) > 1
    root = f" (oldest: {position(*stall.roots[0])})" if stall.roots else ""
    waited = entries(max(part.detail["could_be_sent"] for part in standstill.parts))
    consumers = stall.detail["consumers"]
    if not permits_known:
        return f"{waited} waited{root} for {count(consumers, 'consumer')}"
    most, always = ("up to ", " all the time") if several else ("", "")
    ready = f"{stall.detail['with_permits']} of {count(consumers, 'consumer')} had permits"
    return f"{most}{waited} could have been sent{always}{root} and {ready}"


def _no_read_pending(stall: Blocked, kind: StallKind) -> str:
    """What a read that failed has to do with a stall in which none was pending."""
    lasted_us = stall.span.to_ts - stall.span.from_ts
    if kind.healed and lasted_us < FAILED_READ_US:
        return (
            f"no read was pending, and sending went on after {lasted_us / 1e6:.3f} s: a read that fails explains "
            f"pauses from {FAILED_READ_US // 1_000_000} s on (dispatcherReadFailureBackoffInitialTimeInMs)"
        )
    return (
        "no read was pending: after one that fails the broker waits from 15 s up to a minute "
        "(dispatcherReadFailureBackoffInitialTimeInMs), and its log says why it failed"
    )


def _reasons(stall: Blocked, context: FindingContext, bugs: tuple[str, ...], doubt: str) -> Iterator[str]:
    """The reasons for the verdict on a stall, the known bugs and the doubt among them."""
    kind = stall.kind
    if not kind.permits_known:
        yield "no row shows whether they had permits"
    if stall.blocking != NOBODY:
        yield f"the last dispatch to {context.names.spoken(stall.blocking)} had not reached its connection"
    if kind.symptom == NO_READ_PENDING:
        yield _no_read_pending(stall, kind)
    yield from titles(bugs, label)
    if doubt:
        yield doubt
    if kind.doubt:
        yield DOUBTS[kind.doubt].because
    if kind.unknown:
        yield is_not_known(stall.detail["unknown"])
