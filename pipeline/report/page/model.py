"""What the page of a run says, as plain objects: the template only lays them out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dispatch_audit.pipeline.contract.severity import WORST_FIRST, Severity
from dispatch_audit.pipeline.report.answers import Answer, Tone, worse

# Pixels of the axis and the legend of a chart, and of the header of a lane.
_AXIS = 50
_LANE_HEADER = 30


@dataclass(frozen=True)
class Table:
    """The numbers of a chart, for readers who cannot see it.

    Attributes:
        left_out: how many more rows the tables of the audit have.
        numeric: positions of the columns with numbers, which stand at the right.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int] = frozenset()
    left_out: int = 0


@dataclass(frozen=True)
class Figure:
    """A chart with what it shows in words.

    Attributes:
        name: unique in the page; also that of its chart.
        title: the question that it answers.
        takeaway: the answer in a sentence, from the numbers.
        spec: the chart as a specification of Vega-Lite.
        note: how to read it, and what was left out; may be empty.
    """

    name: str
    title: str
    takeaway: str
    spec: Mapping[str, Any]
    table: Table
    note: str = ""

    @property
    def height(self) -> int:
        """The height of the chart in pixels, about, so that the page does not jump when it is drawn."""
        return _height(self.spec)


def _height(spec: Mapping[str, Any]) -> int:
    if "spec" in spec:
        lanes = {row["lane"] for rows in spec["datasets"].values() for row in rows}
        return len(lanes) * (int(spec["spec"]["height"]) + _LANE_HEADER) + _AXIS
    height = spec["height"]
    encoding = spec["layer"][0]["encoding"]
    axis = 0 if encoding["x"].get("axis", True) is None else _AXIS
    if isinstance(height, (int, float)):
        return int(height) + axis
    steps = {row[encoding["y"]["field"]] for rows in spec["datasets"].values() for row in rows}
    return len(steps) * int(height["step"]) + axis


@dataclass(frozen=True)
class Section:
    """A part of the page that the navigation names.

    Attributes:
        name: its anchor.
        badge: a number or two words after its name in the navigation; may be empty.
        lead: a sentence that stands for the whole section.
        parts: figures by subscription; an empty name stands for the whole run.
        tables: with their captions.
    """

    name: str
    title: str
    lead: str
    badge: str = ""
    parts: tuple[tuple[str, tuple[Figure, ...]], ...] = ()
    tables: tuple[tuple[str, Table], ...] = ()


@dataclass(frozen=True)
class FindingView:
    """One finding.

    Attributes:
        anchor: unique in the page.
        reason: the bug or the exception behind it; may be empty.
        what: what happened.
        against: what contradicts it; empty: it is wrong by itself.
        why: the reasons for the verdict.
        assumes: the values of settings on which it rests and that no row says.
        remedy: what helps; empty: nothing is known to.
        story: rows of its timeline; empty: it has none.
        command: the command that shows it; empty: it has no id.
        accepted: whether the baseline accepts it.
        search: what the filter looks through, in small letters.
    """

    anchor: str
    rule: str
    severity: Severity
    reason: str
    what: str
    against: str
    why: tuple[str, ...]
    assumes: tuple[str, ...]
    remedy: str
    key: str | None
    sticky_hash: str
    at: str
    subscription: str
    evidence: tuple[str, ...]
    command: str
    search: str
    accepted: bool = False
    story: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class IncidentView:
    """Findings with one cause.

    Attributes:
        text: who got what, against whom, since when, why and what helps.
        findings: how many of them the page has.
        anchor: of the worst of them.
        accepted: whether the baseline accepts them.
    """

    rule: str
    severity: Severity
    text: str
    findings: int
    anchor: str
    accepted: bool


@dataclass(frozen=True)
class RuleView:
    """One rule with its numbers, and the promise of the broker that it checks."""

    rule: str
    statement: str
    checked: int
    findings: Mapping[Severity, int]


@dataclass(frozen=True)
class Page:
    """The page of one run.

    Attributes:
        answers: whether order was kept, and whether messages made progress.
        held_up: what held messages up, if it is worth a look and no answer says it; may be empty.
        basis: what the answers rest on, as names and texts.
        key_figures: the few numbers under the answers, each with what it counts and the section that it comes from.
        next_steps: sentences, each with the anchor of the place that it is about.
        incidents: those of the findings, in their order.
        findings: the worst, the worst first.
        findings_total: how many there are in all.
        rules: those with findings, the worst first.
        rules_without: names of the others that were checked.
        rules_unchecked: names of those that had nothing to check.
        timeline: the chart of a finding, without its rows.
    """

    title: str
    run_key: str
    answers: tuple[Answer, ...]
    held_up: str
    completeness: float
    basis: tuple[tuple[str, str], ...]
    key_figures: tuple[tuple[str, str, str], ...]
    next_steps: tuple[tuple[str, str], ...]
    incidents: tuple[IncidentView, ...]
    findings: tuple[FindingView, ...]
    findings_total: int
    rules: tuple[RuleView, ...]
    rules_without: tuple[str, ...]
    rules_unchecked: tuple[str, ...]
    sections: tuple[Section, ...]
    timeline: Mapping[str, Any]
    target: str
    themes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tone(self) -> Tone:
        """The tone of the worse answer."""
        return worse(answer.tone for answer in self.answers)

    @property
    def severities(self) -> tuple[Severity, ...]:
        """The severities with findings, the worst first."""
        return tuple(s for s in WORST_FIRST if any(rule.findings[s] for rule in self.rules))
