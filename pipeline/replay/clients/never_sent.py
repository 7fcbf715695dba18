"""Entries that the broker acknowledged itself, before anybody was sent them: rejected, expired, evicted, skipped."""

from dispatch_audit.pipeline.plural import entries
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.state.records import UNKNOWN
from dispatch_audit.pipeline.replay.state.state import common_of
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import FindingVerdict, JudgedFinding
from dispatch_audit.pipeline.replay.verdicts.missing.filtered import filters_in_force
from dispatch_audit.pipeline.replay.verdicts.naming import position


def never_sent(context: FindingContext) -> list[JudgedFinding]:
    """The finding about what mark-delete passed although nobody was sent it, as far as snapshots show it."""
    common = common_of(context.found.dispatcher.seen)
    number = int(common["never_sent"])
    if number == 0 or context.found.membership.one_sided.of_traffic:
        return []
    (ledger, entry), key_id = common["never_sent_first"].item(), int(common["never_sent_key"])
    at, since = position(ledger, entry), TracePoint(*common["never_sent_since"].item())
    one_key = ", all of one key," if key_id != UNKNOWN and number > 1 else ""
    because = filters_in_force(context) or (
        "the broker itself acknowledges what an entry filter rejects, a message TTL expires, a backlog quota evicts, "
        "or somebody skips, clears or seeks over; consumers of another subscription type leave no rows"
    )
    finding = context.finding(
        since,
        f"{entries(number)}{one_key} {'was' if number == 1 else 'were'} never sent to any consumer, {at}"
        f"{'' if number == 1 else ' the first of them'}",
        FindingVerdict("info", because=because),
        [f"seq {context.names.seq(since.seq)}: {at} waits from here on"],
        contrast="although",
        against="the broker counts them as acknowledged: mark-delete passed them, and no consumer acknowledged them",
        remedy="If these messages are missed, look at the entry filters of the topic and the namespace, its "
        "message TTL and its backlog quota.",
        key_id=key_id if key_id != UNKNOWN else None,
        ledger_id=ledger,
        entry_id=entry,
        detail={"entries": number},
    )
    return [finding]
