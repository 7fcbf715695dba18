"""The rules that an audit checks: one specification for each, which code, reports and docs/RULES.md share.

The names of the rules are public: tables, reports and `conf/` contain them. The kernel of the replay checks the rules
with a number on every dispatch or acknowledgement; other modules of the replay check the rest.

Source: contract 9.2.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from dispatch_audit.pipeline.contract.exceptions import Dispatcher
from dispatch_audit.pipeline.contract.rule import About, Fact, Rule, Wording

RuleName = Literal[
    "single_holder",
    "ownership",
    "first_delivery_order",
    "redelivery_order",
    "replay_overtaken",
    "early_duplicate",
    "redelivery_count",
    "unacked_limit",
    "stalled",
    "draining_stuck",
    "gap_delivery",
    "assignment_mismatch",
    "draining_mismatch",
    "settings_mismatch",
    "mixed_key_batch",
    "cumulative_ack",
    "foreign_ack",
    "impossible_counter",
    "clocks_apart",
    "never_acknowledged",
    "never_sent",
    "published_twice",
    "two_kinds_of_keys",
    "acknowledged_before_reset",
    "aborted_acknowledgement",
    "sent_often",
    "reconnect_loop",
    "different_policies",
    "refused_join",
    "uneven_share",
]

# The numbers of the rules that the kernel checks. Checkpoints contain them, so no number is ever given to another rule.
SINGLE_HOLDER: Final = 0
OWNERSHIP: Final = 1
FIRST_DELIVERY_ORDER: Final = 2
EARLY_DUPLICATE: Final = 3
REDELIVERY_ORDER: Final = 4
REPLAY_OVERTAKEN: Final = 5
REDELIVERY_COUNT: Final = 6
UNACKED_LIMIT: Final = 7
CUMULATIVE_ACK: Final = 8
FOREIGN_ACK: Final = 9
GAP_DELIVERY: Final = 10
ACKNOWLEDGED_BEFORE_RESET: Final = 11
ABORTED_ACKNOWLEDGEMENT: Final = 12
SENT_OFTEN: Final = 13

SENT_OFTEN_MIN: Final = 4
"""From so many dispatches of one entry on its acknowledgement is a finding of `sent_often`."""
OVERTAKING: Final = (REDELIVERY_ORDER, REPLAY_OVERTAKEN)
"""An entry passed an older entry of its hash that waited; the reason for that wait decides between the two rules."""
MISROUTED: Final = (OWNERSHIP, GAP_DELIVERY)
"""An entry went to a consumer that does not own its hash."""

_OVERTOOK: Final = Wording(
    "{sent}",
    "although",
    "the older entry {other_entry} of the hash was waiting: it had been {waited} (seq {other_since_seq})",
)
_OVERTOOK_A_LEAVER: Final = Wording(
    "{sent}",
    "although",
    "{other}, which was leaving, still held the older entry {other_entry} of the hash or had just returned it",
)
_DISPATCHED: Final[frozenset[Fact]] = frozenset({"sent", "dispatcher", "unexplained"})
_ALWAYS_INFORMATION: Final = "always information: a fact outside of the contract"

RULES: Final[Mapping[RuleName, Rule]] = {
    "single_holder": Rule(
        statement="One consumer at a time holds the unacknowledged entries of a hash.",
        found_when="an entry goes to one consumer while another certainly holds an entry of the same hash",
        unless=(
            "out-of-order delivery is allowed (E5); an administrator moved mark-delete over held entries (E6, #25627); "
            "flaws F1 to F4, F11"
        ),
        counted="dispatches",
        about="order",
        invariants=("V1", "V3"),
        number=SINGLE_HOLDER,
        rests_on=_DISPATCHED | {"other", "ordered", "one holder", "acks", "leaves"},
        wording=Wording("{sent}{owned}", "but", "{draining}{other} still held entry {other_entry}, {held}"),
    ),
    "ownership": Rule(
        statement="An entry goes to the consumer that owns its hash in the epoch.",
        found_when="an entry goes to a consumer that does not own its hash",
        unless="",
        counted="dispatches",
        about="order",
        invariants=("V2",),
        number=OWNERSHIP,
        rests_on=_DISPATCHED | {"owner", "leaves"},
        wording=Wording("{sent}", "but", "{epoch} the hash is routed to {other}"),
    ),
    "first_delivery_order": Rule(
        statement="The entries of a hash are first delivered in ascending order, over all consumers.",
        found_when="the first dispatch of an entry comes after the first dispatch of a later entry of its hash",
        unless="E5; #23870 on 4.0.0 to 4.0.2; F11 on the classic dispatcher, and F12, where the overtaking is one",
        counted="first deliveries",
        about="order",
        invariants=("V4",),
        number=FIRST_DELIVERY_ORDER,
        rests_on=_DISPATCHED | {"ordered", "filters"},
        wording=Wording(
            "{sent} for the first time",
            "after",
            "the later entry {other_entry} of the hash had gone to {other} (seq {other_seq})",
        ),
    ),
    "redelivery_order": Rule(
        statement=(
            "The entries that a leaving consumer held are redelivered in ascending order, before later entries of the "
            "hash."
        ),
        found_when=(
            "an entry is dispatched while an older entry of its hash waits because its holder left, or while that "
            "holder is leaving"
        ),
        unless=(
            "E1, E2, E5, E6, E7 (not provable where no row shows that the entry had been read, and its hash had to "
            "wait before or another consumer had left; nor where the broker had closed all consumers and the entry is "
            "never sent again); F11 on the classic dispatcher; F12"
        ),
        counted="dispatches",
        about="order",
        invariants=("V5",),
        number=REDELIVERY_ORDER,
        rests_on=_DISPATCHED | {"other", "ordered", "in order", "filters", "acks", "leaves"},
        wording=_OVERTOOK,
        otherwise={"leaving": _OVERTOOK_A_LEAVER},
    ),
    "replay_overtaken": Rule(
        statement="No entry passes an older entry of its hash that waits.",
        found_when="an entry is dispatched while an older entry of its hash waits for its first dispatch",
        unless="E1, E2, E5, E6, E7; #23870; F11 on the classic dispatcher; F12",
        counted="dispatches",
        about="order",
        invariants=("V6",),
        number=REPLAY_OVERTAKEN,
        rests_on=_DISPATCHED | {"other", "ordered", "in order", "filters", "acks", "leaves"},
        wording=_OVERTOOK,
        otherwise={"leaving": _OVERTOOK_A_LEAVER},
    ),
    "early_duplicate": Rule(
        statement="An entry is sent again only after its holder returned it, and never after it was acknowledged.",
        found_when="an entry goes again to its holder, or goes to any consumer after it was acknowledged",
        unless=(
            "overlapping replay reads: known flaw F10, exception E17; reads from before the last consumer left: F12; a "
            "read in flight sends an entry that mark-delete passed and nobody acknowledged (E6)"
        ),
        counted="dispatches",
        about="order",
        invariants=("V7",),
        number=EARLY_DUPLICATE,
        rests_on=_DISPATCHED | {"other", "once", "leaves"},
        wording=Wording("{sent} once more", "although", "{other} still held it, {held}"),
        otherwise={
            "acknowledged": Wording("{sent} once more", "although", "it was acknowledged"),
            "passed": Wording("{sent} once more", "although", "mark-delete had passed it without an acknowledgement"),
        },
    ),
    "redelivery_count": Rule(
        statement="The redelivery count is the number of redeliver requests since the last reset.",
        found_when="the recorded count is not the number of redeliver requests",
        unless="too high: not provable, because filters and transactions raise it without a row (E4, E11)",
        counted="dispatches with a redelivery count",
        about="order",
        invariants=("V8",),
        # Without its tracker the broker sends 0 with everything (contract 5.8).
        needs="subscriptionRedeliveryTrackerEnabled",
        number=REDELIVERY_COUNT,
        rests_on=_DISPATCHED | {"acks"},
        wording=Wording(
            "{sent} with redelivery count {value}",
            "but",
            "the trace has {redeliver_requests} for it since the last reset",
        ),
        sent_before=True,
    ),
    "unacked_limit": Rule(
        statement=(
            "A consumer holds no more messages than maxUnackedMessagesPerConsumer and one batch allow; a subscription "
            "at maxUnackedMessagesPerSubscription reads nothing new."
        ),
        found_when=(
            "a consumer at `maxUnackedMessagesPerConsumer` gets more messages than batches explain; or a subscription "
            "at `maxUnackedMessagesPerSubscription` gets more entries that were read later than one read in flight "
            "explains"
        ),
        unless=(
            "not provable where only one side of dispatches or acknowledgements is recorded, where the broker goes "
            "past a limit again and again (settings_mismatch), and of a subscription whose count some versions get "
            "wrong: after a consumer left with messages, or acknowledged those of another one"
        ),
        counted="dispatches under a limit",
        about="progress",
        number=UNACKED_LIMIT,
        rests_on=frozenset({"sent", "acks", "limit", "unexplained"}),
        wording=Wording(
            "{sent}, which then held {held_messages}", "although", "maxUnackedMessagesPerConsumer is {expected}"
        ),
        otherwise={
            "subscription": Wording(
                "{sent}, one of {read_entries} read while the subscription had {held_messages}",
                "although",
                "maxUnackedMessagesPerSubscription is {expected}",
            ),
        },
    ),
    "stalled": Rule(
        statement="An entry that can be delivered is delivered.",
        found_when=(
            "entries of a hash that no consumer holds wait for `blocking.stall_threshold_ms` while its owner gets "
            "later entries (from a backlog, or while a limit stops reads, from the moment on at which the broker had "
            "read them); or nothing is sent to any consumer, and nothing in the trace explains why; or replay without "
            "a limit takes ten reads of entries for one consumer; or the broker hung (rows `hang`)"
        ),
        unless=(
            "F6 on 3.x and classic; #21554, #23845, #26268, #26454 and #26635, where the rows show them. A limit of "
            "the dispatch rate is none. Without recorded permits a stall of the whole subscription is not provable"
        ),
        counted="dispatches",
        about="progress",
        invariants=("V10",),
    ),
    "draining_stuck": Rule(
        statement="Once the old holder of a moved hash holds no entry of it, its entries go to the new owner.",
        found_when="a hash fulfils the condition of `stalled` and had drained before",
        unless="#23845 up to 4.0.6, if the broker counted the hash as draining twice",
        counted="hashes that drained",
        about="progress",
        invariants=("V11",),
        dispatcher="draining",
    ),
    "gap_delivery": Rule(
        statement="An entry whose hash lies outside of all ranges of the STICKY consumers goes to no consumer.",
        found_when="an entry is dispatched although its hash lies in no declared range",
        unless="up to 4.0.4 the hashes between two ranges of one consumer went to it (`exclusive_gap`)",
        counted="dispatches of STICKY subscriptions",
        about="order",
        invariants=("V12",),
        number=GAP_DELIVERY,
        rests_on=_DISPATCHED | {"owner", "leaves"},
        wording=Wording("{sent}", "but", "{epoch} no consumer declares a range with this hash{routed}"),
    ),
    "assignment_mismatch": Rule(
        statement="The hash ranges that the broker reports are the reconstructed ones.",
        found_when="a snapshot has other ranges than follow from the joins and leaves",
        unless="not provable where consumers joined at about the same time: two ring points may collide",
        counted="consumers in snapshots",
        about="order",
    ),
    "draining_mismatch": Rule(
        statement="The draining hashes that the broker reports are the reconstructed ones.",
        found_when="a snapshot lists other draining hashes, or other numbers of entries",
        unless="#23845, if the broker lists more",
        counted="consumers in snapshots",
        about="progress",
        dispatcher="draining",
    ),
    "settings_mismatch": Rule(
        statement="The settings that the trace claims are those that the broker shows.",
        found_when=(
            "snapshots or dispatches certainly contradict a setting of trace.json, of a row `settings`, or a default: "
            "once for each setting and subscription"
        ),
        unless=(
            "always not provable, because the claim is wrong or the broker is; what the broker shows is used where it "
            "is certain, and the rest that depends on the setting is not provable"
        ),
        counted="settings",
        about="facts",
    ),
    "mixed_key_batch": Rule(
        statement="All messages of a batch have one key; other keys in it are not kept in order.",
        found_when="a batch holds messages of several keys",
        unless=_ALWAYS_INFORMATION,
        counted="batches with their keys",
        about="facts",
        informs=True,
        because=(
            "the broker routes it by the key of the first message, so messages of the other keys may be delivered out "
            "of order"
        ),
        remedy="Publish one key per batch, as the key-based batcher does.",
    ),
    "cumulative_ack": Rule(
        statement="Acknowledgements are individual; the broker ignores cumulative ones.",
        found_when="a consumer acknowledges all entries up to one",
        unless=_ALWAYS_INFORMATION,
        counted="acknowledgements",
        about="facts",
        informs=True,
        number=CUMULATIVE_ACK,
        rests_on=_DISPATCHED,
        wording=Wording(
            "{receiver} acknowledged all entries up to {entry} {here}, which the broker ignores for Key_Shared"
        ),
    ),
    "foreign_ack": Rule(
        statement="An entry is acknowledged by the consumer that holds it.",
        found_when="a consumer acknowledges an entry that another consumer holds",
        unless=_ALWAYS_INFORMATION,
        counted="acknowledgements",
        about="facts",
        informs=True,
        number=FOREIGN_ACK,
        rests_on=_DISPATCHED,
        wording=Wording(
            "{receiver} acknowledged entry {entry} {here}", "but", "{other} held it, sent at seq {other_seq}"
        ),
    ),
    "impossible_counter": Rule(
        statement="No counter of the broker is below zero.",
        found_when=(
            "a snapshot has fewer than 0 unacknowledged messages of a consumer or of the subscription, or fewer than 0 "
            "permits of a consumer that was sent single messages only"
        ),
        unless=_ALWAYS_INFORMATION,
        counted="counters in snapshots",
        about="facts",
        informs=True,
    ),
    "clocks_apart": Rule(
        statement="The clocks of the brokers that own a topic in turns agree.",
        found_when=(
            "every producer that two recorders know stamped its entries at times that differ for both by more than "
            "30 s and the recorder skew"
        ),
        unless="always not provable: it is about the trace, in which no wait across the transfer is judged",
        counted="transfers between brokers",
        about="facts",
        remedy="Synchronize the clocks of the brokers (NTP).",
    ),
    "never_acknowledged": Rule(
        statement="A consumer acknowledges what it is sent.",
        found_when=(
            "at the end an entry was sent 3 times or more and is not acknowledged; or its consumer holds it, "
            "acknowledged entries that it was sent later, and needed for none of them half of the time; or a consumer "
            "holds entries for 5 s or longer and never acknowledged any, or batches of which it acknowledged all "
            "messages and never the whole: once for each such consumer"
        ),
        unless=_ALWAYS_INFORMATION,
        counted="open entries",
        about="facts",
        informs=True,
    ),
    "never_sent": Rule(
        statement="An entry that is published while consumers are connected is sent to one of them.",
        found_when=(
            "snapshots show mark-delete behind entries that were sent to nobody and acknowledged by no consumer: the "
            "broker acknowledged them itself; once for each subscription"
        ),
        unless=_ALWAYS_INFORMATION,
        counted="consumers",
        about="facts",
        informs=True,
        because=(
            "the broker itself acknowledges what an entry filter rejects, a message TTL expires, a backlog quota "
            "evicts, or somebody skips, clears or seeks over; consumers of another subscription type leave no rows"
        ),
        remedy=(
            "If these messages are missed, look at the entry filters of the topic and the namespace, its message TTL "
            "and its backlog quota."
        ),
    ),
    "published_twice": Rule(
        statement="A producer publishes a message once.",
        found_when=(
            "a producer publishes an entry with a sequence id and key that it used before, other than chunks of one "
            "message and entries of a producer that is made anew: once for each producer"
        ),
        unless=_ALWAYS_INFORMATION,
        counted="producers",
        about="facts",
        informs=True,
        because=(
            "it had no receipt when it reconnected, or waited too long for one, and sent them again; the broker keeps "
            "both where deduplication is off, so consumers get them twice, the second time behind newer ones of their "
            "key"
        ),
        remedy=(
            "Switch deduplication on (brokerDeduplicationEnabled, or the policy of the namespace) and give producers "
            "fixed names, or let consumers ignore what they have processed."
        ),
    ),
    "two_kinds_of_keys": Rule(
        statement="All entries of a topic are routed by ordering keys, or none is.",
        found_when="some entries have an ordering key, and others only a partition key: once for each topic",
        unless=_ALWAYS_INFORMATION,
        counted="producers",
        about="facts",
        informs=True,
        because=(
            "the broker routes a message by its ordering key, and by its key only where it has none, so messages of "
            "one key may go to two consumers, and no order is kept between them"
        ),
        remedy="Let all producers set ordering keys, or none.",
    ),
    "acknowledged_before_reset": Rule(
        statement="An entry that was acknowledged is not sent again.",
        found_when="an entry is sent after a reset although it was acknowledged, or passed by mark-delete, before",
        unless=_ALWAYS_INFORMATION,
        counted="dispatches",
        about="facts",
        informs=True,
        number=ACKNOWLEDGED_BEFORE_RESET,
        rests_on=_DISPATCHED,
        wording=Wording(
            "{sent} again", "although", "it was acknowledged before the reset in between, or mark-delete had passed it"
        ),
        because=(
            "a restart or an unload loses acknowledgements that were not stored: those after the cursor was stored "
            "last, and holes beyond managedLedgerMaxUnackedRangesToPersist; a seek brings all of them back on purpose"
        ),
    ),
    "aborted_acknowledgement": Rule(
        statement="A transaction that acknowledges an entry commits.",
        found_when="an entry that was acknowledged in a transaction is sent again: the transaction was aborted",
        unless=_ALWAYS_INFORMATION,
        counted="dispatches",
        about="facts",
        informs=True,
        number=ABORTED_ACKNOWLEDGEMENT,
        rests_on=_DISPATCHED,
        wording=Wording(
            "{sent} again", "because", "the transaction in which it was acknowledged was aborted, or timed out"
        ),
        because="an abort returns what the transaction acknowledged, behind later entries of its key",
    ),
    "sent_often": Rule(
        statement="An entry is acknowledged when it is sent, or soon after.",
        found_when=f"an entry that was sent {SENT_OFTEN_MIN} times or more is acknowledged",
        unless=_ALWAYS_INFORMATION,
        counted="acknowledgements",
        about="facts",
        informs=True,
        number=SENT_OFTEN,
        rests_on=_DISPATCHED,
        wording=Wording("entry {entry} was sent {value} times before {receiver} acknowledged it {here}"),
        because=(
            "consumers gave it back, left without an acknowledgement, or let the ack timeout pass; a dead letter or "
            "retry policy acknowledges such an entry when it has sent it to another topic"
        ),
    ),
    "reconnect_loop": Rule(
        statement="A consumer stays connected.",
        found_when="consumers of one name left 5 times or more, half of them within 5 s of their join",
        unless=_ALWAYS_INFORMATION,
        counted="consumers",
        about="facts",
        informs=True,
    ),
    "different_policies": Rule(
        statement="All consumers of a subscription ask for one policy: STICKY or not, out-of-order delivery or not.",
        found_when="consumers with different policies joined while the subscription existed",
        unless=_ALWAYS_INFORMATION,
        counted="consumers",
        about="facts",
        informs=True,
        because=(
            "brokers before 4.0.1 close the connected consumers when one with another policy joins, so both groups "
            "throw each other out in turns; later ones refuse the join (#23272)"
        ),
        remedy="Give all consumers of a subscription one KeySharedPolicy, or a subscription each.",
    ),
    "refused_join": Rule(
        statement="A consumer that asks to join is let in.",
        found_when="the broker refused a join: once for each name of a consumer and reason",
        unless=_ALWAYS_INFORMATION,
        counted="consumers",
        about="facts",
        informs=True,
    ),
    "uneven_share": Rule(
        statement="Consumers get about as many entries as each other.",
        found_when=(
            "of 10 dispatches or more to 2 consumers or more that were connected for half of the time or longer, one "
            "got a tenth of the mean; or, if there were no others, one and a half times the mean and three times the "
            "least; a name that connects anew is one consumer"
        ),
        unless=_ALWAYS_INFORMATION,
        counted="consumers",
        about="facts",
        informs=True,
        because=(
            "a key goes to one consumer, so few keys, or keys of different weight, give consumers different shares; "
            "what waits for a consumer was not sent to it yet"
        ),
        remedy="More keys even it out; consumers beyond the number of keys get nothing.",
    ),
}
"""All rules, in the order in which reports name them."""

CLIENT_RULES: Final[tuple[RuleName, ...]] = (
    "never_acknowledged",
    "never_sent",
    "published_twice",
    "two_kinds_of_keys",
    "acknowledged_before_reset",
    "aborted_acknowledgement",
    "sent_often",
    "reconnect_loop",
    "different_policies",
    "refused_join",
    "uneven_share",
)
"""The rules about clients: what they do makes entries come again, never end, or go to one consumer."""

FACTS_AT_THE_END: Final[tuple[RuleName, ...]] = (
    "never_acknowledged",
    "never_sent",
    "published_twice",
    "two_kinds_of_keys",
    "reconnect_loop",
    "different_policies",
    "refused_join",
    "uneven_share",
)
"""Each window reports its own findings of these rules: they describe the end of its rows, or compare rows within it."""

NAME_OF: Final[Mapping[int, RuleName]] = MappingProxyType(
    dict(sorted((rule.number, name) for name, rule in RULES.items() if rule.number is not None))
)
"""The rules that the kernel checks, by their numbers."""


def rules_of(dispatcher: Dispatcher) -> tuple[RuleName, ...]:
    """The rules that apply to a dispatcher."""
    return tuple(name for name, rule in RULES.items() if rule.dispatcher in (None, dispatcher))


def about(name: str) -> About:
    """The question that the findings of a rule answer; of a rule that this version does not know: neither."""
    return next((rule.about for known, rule in RULES.items() if known == name), "facts")
