"""Findings of `stalled` about a replay queue that grew without a limit, while a consumer could be sent nothing.

Where nothing limits look-ahead, the broker reads on for the others and puts what it cannot send into replay.
"""

from collections.abc import Sequence
from typing import Final

from dispatch_audit.pipeline.contract.known_bugs import label, remedy, titles
from dispatch_audit.pipeline.plural import entries
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.settings.broker_limits import READ_BATCH_DEFAULT
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import FindingText, JudgedFinding
from dispatch_audit.pipeline.replay.verdicts.missing.left_open import perhaps_other_dispatcher

# So many full reads of one consumer's entries in replay are no accident of one slow moment; a few small reads may be.
_READS_IN_REPLAY: Final = 10


def growths(context: FindingContext) -> list[JudgedFinding]:
    """Each consumer whose entries filled replay while it could be sent nothing, where replay has no limit."""
    found, config = context.found, context.config
    bugs = context.bugs_with("replay_grows")
    if not bugs or config.limits.looks_ahead:
        return []
    least = max(_READS_IN_REPLAY * (config.limits.read_batch or READ_BATCH_DEFAULT), READ_BATCH_DEFAULT)
    longest_us = config.thresholds.stall_threshold_us
    growths = []
    for beginnings in _whole_waits(
        found.reported_waits_of_consumers, found.membership.owners.epochs.began, config.thresholds.report_min_us
    ):
        grown = [
            wait
            for wait in beginnings
            if wait.detail["in_replay"] >= least
            and wait.span.to_ts - wait.span.from_ts >= longest_us
            and not perhaps_other_dispatcher(context, wait.span.to_seq)
        ]
        if grown:
            # A change of members may give what is in replay to others before the wait is over.
            growths.append(_growth(grown[-1], bugs, context))
    return growths


def _whole_waits(waits: Sequence[Blocked], began: Sequence[TracePoint], report_min_us: int) -> list[list[Blocked]]:
    """The waits of consumers; those that a change of members divides are one.

    A part that is too short for a row may lie between two others: then changes of members are on both sides of it.

    Returns:
        For each wait its beginnings, up to the end of each part, with what was in replay then.
    """
    whole: list[list[Blocked]] = []
    changes = frozenset(at.seq for at in began)
    open_at: dict[int, int] = {}
    for wait in sorted(waits, key=lambda wait: (wait.span.from_ts, wait.span.from_seq)):
        at = open_at.get(wait.consumer)
        first = whole[at][-1].span if at is not None else None
        apart_us = wait.span.from_ts - first.to_ts if first is not None else report_min_us
        between = first is not None and {first.to_seq, wait.span.from_seq} <= changes
        if at is not None and first is not None and (apart_us == 0 or (between and apart_us < report_min_us)):
            whole[at].append(wait._replace(span=wait.span._replace(from_seq=first.from_seq, from_ts=first.from_ts)))
        else:
            open_at[wait.consumer] = len(whole)
            whole.append([wait])
    return whole


def _growth(wait: Blocked, bugs: tuple[str, ...], context: FindingContext) -> JudgedFinding:
    interval, names, in_replay = wait.span, context.names, wait.detail["in_replay"]
    seconds = (interval.to_ts - interval.from_ts) / 1e6
    return JudgedFinding(
        severity="known_bug",
        seq=interval.to_seq,
        ts_us=interval.to_ts,
        explanation=FindingText(
            what=(
                f"while {names.spoken(wait.consumer)} could be sent nothing for {seconds:.3f} s ({wait.cause}), the "
                f"broker read on and put {entries(in_replay)} for it into replay, which nothing limits"
            ),
            why=titles(bugs, label),
            remedy=remedy(bugs, context.release),
        ),
        evidence=[
            f"seq {names.seq(interval.from_seq)}: {names.spoken(wait.consumer)} can be sent nothing from here on",
            f"seq {names.seq(interval.to_seq)}: {entries(in_replay)} that were read meanwhile wait in replay for it",
        ],
        ledger_id=wait.roots[0][0] if wait.roots else None,
        entry_id=wait.roots[0][1] if wait.roots else None,
        consumer=names.number(wait.consumer),
        consumer_name=names.name(wait.consumer),
        known_bugs=bugs,
        detail={"in_replay": in_replay, "cause": wait.cause, "seconds": seconds},
    )
