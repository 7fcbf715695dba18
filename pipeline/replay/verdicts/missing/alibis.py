"""The alibis that the trace as a whole gives to findings: what it does not show, and rows that are missing.

docs/REPLAY.md has them ("Rows that no recorder wrote", "Across a gap"). Of a sample of the hashes there are all rows of
a hash, or none: what counts entries of all hashes is not provable, nor what a bug may explain by other hashes.

The rows that prove a finding are in the trace. But whether an exception or a known bug explains it may depend on rows
some time before, or shortly after: whether its hash drained, what a consumer that left had held, what the same replay
read sent. Such rows may be missing until mark-delete has passed every entry that was open in a gap. If the selector of
the broker is unknown, the same holds for the whole trace, because owners decide which hash drains.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import numpy as np

from dispatch_audit.pipeline.contract.answers import Missing
from dispatch_audit.pipeline.contract.profile import CLASSIC_SETTING
from dispatch_audit.pipeline.contract.rule import Fact
from dispatch_audit.pipeline.contract.rules import (
    EARLY_DUPLICATE,
    FIRST_DELIVERY_ORDER,
    OVERTAKING,
    REDELIVERY_ORDER,
    REPLAY_OVERTAKEN,
    SINGLE_HOLDER,
)
from dispatch_audit.pipeline.replay.durations import READ_US
from dispatch_audit.pipeline.replay.rules.findings import Alibi, Mask, everything, resting_on
from dispatch_audit.pipeline.replay.state.records import Records
from dispatch_audit.pipeline.replay.subscription.cold_start import UnseenRows
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.missing.filtered import alibis_of_filters, positions

_ROWS_OF: Final[Mapping[Fact, tuple[Missing, ...]]] = {"acks": ("acknowledgements",), "leaves": ("leaves",)}
_NO_ACKNOWLEDGEMENT: Final = "the trace has no row of an acknowledgement, so it does not show what consumers still held"
_NO_LEAVE: Final = (
    "the trace has no row of a leave, and it shows nothing of {} from then on, which may have left before"
)
_OTHER_DISPATCHER: Final = f"a row `settings` changed {CLASSIC_SETTING}, so the dispatcher may be of the other kind"
_OWNER_UNKNOWN: Final = "the selector of the broker is unknown"
_ONE_SIDED: Final = (
    "the recorder wrote only one side of dispatches or acknowledgements, so an acknowledgement that was recorded "
    "just after it may have taken effect before it"
)
_TOTAL_VAGUE: Final = (
    "a consumer left with unacknowledged messages, or another one acknowledged them, and some versions count those "
    "twice: the broker's own count may have been below the limit (#24096, #26422)"
)
_SAMPLED: Final = "rows of {} of the hashes are judged, and {}"
_NO_SELECTOR: Final = "no snapshot of several consumers shows that the broker has the selector that the trace claims"
_OTHERS_COUNT: Final = "entries of the others count for it too"
_OTHERS_EXPLAIN: Final = "entries of the others may explain it: what the same read sent, or how far the broker had read"
_OTHERS_WAIT: Final = "entries of the others may have been sent meanwhile, or been in the way"
_CLOSED_ALL: Final = (
    "the broker closed the last consumer at seq {}, as it does for a seek or an unload, or if the subscription is "
    "deleted and created anew, after which it may send acknowledged entries again (E3) and not those that waited; no "
    "row says why"
)
_BEGINS_LATER: Final = "the trace begins later than the subscription, and rows before it may explain it"


def alibis_of_trace(context: FindingContext) -> list[Alibi]:
    """The alibis of what findings say; what they cover is not provable."""
    found = context.found
    alibis = [
        Alibi("owner", partial(context.doubts.covers, doubt), "not_provable", doubt.because)
        for doubt in context.doubts.all
    ]
    if found.membership.owners.unknown:
        alibis.append(Alibi("owner", everything, "not_provable", _OWNER_UNKNOWN))
    # A few misrouted hashes of a sample may be all that there are.
    shown = context.config.sample.is_all or found.loop.reported.confirmed
    if not (shown or found.membership.owners.unknown) and found.membership.owners.routes_by_selector:
        alibis.append(Alibi("owner", everything, "not_provable", _of_sample(context, _NO_SELECTOR)))
    return [*alibis, *_of_limits(context), *_unshown(context), *alibis_of_filters(context)]


def _unshown(context: FindingContext) -> Iterator[Alibi]:
    """The alibis that hold from a row on: of which kind the dispatcher is, what was acknowledged, and who had left."""
    other_seq = context.found.loop.other_dispatcher_seq
    if other_seq is not None:
        yield Alibi("dispatcher", everything, "not_provable", _OTHER_DISPATCHER, other_seq - 1)
    if not context.acks_recorded:
        yield Alibi("acks", everything, "not_provable", _NO_ACKNOWLEDGEMENT)
    if not context.leaves_recorded:
        last_named = context.found.dispatcher.seen.consumers.view(np.ndarray)["named_seq"].tolist()
        for index, number in enumerate(context.numbers):
            joined = context.joined(index) if number in context.stays else None
            if joined is not None:
                because = _NO_LEAVE.format(context.names.spoken(index))
                yield Alibi("leaves", everything, "not_provable", because, max(joined.seq, last_named[index]))


def doubt_of(context: FindingContext, seq: int, *facts: Fact) -> str:
    """Why one of these facts may not hold at a row, as a clause; empty: the trace shows them.

    They are `dispatcher`, `acks` and `leaves`.
    """
    return next((of.because for of in _unshown(context) if of.fact in facts and of.since_seq < seq), "")


def doubt_of_waits(context: FindingContext, seq: int) -> str:
    """Why no consumer may have been able to take the entries that waited up to a row, as a clause; empty: one could."""
    sampled = "" if context.config.sample.is_all else _of_sample(context, _OTHERS_WAIT)
    return (
        doubt_of(context, seq, "dispatcher", "acks")
        or context.found.clock.doubt(seq)
        or doubt_of(context, seq, "leaves")
        or sampled
    )


def unrecorded(context: FindingContext) -> list[Missing]:
    """The kinds of rows that the trace lacks and on which its findings depend."""
    findings, missing = context.found.findings, dict[Missing, None]()
    for alibi in _unshown(context):
        if (np.isin(findings.rule, resting_on(alibi.fact)) & (findings.seq > alibi.since_seq)).any():
            missing |= dict.fromkeys(_ROWS_OF.get(alibi.fact, ()))
    return [*missing]


def _of_sample(context: FindingContext, because: str) -> str:
    """Why the rows of a sample prove less, as a clause."""
    return _SAMPLED.format(context.config.sample.share, because)


def _of_limits(context: FindingContext) -> list[Alibi]:
    if context.found.membership.one_sided.of_traffic:
        return [Alibi("limit", everything, "not_provable", _ONE_SIDED)]
    if not context.config.sample.is_all:
        return [Alibi("limit", everything, "not_provable", _of_sample(context, _OTHERS_COUNT))]
    vague = Alibi("limit", lambda found: found.vague != 0, "not_provable", _TOTAL_VAGUE)
    return [*context.found.loop.limits.doubts(), vague]


def alibis_of_the_past(context: FindingContext) -> list[Alibi]:
    """The alibis of violations that missing rows may explain."""
    depends = partial(_depends_on_the_past, context)
    alibis, clock = [], context.found.clock
    if clock.back_from_seq is not None:
        because = clock.doubt(clock.back_from_seq)
        alibis.append(Alibi("unexplained", everything, "not_provable", because, clock.back_from_seq - 1))
    for number, rejoin in enumerate(context.rejoins):
        if rejoin.by_broker:
            because = _CLOSED_ALL.format(context.names.seq(rejoin.left.seq))
            covers = partial(_of_former_cursor, number, context)
            alibis.append(Alibi("unexplained", covers, "not_provable", because))
    if context.found.membership.owners.unknown:
        alibis.append(Alibi("unexplained", depends, "not_provable", context.doubts.all[-1].because))
    if not context.config.sample.is_all:
        alibis.append(Alibi("unexplained", depends, "not_provable", _of_sample(context, _OTHERS_EXPLAIN)))
    for gap in context.found.loop.missing.unseen:
        because = _BEGINS_LATER
        if gap.begin.seq >= 0:
            begin, end = map(context.names.seq, (gap.begin.seq, gap.until_seq))
            because = f"rows between seq {begin} and seq {end} are missing, and they may explain it"
        alibis.append(Alibi("unexplained", partial(_near, gap, context), "not_provable", because))
    return alibis


def _of_former_cursor(number: int, context: FindingContext, found: Records) -> Mask:
    """Whether each finding rests on what was sent, or waited, before the broker closed all consumers for a rejoin.

    After a seek acknowledged entries are sent again, after an unload those whose acknowledgement was not stored
    (contract 5.10, E3). What waited is never sent again where the subscription is deleted and created anew
    (`unsubscribe`), or its cursor moved on.
    """
    rejoins, since_seq = context.rejoins, context.rejoins[number].joined.seq
    last = np.searchsorted([rejoin.joined.seq for rejoin in rejoins], found.seq) == number + 1
    covered: Mask = last & (found.rule == EARLY_DUPLICATE) & (found.other_seq < rejoins[number].left.seq)
    covered &= "reset" not in context.config.written
    waited = np.flatnonzero(last & np.isin(found.rule, OVERTAKING) & (found.other_since_seq < since_seq))
    if waited.size:
        entries = context.found.dispatcher.seen.entries.view(np.ndarray)
        sent = entries[entries["sent_at"]["seq"] > since_seq]
        sent_since = set(positions(sent["ledger"], sent["entry"]))
        others = positions(found.other_ledger[waited], found.other_entry[waited])
        covered[waited] = [other not in sent_since for other in others]
    return covered


def _near(gap: UnseenRows, context: FindingContext, found: Records) -> Mask:
    """Whether rows of a gap may explain each violation."""
    # Another thread may have recorded the explaining row just after the gap began.
    ahead_us = np.where(found.rule == EARLY_DUPLICATE, READ_US, context.skew_us)
    before: Mask = (found.seq <= gap.begin.seq) & (found.ts_us >= gap.begin.ts_us - ahead_us)
    after: Mask = found.seq > gap.begin.seq
    if gap.settled is not None:
        after &= found.ts_us <= gap.settled.ts_us + READ_US
    depends = _depends_on_the_past(context, found)
    # The verdict on a first delivery is that on the dispatch that passed it.
    passing = found.seq[np.isin(found.rule, OVERTAKING) & (before | (after & depends))]
    depends |= (found.rule == FIRST_DELIVERY_ORDER) & np.isin(found.other_seq, passing)
    return before | (after & depends)


def _depends_on_the_past(context: FindingContext, found: Records) -> Mask:
    """Whether an exception or a bug of this broker may explain each finding through earlier rows."""
    depends: Mask = (found.rule == EARLY_DUPLICATE) & bool(context.bugs_with("sent_by_two_replay_reads"))
    if not context.drains:
        depends |= np.isin(found.rule, (SINGLE_HOLDER, *OVERTAKING, FIRST_DELIVERY_ORDER))
        return depends
    flawed = np.isin(found.rule, (REPLAY_OVERTAKEN, FIRST_DELIVERY_ORDER))
    flawed &= bool(context.bugs_with("unblocked_amid_a_read"))
    in_flight = (found.rule == REDELIVERY_ORDER) & (found.ts_us - found.other_since_ts <= READ_US)
    in_flight &= "E7" in context.exceptions
    depends |= flawed | in_flight
    return depends
