"""The rules that an audit holds a broker to: one specification for each, which code, reports and docs/RULES.md share.

Their names are public: they stand in the tables, in reports and in `conf/`. How a rule is checked says the replay:
those with a number are asked of every dispatch or acknowledgement in its core, the others where their findings arise.

Source: contract 9.2.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from pipeline.contract.exceptions import Dispatcher
from pipeline.contract.rule import Rule

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
    "mixed_key_batch",
    "cumulative_ack",
    "foreign_ack",
]

# What the core calls the rules that it checks. Saved states have these numbers, so none is ever given to another rule.
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

OVERTAKING: Final = (REDELIVERY_ORDER, REPLAY_OVERTAKEN)
"""An entry passed an older one of its hash that waited; which of the two it is hangs on why that one waited."""
MISROUTED: Final = (OWNERSHIP, GAP_DELIVERY)
"""An entry went to somebody who does not own its hash."""

_OVERTOOK: Final = "{sent}, although the older entry {other_entry} of the hash waited, {waited} (seq {other_since_seq})"
_OVERTOOK_A_LEAVER: Final = (
    "{sent}, although {other}, which was leaving, still held the older entry {other_entry} of the hash, or had just "
    "given it back"
)
_ALWAYS_INFORMATION: Final = "always information: a fact outside of the contract"

RULES: Final[Mapping[RuleName, Rule]] = {
    "single_holder": Rule(
        statement="The unacknowledged entries of a hash are held by one consumer at a time.",
        found_when="an entry goes to one consumer while another holds one of the same hash for certain",
        unless=(
            "out-of-order mode (E5); an administrator moved mark-delete over what was held (E6, #25627); flaws F1 to "
            "F4, F11"
        ),
        counted="dispatches",
        invariants=("V1", "V3"),
        number=SINGLE_HOLDER,
        sentence="{sent}{owned}; however {draining}{other} still held {other_entry}, {held}",
        on_another=True,
        ordered=True,
    ),
    "ownership": Rule(
        statement="An entry goes to the consumer that owns its hash in the epoch.",
        found_when="an entry goes to somebody who does not own its hash",
        unless="",
        counted="dispatches",
        invariants=("V2",),
        number=OWNERSHIP,
        sentence="{sent}, but {epoch} the hash is routed to {other}",
    ),
    "first_delivery_order": Rule(
        statement="The first deliveries of a hash ascend, over all consumers.",
        found_when="the first dispatch of an entry comes after that of a later one of its hash",
        unless="E5; #23870 on 4.0.0 to 4.0.2; F11 on the classic dispatcher, where the overtaking is F11",
        counted="first deliveries",
        invariants=("V4",),
        number=FIRST_DELIVERY_ORDER,
        sentence="{sent} for the first time, after the later entry {other_entry} had gone to {other} (seq {other_seq})",
        ordered=True,
    ),
    "redelivery_order": Rule(
        statement="What a leaver held is redelivered ascending, before later entries of the hash.",
        found_when=(
            "an entry goes while an older one waits that its holder left behind, or while the older one's holder is "
            "leaving"
        ),
        unless=(
            "E1, E2, E5, E6, E7 (not provable where no row shows that the entry had been read, and its hash had to "
            "wait before); F11 on the classic dispatcher"
        ),
        counted="dispatches",
        invariants=("V5",),
        number=REDELIVERY_ORDER,
        sentence=_OVERTOOK,
        otherwise={"leaving": _OVERTOOK_A_LEAVER},
        on_another=True,
        ordered=True,
    ),
    "replay_overtaken": Rule(
        statement="No entry passes an earlier one of its hash that waits.",
        found_when="an entry goes while an older one of its hash waits, never sent",
        unless="E1, E2, E5, E6, E7; #23870; F11 on the classic dispatcher",
        counted="dispatches",
        invariants=("V6",),
        number=REPLAY_OVERTAKEN,
        sentence=_OVERTOOK,
        otherwise={"leaving": _OVERTOOK_A_LEAVER},
        on_another=True,
        ordered=True,
    ),
    "early_duplicate": Rule(
        statement="An entry is sent again only after it was given back, and never after it was acknowledged.",
        found_when="an entry goes again to its holder, or after it was acknowledged",
        unless=(
            "overlapping replay reads: known flaw F10, exception E17; a read in flight sends what mark-delete passed "
            "and nobody acknowledged (E6)"
        ),
        counted="dispatches",
        invariants=("V7",),
        number=EARLY_DUPLICATE,
        sentence="{sent} once more, although {other} still held it, {held}",
        otherwise={
            "acknowledged": "{sent} once more, although it was acknowledged",
            "passed": "{sent} once more, although mark-delete had passed it, without an acknowledgement",
        },
        on_another=True,
    ),
    "redelivery_count": Rule(
        statement="The redelivery count is the number of redeliver requests since the last reset.",
        found_when="the recorded count is not the number of redeliver requests",
        unless="too high: not provable, filters and transactions raise it unseen (E4, E11)",
        counted="dispatches with a redelivery count",
        invariants=("V8",),
        # Without its tracker the broker sends 0 with everything (contract 5.8).
        needs="subscriptionRedeliveryTrackerEnabled",
        number=REDELIVERY_COUNT,
        sentence=(
            "{sent} with redelivery count {value}, but redeliver requests count {expected} since the last restart"
        ),
        sent_before=True,
    ),
    "unacked_limit": Rule(
        statement="A consumer holds no more messages than maxUnackedMessagesPerConsumer and one batch allow.",
        found_when="a consumer at `maxUnackedMessagesPerConsumer` is sent more, beyond what batches explain",
        unless="",
        counted="dispatches under a limit",
        number=UNACKED_LIMIT,
        sentence=(
            "{sent}, which then held {value} unacknowledged messages; maxUnackedMessagesPerConsumer is {expected}"
        ),
    ),
    "stalled": Rule(
        statement="An entry that can be delivered is delivered.",
        found_when=(
            "a hash that nobody holds waits for `blocking.stall_threshold_ms` while its owner is sent later entries; "
            "or nothing at all is sent and nothing in the trace says why"
        ),
        unless=(
            "F6 on 3.x and classic. Where no permits are recorded a whole stall is no finding, only a row of `blocking`"
        ),
        counted="dispatches",
        invariants=("V10",),
    ),
    "draining_stuck": Rule(
        statement="A hash of which the old holder holds nothing any more is served to its new owner.",
        found_when="what `stalled` says of a hash, if that hash had drained before",
        unless="#23845 up to 4.0.6, if it was counted twice",
        counted="hashes that drained",
        invariants=("V11",),
        dispatcher="draining",
    ),
    "gap_delivery": Rule(
        statement="A hash outside of all ranges of STICKY consumers goes to nobody.",
        found_when="STICKY: the hash lies in no declared range",
        unless="up to 4.0.4 a gap between two ranges of one consumer went to it (`exclusive_gap`)",
        counted="dispatches of STICKY subscriptions",
        invariants=("V12",),
        number=GAP_DELIVERY,
        sentence="{sent}, but {epoch} no consumer has declared a range with this hash{routed}",
    ),
    "assignment_mismatch": Rule(
        statement="The hash ranges that the broker reports are the reconstructed ones.",
        found_when="a snapshot has other ranges than the joins and leaves give",
        unless="not provable where consumers joined at about the same time: two ring points may collide",
        counted="consumers in snapshots",
    ),
    "draining_mismatch": Rule(
        statement="The draining hashes that the broker reports are the reconstructed ones.",
        found_when="a snapshot lists other draining hashes, or other numbers of entries",
        unless="#23845: it lists more",
        counted="consumers in snapshots",
        dispatcher="draining",
    ),
    "mixed_key_batch": Rule(
        statement="The messages of a batch have one key; others are ordered by the batch's key only.",
        found_when="a batch holds messages of several keys",
        unless=_ALWAYS_INFORMATION,
        counted="batches with their keys",
        informs=True,
    ),
    "cumulative_ack": Rule(
        statement="Acknowledgements are individual; the broker ignores cumulative ones.",
        found_when="a consumer acknowledges all up to an entry",
        unless=_ALWAYS_INFORMATION,
        counted="acknowledgements",
        informs=True,
        number=CUMULATIVE_ACK,
        sentence="{receiver} acknowledged all up to {entry} {here}, which the broker ignores for Key_Shared",
    ),
    "foreign_ack": Rule(
        statement="An entry is acknowledged by the consumer that holds it.",
        found_when="a consumer acknowledges an entry that another one holds",
        unless=_ALWAYS_INFORMATION,
        counted="acknowledgements",
        informs=True,
        number=FOREIGN_ACK,
        sentence="{receiver} acknowledged entry {entry} {here}, which {other} held, sent at seq {other_seq}",
    ),
}
"""All rules, in the order in which reports name them."""

NAME_OF: Final[Mapping[int, RuleName]] = MappingProxyType(
    dict(sorted((rule.number, name) for name, rule in RULES.items() if rule.number is not None))
)
"""The rules that the core checks, by their numbers."""


def rules_of(dispatcher: Dispatcher) -> tuple[RuleName, ...]:
    """The rules that a dispatcher is held to."""
    return tuple(name for name, rule in RULES.items() if rule.dispatcher in (None, dispatcher))
