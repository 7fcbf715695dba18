"""Findings with one cause as one incident: a join that let thirteen entries overtake is one thing to look at.

The cause of a finding is the membership change that its words name, with the consumer that got the entry; else the
known bug or the exception behind it; else that consumer. Findings of several rules, severities or subscriptions are
never one incident. The worst incident about order is the answer on order, in one sentence.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from dispatch_audit.pipeline.contract.known_bugs import labels_in
from dispatch_audit.pipeline.contract.severity import SEVERITIES, Severity
from dispatch_audit.pipeline.replay.settings.assumed import Assumption
from dispatch_audit.pipeline.report.summary import Finding, RunSummary
from dispatch_audit.pipeline.report.wording import consumer, moment, named, printable

# Each of its findings is about a setting of its own.
_EACH_ALONE: Final = "settings_mismatch"
# Of the consumers and keys of an incident.
_NAMED_MAX: Final = 4
_HELD: Final = "single_holder"


@dataclass(frozen=True)
class Incident:
    """Findings of one rule with one cause.

    Attributes:
        findings: at least one, the worst first.
    """

    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Finding:
        """The finding that stands for the others."""
        return self.findings[0]

    @property
    def rule(self) -> str:
        """The rule that all of them break."""
        return self.worst.rule

    @property
    def severity(self) -> Severity:
        """The severity of all of them."""
        return self.worst.severity

    @property
    def topic(self) -> str:
        """The topic partition of all of them."""
        return self.worst.topic

    @property
    def subscription(self) -> str:
        """The subscription of all of them."""
        return self.worst.subscription

    @property
    def change(self) -> str | None:
        """The membership change behind them, such as `join c2`; None: their words name none."""
        return self.worst.change

    @cached_property
    def reason(self) -> str:
        """The bugs or the exception behind them, as tables name them; empty: there is none."""
        reasons = (finding.reason for finding in self.findings)
        return ", ".join(dict.fromkeys(label for of in reasons for label in labels_in(of)))

    @cached_property
    def remedies(self) -> tuple[str, ...]:
        """What helps, each remedy once."""
        return tuple(dict.fromkeys(finding.remedy for finding in self.findings if finding.remedy))

    @cached_property
    def why(self) -> tuple[str, ...]:
        """The different reasons for their verdicts, those of the worst finding first."""
        return tuple(dict.fromkeys(why for finding in self.findings for why in finding.why))


def assumed_by(findings: Iterable[Finding]) -> tuple[Assumption, ...]:
    """What findings assume of settings, each once, in the order of the findings."""
    return tuple(dict.fromkeys(assumed for finding in findings for assumed in finding.assumes))


def incidents(findings: Iterable[Finding]) -> list[Incident]:
    """Returns the incidents in the order of their first findings."""
    by_cause: dict[Hashable, list[Finding]] = {}
    for finding in findings:
        by_cause.setdefault(_cause(finding), []).append(finding)
    return [Incident(tuple(of_cause)) for of_cause in by_cause.values()]


def _cause(finding: Finding) -> Hashable:
    # A stall of the whole subscription and one of a hash are different incidents.
    of = (finding.rule, finding.severity, finding.topic, finding.subscription, finding.sticky_hash is None)
    if finding.rule == _EACH_ALONE:
        return (*of, finding.explanation)
    # Of several bugs the first is the closest.
    closest = next(iter(labels_in(finding.reason)), None)
    if finding.change is not None:
        return (*of, closest, finding.change, finding.broker, finding.consumer)
    return (*of, closest) if closest else (*of, None, finding.broker, finding.consumer)


def broken_order(run: RunSummary) -> str:
    """Returns the worst incident about order, beginning with a small letter; empty: no finding is shown.

    Args:
        run: whose order was broken, perhaps as known bugs do.
    """
    rules = {counts.rule for counts in run.about("order")}
    found = incidents(f for f in run.findings if f.rule in rules and f.severity in ("violation", "known_bug"))
    worst = max(found, key=lambda incident: SEVERITIES.index(incident.severity), default=None)
    return "" if worst is None else in_one_sentence(worst)


def in_one_sentence(incident: Incident) -> str:
    """Returns who got what, against whom, since when, why and what helps; it begins with a small letter."""
    worst = incident.worst
    reason = f" ({printable(incident.reason)})" if incident.reason else ""
    # A remedy is one sentence or several: what to do, and other ways.
    remedies = (printable(text).removesuffix(".") for text in incident.remedies)
    helps = "".join(f"; {text[:1].lower()}{text[1:]}" for text in remedies)
    since = moment(min(finding.ts_us for finding in incident.findings))
    receivers = _listed(consumer(f.consumer, f.consumer_name) for f in incident.findings if f.consumer is not None)
    holders = _listed(
        consumer(f.other_consumer, f.other_consumer_name) for f in incident.findings if f.other_consumer is not None
    )
    if incident.rule == _HELD and receivers and holders:
        keys = _listed(f"hash {f.sticky_hash}" if f.key is None else named(f.key) for f in incident.findings)
        sent = f"from {since} UTC on {receivers} was sent {keys}"
        return f"{sent} while {holders} still held entries of the same{reason}{helps}"
    key = "" if worst.key is None else f" (key {named(worst.key)})"
    against = f", although {printable(worst.against)}" if worst.against else ""
    return f"{printable(worst.what)}{key}{against}{reason}{helps}"


def _listed(names: Iterable[str]) -> str:
    different = [*dict.fromkeys(names)]
    shown, more = different[:_NAMED_MAX], len(different) - _NAMED_MAX
    if more > 0:
        return f"{', '.join(shown)} and {more:,} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))
