"""The alibis that the trace as a whole gives to findings: what it does not show, and rows that are missing.

docs/REPLAY.md has them ("Rows that no recorder wrote", "Across a gap"). Of a sample of the hashes there are all rows of
a hash, or none: what counts entries of all hashes is not provable, nor what a bug may explain by other hashes.

The rows that prove a finding are in the trace. But whether an exception or a known bug explains it may depend on rows
some time before, or shortly after: whether its hash drained, what a consumer that left had held, what the same replay
read sent. Such rows may be missing until mark-delete has passed every entry that was open in a gap. If the selector of
the broker is unknown, the same holds for the whole trace, because owners decide which hash drains.
"""

from collections.abc import Callable, Iterator, Sequence
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
    REDELIVERY_COUNT,
    REDELIVERY_ORDER,
    REPLAY_OVERTAKEN,
    SINGLE_HOLDER,
)
from dispatch_audit.pipeline.replay.durations import READ_US
from dispatch_audit.pipeline.replay.rules.findings import Alibi, Mask, everything, resting_on
from dispatch_audit.pipeline.replay.settings.assumed import Assumption, assumptions
from dispatch_audit.pipeline.replay.settings.settings_in_force import DELAYED_DELIVERY, members
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Records
from dispatch_audit.pipeline.replay.state.state import common_of
from dispatch_audit.pipeline.replay.subscription.cold_start import UnseenRows
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.filtered import alibis_of_filters, positions

_NO_LEAVE: Final = (
    "the trace has no row of a leave, and it shows nothing of {} from then on, which may have left before"
)
_ONE_SIDED: Final = (
    "the recorder wrote only one side of dispatches or acknowledgements, so an acknowledgement that was recorded "
    "just after it may have taken effect before it"
)
_TOTAL_VAGUE: Final = (
    "a consumer left with unacknowledged messages, or another one acknowledged them, and some versions count those "
    "twice: the broker's own count may have been below the limit (#24096, #26422)"
)
_NO_SELECTOR: Final = "no snapshot of several consumers shows that the broker has the selector that the trace claims"
_OTHERS_EXPLAIN: Final = "entries of the others may explain it: what the same read sent, or how far the broker had read"
_COUNTS_LOST: Final = (
    "others joined just before the last consumers left: if for a moment nobody was connected, the broker forgot all "
    "redelivery counts (contract 3.6)"
)
_CLOSED_ALL: Final = (
    "the broker closed the last consumer at seq {}, as it does for a seek or an unload, or if the subscription is "
    "deleted and created anew, after which it may send acknowledged entries again (E3) and not those that waited; no "
    "row says why"
)


def alibis_of_trace(context: FindingContext) -> list[Alibi]:
    """The alibis of what findings say; what they cover is not provable."""
    found, sample, owners = context.found, context.config.sample, context.found.membership.owners
    alibis = [_alibi("owner", doubt.because, partial(context.doubts.covers, doubt)) for doubt in context.doubts.all]
    if owners.unknown:
        alibis.append(_alibi("owner", "the selector of the broker is unknown"))
    elif owners.routes_by_selector and not found.loop.reported.confirmed and not sample.is_all:
        # A few misrouted hashes of a sample may be all that there are.
        alibis.append(_alibi("owner", _of_sample(context, _NO_SELECTOR)))
    if found.membership.one_sided.of_traffic:
        alibis.append(_alibi("limit", _ONE_SIDED))
    elif not sample.is_all:
        alibis.append(_alibi("limit", _of_sample(context, "entries of the others count for it too")))
    else:
        alibis += [*found.loop.settings.doubts(), _alibi("limit", _TOTAL_VAGUE, lambda found: found.vague != 0)]
    if context.perhaps_empty_us:
        alibis.append(_alibi("acks", _COUNTS_LOST, partial(_counts_lost, context.perhaps_empty_us[0])))
    return [*alibis, *_unshown(context), *alibis_of_filters(context)]


def _counts_lost(since_us: int, found: Records) -> Mask:
    """Which redelivery counts are too low, after a time."""
    too_low: Mask = (found.rule == REDELIVERY_COUNT) & (found.value < found.expected) & (found.ts_us > since_us)
    return too_low


def _alibi(fact: Fact, because: str, covers: Callable[[Records], Mask] = everything, since_seq: int = UNKNOWN) -> Alibi:
    return Alibi(fact, covers, "not_provable", because, since_seq)


def _unshown(context: FindingContext) -> Iterator[Alibi]:
    """The alibis that hold from a row on: of which kind the dispatcher is, what was acknowledged, and who had left."""
    other_seq = context.found.loop.other_dispatcher_seq
    if other_seq is not None:
        because = f"a row `settings` changed {CLASSIC_SETTING}, so the dispatcher may be of the other kind"
        yield _alibi("dispatcher", because, since_seq=other_seq - 1)
    if not context.acks_recorded:
        yield _alibi(
            "acks", "the trace has no row of an acknowledgement, so it does not show what consumers still held"
        )
    if not context.leaves_recorded:
        last_named = context.found.dispatcher.seen.consumers.view(np.ndarray)["named_seq"].tolist()
        for index, number in enumerate(context.numbers):
            joined = context.joined(index) if number in context.stays else None
            if joined is not None:
                because = _NO_LEAVE.format(context.names.spoken(index))
                yield _alibi("leaves", because, since_seq=max(joined.seq, last_named[index]))


