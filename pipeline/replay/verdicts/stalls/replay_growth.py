"""Findings of `stalled` about a replay queue that grew without a limit while a consumer could be sent nothing.

Without a look-ahead limit the broker reads on for the other consumers and puts what it cannot send into replay.
"""

from collections.abc import Sequence
from typing import Final

from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.plural import entries
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked
from dispatch_audit.pipeline.replay.settings.broker_limits import READ_BATCH_DEFAULT
from dispatch_audit.pipeline.replay.verdicts.alibis import doubt_of
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import FindingVerdict, JudgedFinding

# A short slow moment may put a few small reads of one consumer's entries into replay, but not so many full reads.
_READS_IN_REPLAY: Final = 10


def growths(context: FindingContext) -> list[JudgedFinding]:
    """A finding for each wait in which the entries of a consumer filled replay, if replay has no limit."""
    found, config = context.found, context.config
    bugs = context.bugs_with("replay_grows")
    if not bugs or config.limits.looks_ahead:
        return []
    least = max(_READS_IN_REPLAY * (config.limits.read_batch or READ_BATCH_DEFAULT), READ_BATCH_DEFAULT)
    longest_us = config.thresholds.stall_threshold_us
    growths = []
    waits = [wait for wait in found.noted_waits if wait.scope == "consumer" and "in_replay" in wait.detail]
    for beginnings in _whole_waits(waits, found.membership.owners.epochs.began, config.thresholds.report_min_us):
        grown = [
            wait
            for wait in beginnings
            if wait.detail["in_replay"] >= least
            and wait.span.to_ts - wait.span.from_ts >= longest_us
            and not doubt_of(context, wait.span.to_seq, "dispatcher")
        ]
        if grown:
            # The last part that is long enough: a later membership change may move the entries in replay to others.
            growths.append(_growth(grown[-1], bugs, context))
    return growths


def _whole_waits(waits: Sequence[Blocked], began: Sequence[TracePoint], report_min_us: int) -> list[list[Blocked]]:
    """Joins the waits of a consumer that a membership change divides.

    A part shorter than `report_min_us` is not among them: it leaves a pause with a membership change at both ends.

    Returns:
        For each whole wait its beginnings, each up to the end of one part, with the entries that were in replay then.
    """
    whole: list[list[Blocked]] = []
    changes = frozenset(at.seq for at in began)
    parts_of: dict[int, list[Blocked]] = {}
    for wait in sorted(waits, key=lambda wait: (wait.span.from_ts, wait.span.from_seq)):
        parts, span = parts_of.get(wait.consumer), wait.span
        last = parts[-1].span if parts else span
        apart_us = span.from_ts - last.to_ts
        between = {last.to_seq, span.from_seq} <= changes
        if parts and (apart_us == 0 or (between and apart_us < report_min_us)):
            parts.append(wait._replace(span=span._replace(from_seq=last.from_seq, from_ts=last.from_ts)))
        else:
            parts_of[wait.consumer] = [wait]
            whole.append(parts_of[wait.consumer])
    return whole


def _growth(wait: Blocked, bugs: tuple[str, ...], context: FindingContext) -> JudgedFinding:
    interval, names, in_replay = wait.span, context.names, wait.detail["in_replay"]
    seconds = (interval.to_ts - interval.from_ts) / 1e6
    return context.finding(
        TracePoint(interval.to_seq, interval.to_ts),
        f"while {names.spoken(wait.consumer)} could be sent nothing for {seconds:.3f} s ({wait.cause}), the broker "
        f"read on and put {entries(in_replay)} for it into replay, which nothing limits",
        FindingVerdict("known_bug", known_bugs=bugs),
        [
            f"seq {names.seq(interval.from_seq)}: {names.spoken(wait.consumer)} can be sent nothing from here on",
            f"seq {names.seq(interval.to_seq)}: {entries(in_replay)} that were read meanwhile wait in replay for it",
        ],
        entry=next(iter(wait.roots), (None, None)),
        consumer=wait.consumer,
        detail={"in_replay": in_replay, "cause": wait.cause, "seconds": seconds},
    )
