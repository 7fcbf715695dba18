"""Findings about clients: entries that nobody acknowledges, or was sent, and how consumers connect and share.

All of them are information. They are read from the state at the end of the rows, so a window reports what is so at its
end.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from dispatch_audit.pipeline.contract.rules import CUMULATIVE_ACK
from dispatch_audit.pipeline.plural import count, entries
from dispatch_audit.pipeline.replay.clients.connections import (
    different_policies,
    reconnect_loops,
    refused_joins,
    uneven_shares,
)
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN
from dispatch_audit.pipeline.replay.state.state import common_of
from dispatch_audit.pipeline.replay.state.values import UNSURE, Mark
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import (
    JudgedFinding,
    RuleFindings,
    of_rule,
    severities,
)
from dispatch_audit.pipeline.replay.verdicts.missing.filtered import filters_in_force
from dispatch_audit.pipeline.replay.verdicts.naming import position

_SENT_MIN: Final = 3
_TIMES_LONGER: Final = 2
# A consumer that works on a message for less is no matter, however quick it is otherwise.
_HELD_MIN_US: Final = 100_000
_SILENT_US: Final = 5_000_000
# Entries of which rows do not show for certain whether they are acknowledged.
_DOUBTFUL: Final = UNSURE | Mark.VAGUE | Mark.MAYBE_SKIPPED | Mark.PASSED
_SHOWN_MAX: Final = 1_000
_IGNORED: Final = (
    "the broker ignores cumulative acknowledgements of Key_Shared consumers and tells nobody: all comes again when the "
    "consumer leaves, and it gets nothing once its receiver queue is full"
)
_IN_PARTS: Final = (
    "a client that is sent the rest of a batch again does not know that the first part is acknowledged, and never "
    "acknowledges the whole (#26125); if the key moves to another consumer it waits until this one reconnects"
)
_HANGS: Final = (
    "its application hangs, is slow, or does not acknowledge; it gets nothing once its receiver queue is full, and "
    "keys that move away from it wait for it"
)


def client_findings(context: FindingContext) -> list[RuleFindings]:
    """The findings of the rules about clients that need more than one row."""
    never, opened = _never_acknowledged(context)
    never = [*kept_batches(context), *never]
    consumers = len(context.stays)
    # Few hashes are sent to consumers unevenly by chance.
    uneven = [*uneven_shares(context)] if context.config.sample.is_all else []
    return [
        RuleFindings("never_acknowledged", opened, severities(never), never[:_SHOWN_MAX]),
        of_rule("never_sent", consumers, never_sent(context)),
        of_rule("reconnect_loop", consumers, [*reconnect_loops(context)]),
        of_rule("different_policies", consumers, [*different_policies(context)]),
        of_rule("refused_join", consumers + context.found.membership.refused_joins.total, refused_joins(context)),
        of_rule("uneven_share", consumers, uneven),
    ]


def _never_acknowledged(context: FindingContext) -> tuple[list[JudgedFinding], int]:
    """The entries that nobody acknowledged, those that were sent most often first, and the number of open entries."""
    if not context.acks_recorded:
        return [], 0
    seen = context.found.dispatcher.seen
    entries: Any = seen.entries.view(np.ndarray)
    consumers: Any = seen.consumers.view(np.ndarray)
    marks, holder = entries["marks"], entries["holder"]
    of_no_doubt = marks & (_DOUBTFUL | Mark.ACKED) == 0
    is_open = (entries["ledger"] != UNKNOWN) & (entries["times_sent"] > 0) & of_no_doubt
    now_us = context.found.membership.released.ts_us
    left_out = is_open & (holder != NOBODY)
    at = np.flatnonzero(left_out)
    by = holder[at]
    held_us = now_us - entries["sent_at"]["ts_us"][at]
    late = (held_us >= np.maximum(_TIMES_LONGER * consumers["longest_us"][by], _HELD_MIN_US)) & (
        consumers["acked_sent_seq"][by] > entries["sent_at"]["seq"][at]
    )
    left_out[at] = late & (consumers["connected"][by] == 1)
    found = np.flatnonzero((is_open & (entries["times_sent"] >= _SENT_MIN)) | left_out)
    found = found[np.lexsort((entries["entry"][found], entries["ledger"][found], -entries["times_sent"][found]))]
    never = [_silent(entries, held.tolist(), now_us, context) for held in _held_by_silent(entries, at, now_us, context)]
    return [*never, *(_entry(entries[slot], now_us, context) for slot in found.tolist())], int(is_open.sum())


def _held_by_silent(entries: Any, held: Any, now_us: int, context: FindingContext) -> Iterator[Any]:
    """The entries of each connected consumer that acknowledged nothing, the oldest first, if it holds one for long."""
    counts, stays = context.found.dispatcher.counts, context.stays
    for consumer in np.unique(entries["holder"][held]).tolist():
        number = context.numbers[consumer]
        of_one = held[entries["holder"][held] == consumer]
        longest_us = now_us - int(entries["sent_at"]["ts_us"][of_one].min())
        if counts.get(number, (0, 0))[1] == 0 and longest_us >= _SILENT_US and stays[number].left is None:
            yield of_one[np.lexsort((entries["entry"][of_one], entries["ledger"][of_one]))]


def _silent(entries: Any, held: list[int], now_us: int, context: FindingContext) -> JudgedFinding:
    first = entries[held[0]]
    names, ledger, number = context.names, int(first["ledger"]), int(first["entry"])
    receiver, at = names.spoken(int(first["holder"])), position(ledger, number)
    longest_s = (now_us - int(entries["sent_at"]["ts_us"][held].min())) / 1e6
    of_ignored = context.found.findings[context.found.findings.rule == CUMULATIVE_ACK]
    ignored = bool((of_ignored.consumer == int(first["holder"])).any())
    never = "acknowledged only cumulatively" if ignored else "never acknowledged anything"
    return context.fact(
        "never_acknowledged",
        TracePoint(*first["sent_at"].item()),
        f"{receiver} {never}: it holds {count(len(held), 'entry', 'entries')}, {at} and later "
        f"ones, for up to {longest_s:.3f} s",
        [f"seq {names.seq(int(first['sent_at']['seq']))}: {at} dispatched to {receiver}"],
        because=_IGNORED if ignored else _HANGS,
        remedy=(
            "Acknowledge every message by itself (acknowledge, not acknowledgeCumulative)."
            if ignored
            else "See what the application does with the first of them, and that it acknowledges every message."
        ),
        consumer=int(first["holder"]),
        ledger_id=ledger,
        entry_id=number,
        detail={"held": len(held)},
    )


def _entry(entry: Any, now_us: int, context: FindingContext) -> JudgedFinding:
    names, times, sent_to = context.names, int(entry["times_sent"]), int(entry["sent_to"])
    ledger, number, seq = int(entry["ledger"]), int(entry["entry"]), int(entry["sent_at"]["seq"])
    at, receiver = position(ledger, number), names.spoken(sent_to)
    if times >= _SENT_MIN:
        what = f"entry {at} was sent {times} times, the last time to {receiver}, and never acknowledged"
        why = (
            "its consumers give it back, leave without an acknowledgement, or let the ack timeout pass, and the broker "
            "sends it again and again"
        )
        remedy = (
            "See in the log of the client why it cannot be processed. A dead letter policy takes such an entry out "
            "after maxRedeliverCount, which counts only while a consumer stays connected; a receiver queue of 0 cannot "
            "take a batch."
        )
    else:
        held_s = (now_us - int(entry["sent_at"]["ts_us"])) / 1e6
        what = (
            f"entry {at} was sent {'once' if times == 1 else f'{times} times'}, to {receiver}, and never acknowledged"
        )
        why = (
            f"its consumer held it for {held_s:.3f} s by the end and acknowledged entries that it was sent later: it "
            "may have discarded the message (an incomplete chunk, a failed decryption), or still work on it"
        )
        remedy = "See in the log of the client what became of it: mark-delete stays in front of it."
    return context.fact(
        "never_acknowledged",
        TracePoint(seq, int(entry["sent_at"]["ts_us"])),
        what,
        [f"seq {names.seq(seq)}: {at} dispatched to {receiver}"],
        because=why,
        remedy=remedy,
        consumer=sent_to,
        key_id=int(entry["key_id"]) if int(entry["key_id"]) != UNKNOWN else None,
        ledger_id=ledger,
        entry_id=number,
        detail={"times_sent": times},
    )


def kept_batches(context: FindingContext) -> list[JudgedFinding]:
    """A finding for each connected consumer with batches that stay pending: acknowledged in parts, never as a whole.

    A client that is sent the rest of a batch again does not know that the first part is acknowledged (contract 5.3;
    #26125). Only draining hashes wait for such batches.
    """
    if not context.drains:
        return []
    seen = context.found.dispatcher.seen
    entries: Any = seen.entries.view(np.ndarray)
    holder, marks = entries["holder"], entries["marks"]
    kept = (
        (entries["ledger"] != UNKNOWN)
        & (holder != NOBODY)
        & (marks & (_DOUBTFUL | Mark.SETTLING | Mark.ACKED) == Mark.ACKED)
    )
    # A whole acknowledgement may also have come before the dispatch.
    kept &= entries["words_at"] != UNKNOWN
    kept[kept] &= seen.consumers.view(np.ndarray)["connected"][holder[kept]] == 1
    return [
        _kept_batch(entries[np.flatnonzero(kept & (holder == consumer))], context)
        for consumer in np.unique(holder[kept]).tolist()
    ]


def _kept_batch(kept: Any, context: FindingContext) -> JudgedFinding:
    first = kept[np.lexsort((kept["entry"], kept["ledger"]))[0]]
    ledger, entry, consumer = int(first["ledger"]), int(first["entry"]), int(first["holder"])
    sent = TracePoint(*first["sent_at"].item())
    names, at = context.names, position(ledger, entry)
    return context.fact(
        "never_acknowledged",
        sent,
        f"{names.spoken(consumer)} acknowledged all messages of {count(kept.size, 'batch', 'batches')}, {at} the "
        "first, in parts only, so the broker counts them as pending",
        [f"seq {names.seq(sent.seq)}: {at} dispatched to {names.spoken(consumer)}"],
        because=_IN_PARTS,
        remedy=(
            "Reconnect the consumer. Until its client is fixed let it acknowledge or give back batches as a whole "
            "(no enableBatchIndexAcknowledgment)."
        ),
        consumer=consumer,
        ledger_id=ledger,
        entry_id=entry,
        detail={"held": int(kept.size)},
    )


def never_sent(context: FindingContext) -> list[JudgedFinding]:
    """The finding about what mark-delete passed although nobody was sent it, as far as snapshots show it."""
    common = common_of(context.found.dispatcher.seen)
    number = int(common["never_sent"])
    if number == 0 or context.found.membership.one_sided.of_traffic:
        return []
    (ledger, entry), key_id = common["never_sent_first"].item(), int(common["never_sent_key"])
    at, since = position(ledger, entry), TracePoint(*common["never_sent_since"].item())
    one_key = ", all of one key," if key_id != UNKNOWN and number > 1 else ""
    finding = context.fact(
        "never_sent",
        since,
        f"{entries(number)}{one_key} {'was' if number == 1 else 'were'} never sent to any consumer, {at}"
        f"{'' if number == 1 else ' the first of them'}",
        [f"seq {context.names.seq(since.seq)}: {at} waits from here on"],
        contrast="although",
        against="the broker counts them as acknowledged: mark-delete passed them, and no consumer acknowledged them",
        because=filters_in_force(context),
        key_id=key_id if key_id != UNKNOWN else None,
        ledger_id=ledger,
        entry_id=entry,
        detail={"entries": number},
    )
    return [finding]
