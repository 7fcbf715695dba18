"""The rules of a run, and its worst incidents: a headline each, and labelled lines below it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table
from rich.text import Text

from dispatch_audit.pipeline.contract.rules import RULES
from dispatch_audit.pipeline.contract.severity import NEED_A_LOOK, WORST_FIRST, Severity
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.explain_command import explain_command
from dispatch_audit.pipeline.report.incidents import Incident, assumed_by
from dispatch_audit.pipeline.report.summary import Finding, RuleCounts, RunSummary
from dispatch_audit.pipeline.report.text.layout import Labelled
from dispatch_audit.pipeline.report.text.topics import TopicNames
from dispatch_audit.pipeline.report.wording import consumer, listed, moment, named, printable

SEVERITY_STYLE: dict[Severity, str] = {
    "violation": "bold red",
    "known_bug": "bold yellow",
    "not_provable": "bold yellow",
    "permitted": "cyan",
    "info": "blue",
}
# What a number of findings of a severity counts: of one, and of several.
_COUNTED: dict[Severity, tuple[str, str]] = {
    "violation": ("violation", "violations"),
    "known_bug": ("matches a known bug", "match known bugs"),
    "not_provable": ("not provable", "not provable"),
    "permitted": ("permitted", "permitted"),
    "info": ("fact", "facts"),
}
# The first incidents of a rule often cause the later ones.
_INCIDENTS = 3
# Of the names in a line, and of the sentences under a label.
_NAMED = 5
_SENTENCES = 3


def worst_of_each(by_rule: Sequence[Incident], number: int | None) -> list[Incident]:
    """Returns the worst incident of each rule, then the second worst of each, up to a number of them.

    Permitted findings and facts are counted only, unless more are asked for.

    Args:
        by_rule: all that are known, the worst rule first, and the worst of a rule first.
        number: of incidents to return; they keep the order that they had. None: a few of those that need a look.
    """
    before: Counter[str] = Counter()
    ranks = []
    for at, incident in enumerate(by_rule):
        if number is not None or incident.severity in NEED_A_LOOK:
            ranks.append((before[incident.rule], at))
            before[incident.rule] += 1
    shown = sorted(ranks)[: _INCIDENTS if number is None else number]
    return [by_rule[at] for at in sorted(at for _, at in shown)]


def findings(shown: Sequence[Incident], run: RunSummary, target: str, topics: TopicNames) -> Iterator[Text | Labelled]:
    """The worst incidents, each with its evidence and the command that shows it event by event."""
    total = sum(sum(counts.findings.values()) for counts in run.rules) - run.accepted
    in_sight = sum(len(incident.findings) for incident in shown)
    more = f", {in_sight:,} of {count(total, 'finding')} (--findings N shows N incidents)" if total > in_sight else ""
    yield Labelled(
        "", Text(f"The worst {'incident' if len(shown) == 1 else 'incidents'}{more}", style="bold"), column=0
    )
    read = Counter(finding.rule for finding in run.findings)
    # Of a rule with many findings the report has the worst: how many of the others belong to an incident is not known.
    cut_off = {counts.rule for counts in run.rules if sum(counts.findings.values()) > read[counts.rule]}
    for number, incident in enumerate(shown):
        if number:
            yield Text()
        least = "at least " if incident.rule in cut_off and len(incident.findings) > 1 else ""
        yield _headline(incident, topics, least)
        for label, lines in _labelled(incident, least):
            for at, line in enumerate(lines):
                yield Labelled(Text("" if at else label, style="dim"), printable(line), column=11, indent=2)
        if incident.worst.finding_id is not None:
            command = printable(explain_command(target, incident.worst.finding_id))
            yield Labelled(Text("more", style="dim"), command, column=11, indent=2, whole=True)


def _headline(incident: Incident, topics: TopicNames, least: str) -> Labelled:
    """Severity and reason, rule, how many entries or hashes, and the change behind them."""
    reason = f" ({printable(incident.reason)})" if incident.reason else ""
    label = f"{incident.severity.replace('_', ' ')}{reason}"
    after = ""
    if incident.change is not None:
        kind, _, name = incident.change.partition(" ")
        after = f"one {kind} of {printable(name)}" if name else f"one {kind}"
    key = incident.worst.key
    about = [
        f"{least}{_counted(incident)}",
        f"key {named(key)}" if key is not None and len(incident.findings) == 1 else "",
        after,
        topics.suffix(incident, "{}"),
    ]
    text = Text(label, style=SEVERITY_STYLE[incident.severity]).append(f"  {incident.rule}", style="not bold default")
    facts = ", ".join(filter(None, about))
    return Labelled("", text.append(f": {facts}" if facts else "", style="not bold default"), column=2)


def _counted(incident: Incident) -> str:
    entries = _positions(incident.findings)
    hashes = {finding.sticky_hash for finding in incident.findings if finding.sticky_hash is not None}
    if _is_about_entries(incident) and entries:
        return f"entry {entries[0]}" if len(entries) == 1 else f"{len(entries):,} entries"
    if hashes:
        return f"hash {next(iter(hashes))}" if len(hashes) == 1 else f"{len(hashes):,} hashes"
    return f"{len(incident.findings):,} times" if len(incident.findings) > 1 else ""


def _is_about_entries(incident: Incident) -> bool:
    """Whether each finding is one dispatch or acknowledgement of an entry; others tell of stretches of time."""
    return any(rule.number is not None for name, rule in RULES.items() if name == incident.rule)


def _positions(found: Iterable[Finding]) -> list[str]:
    positions = ((finding.ledger_id, finding.entry_id) for finding in found)
    return [f"{ledger}:{entry}" for ledger, entry in dict.fromkeys(positions) if ledger is not None]


def _labelled(incident: Incident, least: str) -> Iterator[tuple[str, Sequence[str]]]:
    """The labels of an incident, each with its lines: what its worst finding says, and the facts of the others."""
    first = incident.worst
    yield "what", [first.what]
    yield "against", [first.against] if first.against else []
    if len(incident.findings) > 1:
        yield "alike", _alike(incident, least)
    yield "why", _some(incident.why, max(len(first.why), _SENTENCES))
    yield "assumes", [assumed.text for assumed in assumed_by(incident.findings)]
    yield "remedy", incident.remedies
    yield "rows", incident.worst.evidence


def _alike(incident: Incident, least: str) -> list[str]:
    """The other findings: those about entries in one line, others each with what they say."""
    others = incident.findings[1:]
    if not _is_about_entries(incident):
        sentences = ("; ".join(filter(None, (of.what, of.against))) for of in others)
        return _some(tuple(dict.fromkeys(sentences)))
    last = max(incident.findings, key=lambda finding: (finding.ts_us, finding.seq))
    keys = sorted({named(finding.key) for finding in incident.findings if finding.key is not None})
    to = dict.fromkeys(consumer(f.consumer, f.consumer_name) for f in incident.findings if f.consumer is not None)
    against = dict.fromkeys(
        consumer(f.other_consumer, f.other_consumer_name) for f in incident.findings if f.other_consumer is not None
    )
    parts = [
        f"{least}{count(len(others), 'finding')} more up to {moment(last.ts_us)} ({last.row})",
        f"{'key' if len(keys) == 1 else 'keys'} {_names(keys)}" if keys else "",
        f"to {_names(list(to))}" if len(to) > 1 else "",
        f"against {_names(list(against))}" if len(against) > 1 else "",
    ]
    return [", ".join(filter(None, parts))]


def _names(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return f"{', '.join(names[:_NAMED])} and {more:,} more" if more > 0 else listed(names)


def _some(sentences: Sequence[str], number: int = _SENTENCES) -> list[str]:
    more = len(sentences) - number
    return [*sentences[:number], f"and {more:,} more of this kind"] if more > 0 else list(sentences)


def rules(counts: Sequence[RuleCounts], verbose: bool) -> Iterator[Text | Table | Labelled]:
    """The rules with findings, a line each; with `verbose` their table, and the names of the others."""
    found = [rule for rule in counts if any(rule.findings.values())]
    quiet = [rule.rule for rule in counts if rule not in found and rule.checked]
    idle = [rule.rule for rule in counts if rule not in found and not rule.checked]
    if verbose:
        if found:
            yield _table(found)
        yield from (
            Labelled(label, ", ".join(names), column=21)
            for label, names in (("Nothing found by", quiet), ("Nothing to check for", idle))
            if names
        )
        return
    others = [
        f"{count(len(quiet), 'rule')} found nothing" if quiet else "",
        f"{count(len(idle), 'rule')} had nothing to check" if idle else "",
    ]
    rest = ", ".join(filter(None, others))
    lines = [*map(_numbers, found), *([f"{rest} (-v names them)"] if rest else [])]
    yield from (Labelled("" if at else "Rules", line) for at, line in enumerate(lines))


def _numbers(counts: RuleCounts) -> str:
    found = (f"{n:,} {_COUNTED[severity][n != 1]}" for severity in WORST_FIRST if (n := counts.findings[severity]))
    accepted = sum(counts.accepted.values())
    waived = f" ({accepted:,} accepted by the baseline)" if accepted else ""
    return f"{counts.rule}: {', '.join(found)}{waived}; {counts.checked:,} checked"


def _table(rules: Sequence[RuleCounts]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("rule", no_wrap=True)
    # A heading of two words takes two lines, so that the table fits 80 columns.
    for heading in ("checked", *(severity.replace("_", "\n") for severity in WORST_FIRST)):
        table.add_column(heading, justify="right", vertical="bottom")
    for counts in rules:
        numbers = (counts.findings[severity] for severity in WORST_FIRST)
        cells = (
            Text(f"{n:,}", style=SEVERITY_STYLE[s] if n else "dim") for s, n in zip(WORST_FIRST, numbers, strict=True)
        )
        table.add_row(counts.rule, f"{counts.checked:,}", *cells)
    return table
