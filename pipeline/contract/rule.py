"""What the specification of a rule says; `pipeline.contract.rules` has one for each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pipeline.contract.exceptions import Dispatcher

Counted = Literal[
    "dispatches",
    "first deliveries",
    "dispatches with a redelivery count",
    "dispatches under a limit",
    "dispatches of STICKY subscriptions",
    "acknowledgements",
    "hashes that drained",
    "consumers in snapshots",
    "batches with their keys",
]
Case = Literal["leaving", "acknowledged", "passed"]
"""The holder of the older entry was about to leave; the entry was acknowledged, or mark-delete had passed it."""


@dataclass(frozen=True)
class Rule:
    """What a broker is held to.

    Attributes:
        statement: what holds while the rule is kept.
        found_when: what a finding is.
        unless: what makes a finding something else than a violation; empty: nothing.
        counted: what `checked` of `metrics` counts.
        invariants: what contract 9.2 calls it.
        dispatcher: the one that is held to it; None: both.
        informs: its findings are facts outside of the contract.
        needs: a setting of broker.conf that is on by default, without which nobody is held to it.
        number: what the core calls it; None: the core does not check it.
        sentence: a finding of the core in words; `verdicts.explanations` fills the names in braces.
        otherwise: the same in special cases.
        on_another: a finding of the core says that another entry was held, or waited.
        ordered: kept only towards consumers that do not allow out-of-order delivery (E5).
        sent_before: the evidence has who was sent the entry before.
    """

    statement: str
    found_when: str
    unless: str
    counted: Counted
    invariants: tuple[str, ...] = ()
    dispatcher: Dispatcher | None = None
    informs: bool = False
    needs: str = ""
    number: int | None = None
    sentence: str = ""
    otherwise: Mapping[Case, str] = field(default_factory=dict)
    on_another: bool = False
    ordered: bool = False
    sent_before: bool = False