def doubt_of(context: FindingContext, seq: int, *facts: Fact) -> str:
    """Why a fact may not hold at a row, as a clause; empty: it does. Asked are `dispatcher`, `acks` and `leaves`."""
    return next((of.because for of in _unshown(context) if of.fact in facts and of.since_seq < seq), "")


def doubt_of_waits(context: FindingContext, seq: int) -> str:
    """Why no consumer may have been able to take the entries that waited up to a row, as a clause; empty: one could."""
    doubt = doubt_of(context, seq, "dispatcher", "acks", "leaves") or context.found.clock.doubt(seq)
    if doubt or context.config.sample.is_all:
        return doubt
    return _of_sample(context, "entries of the others may have been sent meanwhile, or been in the way")


def unrecorded(context: FindingContext) -> list[Missing]:
    """The kinds of rows that the trace lacks and on which its findings depend."""
    findings = context.found.findings
    rows_of: dict[Fact, Missing] = {"acks": "acknowledgements", "leaves": "leaves"}
    missing = {
        rows_of[alibi.fact]: None
        for alibi in _unshown(context)
        if alibi.fact in rows_of
        and (np.isin(findings.rule, resting_on(alibi.fact)) & (findings.seq > alibi.since_seq)).any()
    }
    return [*missing]


def _of_sample(context: FindingContext, because: str) -> str:
    return f"rows of {context.config.sample.share} of the hashes are judged, and {because}"


def assumed(names: Sequence[str], context: FindingContext) -> tuple[Assumption, ...]:
    """The values that are assumed for settings, in the order of their names here."""
    return assumptions(names, context.config.settings_in_force(), context.release)


def of_waits(context: FindingContext) -> tuple[str, ...]:
    """The settings on which every wait rests: trace.json alone says that delays, which entries ask for, are off."""
    return (DELAYED_DELIVERY,) if common_of(context.found.dispatcher.seen)["delays_in_doubt"] else ()


def unknown(names: Sequence[str], context: FindingContext) -> str:
    """Why nothing may be assumed of one of the settings, as a clause; empty: of each its value may be.

    The broker may have contradicted it later than the finding.
    """
    claimed = {name for name, found in context.found.loop.settings.found.items() if not found.claim.said_by_row}
    name = next((one for name in names for one in members(name) if one in claimed), None)
    return "" if name is None else f"the broker does not have the {name} that is taken for it (settings_mismatch)"


def is_not_known(names: Sequence[str]) -> str:
    """Why a finding is not provable that rests on settings of which rows leave nothing to assume; empty: on none."""
    said = " and ".join(members(name)[0] for name in names)
    return said and f"nothing is known of {said}: rows that say it may be missing, or the broker does not keep it"


def alibis_of_the_past(context: FindingContext) -> list[Alibi]:
    """The alibis of violations that missing rows may explain."""
    depends = partial(_depends_on_the_past, context)
    alibis, clock = [], context.found.clock
    if clock.back_from_seq is not None:
        because = clock.doubt(clock.back_from_seq)
        alibis.append(_alibi("unexplained", because, since_seq=clock.back_from_seq - 1))
    for number, rejoin in enumerate(context.rejoins):
        if rejoin.by_broker:
            because = _CLOSED_ALL.format(context.names.seq(rejoin.left.seq))
            alibis.append(_alibi("unexplained", because, partial(_of_former_cursor, number, context)))
    if context.found.membership.owners.unknown:
        alibis.append(_alibi("unexplained", context.doubts.all[-1].because, depends))
    if not context.config.sample.is_all:
        alibis.append(_alibi("unexplained", _of_sample(context, _OTHERS_EXPLAIN), depends))
    for gap in context.found.loop.cold_start.unseen:
        because = "the trace begins later than the subscription, and rows before it may explain it"
        if gap.begin.seq >= 0:
            begin, end = map(context.names.seq, (gap.begin.seq, gap.until_seq))
            because = f"rows between seq {begin} and seq {end} are missing, and they may explain it"
        alibis.append(_alibi("unexplained", because, partial(_near, gap, context)))
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
    rules = [EARLY_DUPLICATE] if context.bugs_with("sent_by_two_replay_reads") else []
    if not context.drains:
        rules += [SINGLE_HOLDER, *OVERTAKING, FIRST_DELIVERY_ORDER]
    elif context.bugs_with("unblocked_amid_a_read"):
        rules += [REPLAY_OVERTAKEN, FIRST_DELIVERY_ORDER]
    depends: Mask = np.isin(found.rule, rules)
    if "E7" in context.exceptions:
        depends |= (found.rule == REDELIVERY_ORDER) & (found.ts_us - found.other_since_ts <= READ_US)
    return depends
