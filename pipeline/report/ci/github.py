"""The summary for a GitHub Actions run: annotations as workflow commands, and Markdown for the page of the run.

Clients choose names and keys: these are escaped, so that they neither start or end a command, nor become a link, a tag
or a row of a table.
Source: GitHub, "Workflow commands for GitHub Actions"; the escapes are those of actions/toolkit; CommonMark 0.31, 2.5.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from operator import itemgetter

from dispatch_audit.pipeline.contract.recorded_by import BROKER, OUTSIDE
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.answers import answers_on, answers_on_all, line_of
from dispatch_audit.pipeline.report.ci.levels import LEVELS, Level, tally_of
from dispatch_audit.pipeline.report.ci.locations import SourceLocation, source_locations
from dispatch_audit.pipeline.report.explain_command import explain_command
from dispatch_audit.pipeline.report.summary import Finding, RunSummary, Summary
from dispatch_audit.pipeline.report.wording import DIGESTS, dropped, printable, sentence, share, together
from dispatch_audit.pipeline.trace import Trace

_COMMANDS: dict[Level, str] = {"error": "error", "warning": "warning", "note": "notice"}
# GitHub shows no more annotations of each level and step.
_ANNOTATIONS = 10
# A line end within the message of a command.
_LINE_END = "%0A"
# Findings listed for each trace.
_LISTED = 20
# GitHub drops the page of a step if it exceeds 1 MiB; other commands of the step may write to it too.
_PAGE_BYTES_MAX = 1_000_000


def annotations(summary: Summary, traces: Sequence[Trace]) -> str:
    """Returns a workflow command for each of the worst findings, a line each.

    Args:
        summary: of the audit.
        traces: the audited traces, in the order of the summary's runs.
    """
    by_level: dict[Level, list[tuple[int, str]]] = {level: [] for level in _COMMANDS}
    for run, trace in zip(summary.runs, traces, strict=True):
        by_level["warning"] += [(0, command) for command in _held_up(run)]
        before: Counter[str] = Counter()
        findings = run.without_accepted.findings
        for finding, location in zip(findings, source_locations(trace, findings), strict=True):
            command = _command(finding, location, summary.target)
            by_level[LEVELS[finding.severity]].append((before[finding.rule], command))
            before[finding.rule] += 1
    # The worst of every rule and trace, then the second worst, so that no trace takes all the annotations.
    shown = (sorted(commands, key=itemgetter(0))[:_ANNOTATIONS] for commands in by_level.values())
    return "".join(command for commands in shown for _, command in commands)


def _held_up(run: RunSummary) -> Iterator[str]:
    """Yields the annotation on a run of which a subscription was held up; a stall has its findings."""
    if run.progress == "held_up":
        *_, progress = answers_on(run)
        file = _property(together(run.inputs))
        yield f"::warning file={file},title=progress%3A held up::{_data(line_of(progress))}\n"


def _command(finding: Finding, location: SourceLocation, target: str) -> str:
    title = f"{finding.rule}: {finding.severity.replace('_', ' ')}{f' ({finding.reason})' if finding.reason else ''}"
    line = "" if location.line is None else f",line={location.line}"
    lines = [f"{label}: {text}" for label, texts in finding.parts.items() for text in texts]
    lines.append(f"where: {finding.topic}, {finding.subscription}")
    if finding.finding_id is not None:
        lines.append(f"more: {explain_command(target, finding.finding_id)}")
    name = _COMMANDS[LEVELS[finding.severity]]
    message = _LINE_END.join(map(_data, lines))
    return f"::{name} file={_property(location.path)}{line},title={_property(title)}::{message}\n"


def _data(text: str) -> str:
    # `printable` has already replaced the line ends, which GitHub would want escaped.
    return printable(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def markdown(summary: Summary) -> str:
    """Returns the summary as GitHub-flavoured Markdown: findings by rule, and the worst of them.

    For traces that do not fit on the page it gives their number and their worst verdict.
    """
    lead = "".join(f"- {_literal(path)} is unusable: {_literal(str(error))}\n\n" for path, error in summary.unusable)
    parts = ["\n".join(_run(run, summary.target)) + "\n" for run in summary.runs]
    ends = accumulate((len(part.encode()) for part in parts), initial=len(lead.encode()))
    shown = sum(end <= _PAGE_BYTES_MAX for end in ends) - 1
    left = summary.runs[shown:]
    if not left:
        return lead + "".join(parts)
    answers = answers_on_all(replace(summary, runs=left))
    worst = ", ".join(f"{answer.question} {answer.word}" for answer in answers)
    return (
        lead
        + "".join(parts[:shown])
        + f"{count(len(left), f'more {summary.run_is}')}, at worst {worst}: see table `runs`.\n"
    )


def _run(run: RunSummary, target: str) -> Iterator[str]:
    answers = answers_on(run)
    yield f"### {_literal(together(run.inputs))}: {', '.join(f'{answer.question} {answer.word}' for answer in answers)}"
    yield ""
    yield from (f"- {sentence(answer.question)[:-1]}: {_literal(answer.text)}" for answer in answers)
    yield ""
    broker = f"Pulsar {_literal(run.pulsar_version)}, " if run.pulsar_version else ""
    yield (
        f"{count(run.events_in, 'event')}, {run.events_quarantined:,} quarantined; completeness "
        f"{share(run.completeness)}; {broker}profile {_literal(run.profile)}"
        f"{f' ({_literal(run.judged_as)})' if run.judged_as else ''}; run `{run.run_key}`"
        f"{f' on {run.engine}' if run.engine else ''}"
    )
    if outside := OUTSIDE.get(run.recorded_by or BROKER):
        yield from ("", sentence(f"{outside.described}: {outside.not_judged}"))
    lost, gaps = (sum(getattr(part, of) or 0 for part in run.incomplete) for of in ("rows_dropped", "gaps"))
    if gaps:
        yield from ("", f"{dropped(lost, gaps)}.")
    if run.keys_digested:
        yield from ("", f"Keys are {_literal(DIGESTS)}.")
    found = [counts for counts in run.rules if any(counts.findings.values())]
    if not found:
        checked = sum(counts.checked > 0 for counts in run.rules)
        rest = len(run.rules) - checked
        nothing = f", {rest:,} had nothing to check" if rest else ""
        yield from ("", f"No findings; {count(checked, 'rule')} checked{nothing}.", "")
        return
    yield ""
    yield from _table(("rule", "checked", "found"), ((c.rule, f"{c.checked:,}", tally_of(c)) for c in found))
    yield ""
    shown = run.findings[:_LISTED]
    rows = (_listed(finding, target) for finding in shown)
    yield from _table(("finding", "where", "explanation", "its events"), rows)
    more = sum(sum(counts.findings.values()) for counts in found) - len(shown)
    if more:
        yield from ("", f"{count(more, 'more finding')}; the worst of them are in table `violations`.")
    yield ""


def _listed(finding: Finding, target: str) -> tuple[str, str, str, str]:
    label = finding.severity.replace("_", " ") + (f" ({finding.reason})" if finding.reason else "")
    label += ", accepted" if finding.accepted else ""
    key = f", key {finding.key}" if finding.key is not None else ""
    where = f"{finding.topic}, {finding.subscription}{key}, {finding.row}"
    command = "" if finding.finding_id is None else explain_command(target, finding.finding_id)
    return f"{finding.rule}: {label}", where, finding.explanation, command


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(_literal, row))} |"


def _literal(text: str) -> str:
    """Returns a text that Markdown shows as it is: all but letters, digits and plain marks become references."""
    return "".join(c if c.isalnum() or c in " ,;/-" else f"&#{ord(c)};" for c in printable(text))
