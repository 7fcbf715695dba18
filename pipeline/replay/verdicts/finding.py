"""A finding of any rule: its verdict, its text in parts, and the record from which a row of `violations` is made.

Each part of the audit returns its findings as `RuleFindings`, one for each rule. Texts and other tables write names,
positions and columns alike.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from dispatch_audit.pipeline.contract.exceptions import ExceptionId
from dispatch_audit.pipeline.contract.rule import Contrast
from dispatch_audit.pipeline.contract.rules import RuleName
from dispatch_audit.pipeline.contract.severity import SEVERITIES, Severity
from dispatch_audit.pipeline.recorders.recorders import Recorders
from dispatch_audit.pipeline.replay.settings.assumed import Assumption, clause
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN
from dispatch_audit.pipeline.replay.subscription.result import ReplayResult

ALL: Final = 0
"""No limit, where a number of findings limits something."""


class FindingVerdict(NamedTuple):
    """The verdict on one finding."""

    severity: Severity  # the severity of the finding
    # The exception of contract 9.3 that it matches; a known bug may match one too.
    permitted_by: ExceptionId | None = None
    # The bugs of the broker that explain it, the closest first (ids of `conf/known_bugs.toml`).
    known_bugs: tuple[str, ...] = ()
    because: str = ""  # the reason for the severity that the trace shows, as a clause; may be empty


UNEXPLAINED: Final = FindingVerdict("violation")


def milder(one: FindingVerdict, other: FindingVerdict) -> FindingVerdict:
    """The milder of two verdicts; the first if they are equally mild."""
    return min(one, other, key=lambda verdict: SEVERITIES.index(verdict.severity))


def unexplained(because: str) -> FindingVerdict:
    """The verdict `violation`, with the reason why no exception or bug explains the finding."""
    return FindingVerdict("violation", because=because)


@lru_cache
def not_provable(because: str) -> FindingVerdict:
    """The verdict `not_provable`, with what the trace does not show; cached, because many findings share a reason."""
    return FindingVerdict("not_provable", because=because)


class FindingText(NamedTuple):
    """The text of a finding in parts. Each part is a clause without a final mark; the remedy is whole sentences."""

    what: str  # what happened
    against: str = ""  # what contradicts it; empty: it is wrong by itself
    contrast: Contrast = ""  # the conjunction between the two
    why: tuple[str, ...] = ()  # the reasons for the verdict, the known bugs among them last
    remedy: str = ""  # what an operator can do about it; empty: nothing is known to help
    assumes: tuple[Assumption, ...] = ()  # the values of settings on which it rests and that no row says

    @property
    def sentence(self) -> str:
        """All parts in one sentence, followed by the remedy."""
        against = f", {self.contrast} {self.against}" if self.against else ""
        condition = f", {clause(self.assumes)}" if self.assumes else ""
        remedy = f". {self.remedy}" if self.remedy else ""
        return f"{'; '.join((self.what + against, *self.why))}{condition}{remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedFinding:
    """One finding with its verdict, evidence and explanation."""

    severity: Severity  # the verdict
    seq: int  # the row that completes the finding, as the replay numbers it
    ts_us: int  # the time of that row, in microseconds since 1970 UTC
    explanation: FindingText  # the finding in words
    evidence: Sequence[str]  # the rows that prove it, oldest first, in words; at least one
    sticky_hash: int | None = None  # the hash that it is about; None: no single hash
    key_id: int | None = None  # the key of the entry; None: no single key
    ledger_id: int | None = None  # the ledger of the entry that it is about; None: no single entry
    entry_id: int | None = None  # the id of that entry in the ledger
    consumer: int | None = None  # the consumer that it is about, by its recorder's number; None: no single consumer
    consumer_name: str | None = None  # its name
    other_consumer: int | None = None  # the second consumer involved, by its recorder's number; None: there is none
    other_consumer_name: str | None = None  # its name
    epoch: int | None = None  # the epoch of the row; None: the finding is about no single dispatch or acknowledgement
    # The membership change that began the epoch, such as `join c2`; None: the owner of the hash is not at issue.
    change: str | None = None
    permitted_by: ExceptionId | None = None  # the exception of the contract that it matches; None: it matches none
    known_bugs: tuple[str, ...] = ()  # the bugs that explain it, the closest first (ids of `conf/known_bugs.toml`)
    assumes: tuple[Assumption, ...] = ()  # the values of settings on which it rests and that no row says
    detail: Mapping[str, object] | None = None  # details that have no column; None: the rule has none


class RuleFindings(NamedTuple):
    """The findings of one part of the audit about one rule on one subscription."""

    rule: RuleName  # the name of the rule
    checked: int  # how often the rule was checked
    counts: Mapping[Severity, int]  # the number of findings by severity, including those that are not in `worst`
    worst: Sequence[JudgedFinding]  # the worst findings, worst first


def severities(found: Iterable[JudgedFinding]) -> Counter[Severity]:
    """The number of findings by severity."""
    return Counter(finding.severity for finding in found)


def of_rule(rule: RuleName, checked: int, found: Sequence[JudgedFinding]) -> RuleFindings:
    """The findings about a rule, if all of them are there."""
    return RuleFindings(rule, checked, severities(found), found)


class Names:
    """The names and numbers of consumers, by their indexes in the dispatcher's state."""

    def __init__(self, found: ReplayResult, recorders: Recorders) -> None:
        self._numbers = found.dispatcher.consumers.numbers
        self._stays = found.membership.stays
        self._recorders = recorders

    def number(self, index: int) -> int | None:
        """The number that the recorder gave; None for NOBODY."""
        return None if index == NOBODY else self._recorders.consumer(self._numbers[index])

    def name(self, index: int) -> str | None:
        """The name that the client gave; None for NOBODY."""
        return None if index == NOBODY else self._stays[self._numbers[index]].row.name

    def columns(self, column: str, index: int) -> dict[str, Any]:
        """The columns with the number and the name of a consumer."""
        return {column: self.number(index), f"{column}_name": self.name(index)}

    def spoken(self, index: int) -> str:
        """The name and number of a consumer for a text; the number distinguishes equal names (Q19)."""
        if index == NOBODY:
            return "nobody"
        return f"{self.name(index)} (consumer {self._recorders.spoken_consumer(self._numbers[index])})"

    def seq(self, seq: int) -> str:
        """The seq of a row for a text, with the recorder if there are several."""
        return self._recorders.spoken(seq)

    def own_seq(self, seq: int) -> int:
        """The recorder's own seq of a row."""
        return self._recorders.seq(seq)


def position(ledger: int, entry: int) -> str:
    """A position as Pulsar writes it, `ledger:entry`."""
    return f"{ledger}:{entry}"


def or_none(value: int) -> int | None:
    """A number of the kernel as an int, or None for UNKNOWN."""
    return None if value == UNKNOWN else int(value)
