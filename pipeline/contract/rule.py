"""The fields of a rule's specification; `contract.rules` has one specification for each rule."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from dispatch_audit.pipeline.contract.exceptions import Dispatcher

Counted = Literal[
    "dispatches",
    "first deliveries",
    "dispatches with a redelivery count",
    "dispatches under a limit",
    "dispatches of STICKY subscriptions",
    "acknowledgements",
    "hashes that drained",
    "consumers in snapshots",
    "settings",
    "counters in snapshots",
    "batches with their keys",
    "open entries",
    "consumers",
    "producers",
    "transfers between brokers",
]
About = Literal["order", "progress", "facts"]
"""The question that the findings of a rule answer: whether order was kept (what was delivered to whom, in which order),
whether messages made progress (what waited, and the limits that make it wait), or neither."""
Fact = Literal[
    "sent",
    "other",
    "ordered",
    "in order",
    "filters",
    "one holder",
    "once",
    "owner",
    "acks",
    "leaves",
    "dispatcher",
    "limit",
    "unexplained",
]
"""What a finding of the kernel rests on, and an alibi puts in question.

The dispatches that it names left the broker; the other entry was held, or waited; consumers ask for order; an older
entry holds back later ones of its hash; no entry filter took an entry out or put it off; another consumer holds an
entry; no read may send the entry again; who owns the hash; which entries were acknowledged; who had left; the
dispatcher is of the kind of the profile; the limit is the broker's; nothing explains the violation.
"""
Case = Literal["leaving", "acknowledged", "passed", "subscription"]
"""The holder of the older entry was leaving; the entry was acknowledged; mark-delete had passed the entry."""
Contrast = Literal["but", "although", "after", "while", "because", ""]
"""The conjunction between an event and what it contradicts; empty: the event is wrong by itself."""


class Wording(NamedTuple):
    """The words for the findings of a rule, with names in braces that `verdicts.dispatch_findings` fills.

    Attributes:
        what: the event.
        contrast: the conjunction after it.
        against: what the event contradicts, as a clause; empty: the event is wrong by itself.
    """

    what: str
    contrast: Contrast = ""
    against: str = ""


@dataclass(frozen=True)
class Rule:
    """The specification of a rule for brokers.

    Attributes:
        statement: the promise of the broker.
        found_when: what the audit reports as a finding.
        unless: when a finding is not a violation; empty: it always is.
        counted: what `checked` of `metrics` counts.
        about: the question that its findings answer.
        invariants: the names of the rule in contract 9.2.
        dispatcher: the dispatcher that the rule applies to; None: both.
        informs: whether its findings are facts outside of the contract.
        needs: a setting of broker.conf, on by default; where it is off, the rule does not apply.
        number: the number of the rule in the kernel; None: the kernel does not check it.
        wording: the words for a finding of the kernel; None: the kernel does not check the rule.
        otherwise: the same in special cases.
        rests_on: the facts that a finding of the kernel rests on.
        because: why it is so, as a clause, for findings that only inform; empty: the finding says it.
        remedy: what an operator can do about such a finding, as sentences.
        sent_before: whether the evidence names the consumer that got the entry before.
    """

    statement: str
    found_when: str
    unless: str
    counted: Counted
    about: About
    invariants: tuple[str, ...] = ()
    dispatcher: Dispatcher | None = None
    informs: bool = False
    needs: str = ""
    number: int | None = None
    wording: Wording | None = None
    otherwise: Mapping[Case, Wording] = field(default_factory=dict)
    rests_on: frozenset[Fact] = frozenset()
    because: str = ""
    remedy: str = ""
    sent_before: bool = False
