"""The diagnosis of one subscription, as renderers show it."""

from dataclasses import dataclass
from typing import Final, Literal

from dispatch_audit.pipeline.contract.signs import Kind, SignName
from dispatch_audit.pipeline.statistics.facts import SubscriptionFacts
from dispatch_audit.pipeline.statistics.moments import History
from dispatch_audit.pipeline.statistics.signs.sign import CERTAINTIES, Certainty

Answer = Literal["held_up", "not_decidable", "flowing", "delivered", "no_consumer", "idle"]
"""Whether messages flow: it is proved that something holds them up; the dumps do not decide it; some are sent; all were
sent and wait for acknowledgements; nobody is connected; nothing waits."""

ANSWERS: Final[tuple[Answer, ...]] = ("held_up", "not_decidable", "no_consumer", "delivered", "flowing", "idle")
"""From the one that needs a look most."""

_ALARMING: Final[frozenset[Kind]] = frozenset({"holds_up", "counter"})


@dataclass(frozen=True)
class Reason:
    """A sign, with what is known of it.

    Attributes:
        certainty: of what its title says.
        consumers: names of those that it is about.
        title: what it means, in a sentence.
        shown: what the dumps show; certain at the moment of the dump.
        since: since when; empty: the dumps do not say.
        decide: what evidence would settle the open questions; empty: none is open.
        bugs: ids of known bugs of the release that leave this sign.
        remedy: what an operator can do.
    """

    name: SignName
    kind: Kind
    certainty: Certainty
    consumers: tuple[str, ...]
    title: str
    shown: str
    since: str
    decide: str
    bugs: tuple[str, ...]
    remedy: str

    @property
    def is_alarm(self) -> bool:
        """Whether it is proved, and of a kind that needs a look."""
        return self.certainty == "proved" and self.kind in _ALARMING


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis of one subscription.

    Attributes:
        answer: whether messages flow.
        headline: the answer in a sentence, without its word.
        reasons: those that say most first.
        facts: what they rest on; None: there are internal statistics only.
        lacks: what the dumps lack, clauses.
        release: the release that was assumed, as it was given; None: not known.
    """

    history: History
    answer: Answer
    headline: str
    reasons: tuple[Reason, ...]
    facts: SubscriptionFacts | None
    lacks: tuple[str, ...]
    release: str | None

    @property
    def is_alarm(self) -> bool:
        """Whether something is proved that needs a look."""
        return any(reason.is_alarm for reason in self.reasons)

    @property
    def certainty(self) -> Certainty | None:
        """The highest certainty of the reasons of a kind that needs a look; None: there are none."""
        found = [reason.certainty for reason in self.reasons if reason.kind in _ALARMING]
        return max(found, key=CERTAINTIES.index, default=None)
