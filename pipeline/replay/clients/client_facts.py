"""Findings about clients: entries that nobody acknowledges, consumers that reconnect for ever or are not let in.

All of them are information. They are read from the state at the end of the rows, so a window reports what is so at its
end.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from dispatch_audit.pipeline.contract.rules import CUMULATIVE_ACK
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.replay.clients.kept_batches import kept_batches
from dispatch_audit.pipeline.replay.clients.never_sent import never_sent
from dispatch_audit.pipeline.replay.clients.refused import ONE_POLICY, Policy, policy_of, refused_joins, spoken
from dispatch_audit.pipeline.replay.clients.uneven_share import uneven_shares
from dispatch_audit.pipeline.replay.membership.stays import Stay
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.state.marks import UNSURE, Mark
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import FindingVerdict, JudgedFinding, RuleFindings
from dispatch_audit.pipeline.replay.verdicts.naming import position

_SENT_MIN: Final = 3
_TIMES_LONGER: Final = 2
# A consumer that works on a message for less is no matter, however quick it is otherwise.
_HELD_MIN_US: Final = 100_000
_LEAVES_MIN: Final = 5
_SHORT_US: Final = 5_000_000
_SHOWN_MAX: Final = 1_000
_BY_CLIENT: Final = ("close_consumer", "connection_closed", "")
# Why consumers leave soon after each join, and what to do.
_CLOSES: Final = (
    "each of them takes entries, gives them back and moves hashes, and redelivery counts begin anew when the last "
    "consumer leaves",
    "See in the log of the client why it closes or fails; let it live, and pause or slow down instead.",
)
_CLOSED: Final = (
    "the topic is unloaded or moves to another broker again and again, or somebody seeks: each time all that is not "
    "acknowledged is sent anew",
    "See in the log of the broker why it unloads the topic: the load balancer moves bundles "
    "(loadBalancerSheddingEnabled), or a script does.",
)
_IGNORED: Final = FindingVerdict(
    "info",
    because=(
        "the broker ignores cumulative acknowledgements of Key_Shared consumers and tells nobody: all comes again when "
        "the consumer leaves, and it gets nothing once its receiver queue is full"
    ),
)
_HANGS: Final = FindingVerdict(
    "info",
    because=(
        "its application hangs, is slow, or does not acknowledge; it gets nothing once its receiver queue is full, and "
        "keys that move away from it wait for it"
    ),
)


def client_findings(context: FindingContext) -> list[RuleFindings]:
    """The findings of the rules about clients that need more than one row."""
    never, opened = _never_acknowledged(context)
    never = [*kept_batches(context), *never]
    stays = list(context.stays.values())
    unsent = never_sent(context)
    loops, policies = list(_loops(stays, context)), list(_policies(stays, context))
    # Few hashes are sent to consumers unevenly by chance.
    uneven = list(_uneven(context)) if context.config.sample.is_all else []
    refused = refused_joins(context)
    return [
        RuleFindings("never_acknowledged", opened, {"info": len(never)}, never[:_SHOWN_MAX]),
        RuleFindings("never_sent", len(stays), {"info": len(unsent)}, unsent),
        RuleFindings("reconnect_loop", len(stays), {"info": len(loops)}, loops),
        RuleFindings("different_policies", len(stays), {"info": len(policies)}, policies),
        RuleFindings(
            "refused_join", len(stays) + context.found.membership.refused_joins.total, {"info": len(refused)}, refused
        ),
        RuleFindings("uneven_share", len(stays), {"info": len(uneven)}, uneven),
    ]


def _never_acknowledged(context: FindingContext) -> tuple[list[JudgedFinding], int]:
    """The entries that nobody acknowledged, those that were sent most often first, and the number of open entries."""
    if not context.acks_recorded:
        return [], 0
    seen = context.found.dispatcher.seen
    entries: Any = seen.entries.view(np.ndarray)
    consumers: Any = seen.consumers.view(np.ndarray)
    marks, holder = entries["marks"], entries["holder"]
    of_no_doubt = marks & (Mark.ACKED | UNSURE | Mark.VAGUE | Mark.MAYBE_SKIPPED | Mark.PASSED) == 0
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
        if counts.get(number, (0, 0))[1] == 0 and longest_us >= _SHORT_US and stays[number].left is None:
            yield of_one[np.lexsort((entries["entry"][of_one], entries["ledger"][of_one]))]


def _silent(entries: Any, held: list[int], now_us: int, context: FindingContext) -> JudgedFinding:
    first = entries[held[0]]
    names, ledger, number = context.names, int(first["ledger"]), int(first["entry"])
    receiver, at = names.spoken(int(first["holder"])), position(ledger, number)
    longest_s = (now_us - int(entries["sent_at"]["ts_us"][held].min())) / 1e6
    of_ignored = context.found.findings[context.found.findings.rule == CUMULATIVE_ACK]
    ignored = bool((of_ignored.consumer == int(first["holder"])).any())
    never = "acknowledged only cumulatively" if ignored else "never acknowledged anything"
    return context.finding(
        TracePoint(*first["sent_at"].item()),
        f"{receiver} {never}: it holds {count(len(held), 'entry', 'entries')}, {at} and later "
        f"ones, for up to {longest_s:.3f} s",
        _IGNORED if ignored else _HANGS,
        [f"seq {names.seq(int(first['sent_at']['seq']))}: {at} dispatched to {receiver}"],
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
        what = f"entry {at} was sent once, to {receiver}, and never acknowledged"
        why = (
            f"its consumer held it for {held_s:.3f} s by the end and acknowledged entries that it was sent later: it "
            "may have discarded the message (an incomplete chunk, a failed decryption), or still work on it"
        )
        remedy = "See in the log of the client what became of it: mark-delete stays in front of it."
        if times > 1:
            what = what.replace("once", f"{times} times")
    return context.finding(
        TracePoint(seq, int(entry["sent_at"]["ts_us"])),
        what,
        FindingVerdict("info", because=why),
        [f"seq {names.seq(seq)}: {at} dispatched to {receiver}"],
        remedy=remedy,
        consumer=sent_to,
        key_id=int(entry["key_id"]) if int(entry["key_id"]) != UNKNOWN else None,
        ledger_id=ledger,
        entry_id=number,
        detail={"times_sent": times},
    )


def _loops(stays: list[Stay], context: FindingContext) -> Iterator[JudgedFinding]:
    """Consumers of one name that leave soon after each join."""
    by_name: defaultdict[str, list[tuple[int, Stay]]] = defaultdict(list)
    for stay in stays:
        if stay.joined is not None and stay.left is not None:
            by_name[stay.row.name].append((stay.left.ts_us - stay.joined.ts_us, stay))
    for name, of_name in by_name.items():
        short = [held for held, _ in of_name if held <= _SHORT_US]
        if len(of_name) < _LEAVES_MIN or 2 * len(short) < len(of_name):
            continue
        last = max((stay for _, stay in of_name), key=lambda stay: stay.row.seq)
        median_s = sorted(short)[len(short) // 2] / 1e6
        assert last.left is not None
        closed = sum(stay.leave_reason not in _BY_CLIENT for _, stay in of_name)
        what = f"consumers named {name} left {count(len(of_name), 'time')}"
        yield _of_consumer(
            last,
            f"{what}{f' (the broker closed {closed:,} of them)' if closed else ''}, {len(short)} of them within "
            f"{_SHORT_US // 1_000_000} s of their join ({median_s:.3f} s in the median)",
            *(_CLOSED if 2 * closed > len(of_name) else _CLOSES),
            context,
        )


def _policies(stays: list[Stay], context: FindingContext) -> Iterator[JudgedFinding]:
    """Consumers that ask for another policy than those that are connected; the first one after all may ask for any."""
    asked: dict[Policy, list[Stay]] = {}
    connected: list[Stay] = []
    joins = (stay for stay in stays if not stay.unseen and stay.row.kind == "join")
    for stay in sorted(joins, key=lambda stay: stay.row.seq):
        connected = [one for one in connected if one.left is None or one.left.seq > stay.row.seq]
        others = [one for one in connected if policy_of(one.row) != policy_of(stay.row)]
        for one in (*others, *([stay] if others else [])):
            of_policy = asked.setdefault(policy_of(one.row), [])
            of_policy += [one] if one not in of_policy else []
        connected.append(stay)
    if not asked:
        return
    told = [
        f"{', '.join(dict.fromkeys(of.row.name for of in some[:4]))} ({spoken(policy)})"
        for policy, some in asked.items()
    ]
    other = list(asked.values())[1][0]
    yield _of_consumer(
        other,
        f"consumers ask for different policies in one subscription: {' and '.join(told)}",
        "brokers before 4.0.1 close the connected consumers when one with another policy joins, so both groups throw "
        "each other out in turns; later ones refuse the join (#23272)",
        ONE_POLICY,
        context,
    )


def _uneven(context: FindingContext) -> Iterator[JudgedFinding]:
    """The consumer that was sent most, with its share, and those that were sent next to nothing."""
    for most, what in uneven_shares(context):
        yield _of_consumer(
            most,
            what,
            "a key goes to one consumer, so few keys, or keys of different weight, give consumers different shares; "
            "what waits for a consumer was not sent to it yet",
            "More keys even it out; consumers beyond the number of keys get nothing.",
            context,
        )


def _of_consumer(stay: Stay, what: str, why: str, remedy: str, context: FindingContext) -> JudgedFinding:
    row = stay.row
    evidence = [f"seq {context.names.seq(row.seq)}: {row.name} joins"]
    verdict = FindingVerdict("info", because=why)
    return context.finding(row, what, verdict, evidence, remedy=remedy, consumer_name=row.name)
