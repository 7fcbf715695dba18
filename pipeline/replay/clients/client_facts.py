"""Findings about clients: entries that nobody acknowledges, or was sent, and how consumers connect and share.

All of them are information. They are read from the state at the end of the rows, so a window reports what is so at its
end.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from dispatch_audit.pipeline.contract.rules import CUMULATIVE_ACK
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.plural import count, entries
from dispatch_audit.pipeline.replay.clients.connections import (
    different_policies,
    reconnect_loops,
    refused_joins,
    uneven_shares,
)
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN
from dispatch_audit.pipeline.replay.state.state import common_of
from dispatch_audit.pipeline.replay.state.values import UNSURE, Mark
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.filtered import filters_in_force
from dispatch_audit.pipeline.replay.verdicts.finding import (
    JudgedFinding,
    RuleFindings,
    of_rule,
    or_none,
    position,
    severities,
)

_SENT_MIN: Final = 3
_TIMES_LONGER: Final = 2
# A consumer that works on a message for less is no matter, however quick it is otherwise.
_HELD_MIN_US: Final = 100_000
_SILENT_US: Final = 5_000_000
# Entries of which rows do not show for certain whether they are acknowledged.
_DOUBTFUL: Final = UNSURE | Mark.VAGUE | Mark.MAYBE_SKIPPED | Mark.PASSED
_SHOWN_MAX: Final = 1_000
# What is said of entries that stay unacknowledged, why, and what to do.
_CUMULATIVELY: Final = (
    "acknowledged only cumulatively",
    "the broker ignores cumulative acknowledgements of Key_Shared consumers and tells nobody: all comes again when the "
    "consumer leaves, and it gets nothing once its receiver queue is full",
    "Acknowledge every message by itself (acknowledge, not acknowledgeCumulative).",
)
_NOTHING: Final = (
    "never acknowledged anything",
    "its application hangs, is slow, or does not acknowledge; it gets nothing once its receiver queue is full, and "
    "keys that move away from it wait for it",
    "See what the application does with the first of them, and that it acknowledges every message.",
)
_IN_PARTS: Final = (
    "a client that is sent the rest of a batch again does not know that the first part is acknowledged, and never "
    "acknowledges the whole (#26125); if the key moves to another consumer it waits until this one reconnects",
    "Reconnect the consumer. Until its client is fixed let it acknowledge or give back batches as a whole "
    "(no enableBatchIndexAcknowledgment).",
)
_SENT_OFTEN: Final = (
    "its consumers give it back, leave without an acknowledgement, or let the ack timeout pass, and the broker sends "
    "it again and again",
    "See in the log of the client why it cannot be processed. A dead letter policy takes such an entry out after "
    "maxRedeliverCount, which counts only while a consumer stays connected; a receiver queue of 0 cannot take a batch.",
)
_LEFT_OUT: Final = (
    "its consumer held it for {:.3f} s by the end and acknowledged entries that it was sent later: it may have "
    "discarded the message (an incomplete chunk, a failed decryption), or still work on it",
    "See in the log of the client what became of it: mark-delete stays in front of it.",
)


def client_findings(context: FindingContext) -> list[RuleFindings]:
    """The findings of the rules about clients that need more than one row."""
    never, opened = _never_acknowledged(context)
    never = [*_kept_batches(context), *never]
    consumers = len(context.stays)
    # Few hashes are sent to consumers unevenly by chance.
    uneven = [*uneven_shares(context)] if context.config.sample.is_all else []
    return [
        RuleFindings("never_acknowledged", opened, severities(never), never[:_SHOWN_MAX]),
        of_rule("never_sent", consumers, [*_never_sent(context)]),
        of_rule("reconnect_loop", consumers, [*reconnect_loops(context)]),
        of_rule("different_policies", consumers, [*different_policies(context)]),
        of_rule("refused_join", consumers + context.found.membership.refused_joins.total, refused_joins(context)),
        of_rule("uneven_share", consumers, uneven),
    ]


def _never_acknowledged(context: FindingContext) -> tuple[list[JudgedFinding], int]:
    """The entries that nobody acknowledged, those that were sent most often first, and the number of open entries."""
    if not context.acks_recorded:
        return [], 0
    seen, now_us = context.found.dispatcher.seen, context.found.membership.released.ts_us
    entries, consumers = seen.entries.view(np.ndarray), seen.consumers.view(np.ndarray)
    of_no_doubt = entries["marks"] & (_DOUBTFUL | Mark.ACKED) == 0
    is_open = entries[(entries["ledger"] != UNKNOWN) & (entries["times_sent"] > 0) & of_no_doubt]
    held = is_open["holder"] != NOBODY
    holder = consumers[is_open["holder"]]
    held_us = now_us - is_open["sent_at"]["ts_us"]
    late = held_us >= np.maximum(_TIMES_LONGER * holder["longest_us"], _HELD_MIN_US)
    left_out = held & late & (holder["acked_sent_seq"] > is_open["sent_at"]["seq"]) & (holder["connected"] == 1)
    found = is_open[(is_open["times_sent"] >= _SENT_MIN) | left_out]
    found = found[np.lexsort((found["entry"], found["ledger"], -found["times_sent"]))]
    silent = _held_by_silent(is_open[held], now_us, context)
    return [*silent, *(_entry(entry, now_us, context) for entry in found)], is_open.size


def _never(
    entry: Any, what: str, because: str, remedy: str, context: FindingContext, *, key_id: int = UNKNOWN, **detail: int
) -> JudgedFinding:
    """The finding about an entry of the state that the consumer to which it was sent last did not acknowledge."""
    consumer, at = int(entry["sent_to"]), (int(entry["ledger"]), int(entry["entry"]))
    return context.fact(
        "never_acknowledged",
        TracePoint(*entry["sent_at"].item()),
        what,
        f"{position(*at)} dispatched to {context.names.spoken(consumer)}",
        because,
        remedy,
        consumer=consumer,
        entry=at,
        key_id=or_none(key_id),
        detail=detail,
    )


def _named(entry: Any, context: FindingContext) -> tuple[str, str]:
    """The position of an entry, and the consumer to which it was sent last, in words."""
    return position(entry["ledger"], entry["entry"]), context.names.spoken(int(entry["sent_to"]))


def _by_holder(held: Any) -> Iterator[tuple[int, Any]]:
    """The consumers that hold some entries, each with its own, the oldest first."""
    for consumer in np.unique(held["holder"]).tolist():
        of_one = held[held["holder"] == consumer]
        yield consumer, of_one[np.lexsort((of_one["entry"], of_one["ledger"]))]


def _held_by_silent(held: Any, now_us: int, context: FindingContext) -> Iterator[JudgedFinding]:
    """A finding for each connected consumer that acknowledged nothing, if it holds an entry for long."""
    counts, found = context.found.dispatcher.counts, context.found.findings
    ignored = set(found.consumer[found.rule == CUMULATIVE_ACK].tolist())
    for consumer, of_one in _by_holder(held):
        number, longest_us = context.numbers[consumer], now_us - int(of_one["sent_at"]["ts_us"].min())
        if counts.get(number, (0, 0))[1] or longest_us < _SILENT_US or context.stays[number].left is not None:
            continue
        never, why, remedy = _CUMULATIVELY if consumer in ignored else _NOTHING
        at, receiver = _named(of_one[0], context)
        held_for = f"for up to {longest_us / 1e6:.3f} s"
        what = f"{receiver} {never}: it holds {entries(of_one.size)}, {at} and later ones, {held_for}"
        yield _never(of_one[0], what, why, remedy, context, held=of_one.size)


def _entry(entry: Any, now_us: int, context: FindingContext) -> JudgedFinding:
    times = int(entry["times_sent"])
    at, receiver = _named(entry, context)
    if times >= _SENT_MIN:
        what = f"entry {at} was sent {times} times, the last time to {receiver}, and never acknowledged"
        why, remedy = _SENT_OFTEN
    else:
        what = (
            f"entry {at} was sent {'once' if times == 1 else f'{times} times'}, to {receiver}, and never acknowledged"
        )
        held_s = (now_us - int(entry["sent_at"]["ts_us"])) / 1e6
        why, remedy = _LEFT_OUT
        why = why.format(held_s)
    return _never(entry, what, why, remedy, context, key_id=int(entry["key_id"]), times_sent=times)


def _kept_batches(context: FindingContext) -> Iterator[JudgedFinding]:
    """A finding for each connected consumer with batches that stay pending: acknowledged in parts, never as a whole.

    A client that is sent the rest of a batch again does not know that the first part is acknowledged (contract 5.3;
    #26125). Only draining hashes wait for such batches.
    """
    if not context.drains:
        return
    seen = context.found.dispatcher.seen
    entries = seen.entries.view(np.ndarray)
    # A whole acknowledgement may also have come before the dispatch.
    kept = (entries["ledger"] != UNKNOWN) & (entries["holder"] != NOBODY) & (entries["words_at"] != UNKNOWN)
    kept &= entries["marks"] & (_DOUBTFUL | Mark.SETTLING | Mark.ACKED) == Mark.ACKED
    kept &= seen.consumers.view(np.ndarray)["connected"][entries["holder"]] == 1
    for _, of_one in _by_holder(entries[kept]):
        at, receiver = _named(of_one[0], context)
        what = (
            f"{receiver} acknowledged all messages of {count(of_one.size, 'batch', 'batches')}, {at} the first, in "
            "parts only, so the broker counts them as pending"
        )
        yield _never(of_one[0], what, *_IN_PARTS, context, held=of_one.size)


def _never_sent(context: FindingContext) -> Iterator[JudgedFinding]:
    """The finding about what mark-delete passed although nobody was sent it, as far as snapshots show it."""
    common = common_of(context.found.dispatcher.seen)
    number = int(common["never_sent"])
    if number == 0 or context.found.membership.one_sided.of_traffic:
        return
    first, key_id = common["never_sent_first"].item(), int(common["never_sent_key"])
    one_key = ", all of one key," if key_id != UNKNOWN and number > 1 else ""
    which = f"was never sent to any consumer, {position(*first)}"
    if number > 1:
        which = f"were never sent to any consumer, {position(*first)} the first of them"
    yield context.fact(
        "never_sent",
        TracePoint(*common["never_sent_since"].item()),
        f"{entries(number)}{one_key} {which}",
        f"{position(*first)} waits from here on",
        filters_in_force(context),
        contrast="although",
        against="the broker counts them as acknowledged: mark-delete passed them, and no consumer acknowledged them",
        key_id=or_none(key_id),
        entry=first,
        detail={"entries": number},
    )
