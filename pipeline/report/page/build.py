"""Builds the page of a run from the tables of a target."""

from collections.abc import Iterator

from pyspark.sql import SparkSession

from dispatch_audit.pipeline.contract.recorded_by import BROKER, OUTSIDE
from dispatch_audit.pipeline.contract.severity import WORST_FIRST, Severity
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.answers import answers_on
from dispatch_audit.pipeline.report.charts.hash_timeline import hash_timeline
from dispatch_audit.pipeline.report.charts.parts.data import cost
from dispatch_audit.pipeline.report.charts.theme import config
from dispatch_audit.pipeline.report.page.assignment_figures import assignment_section
from dispatch_audit.pipeline.report.page.blocking_figures import blocking_section
from dispatch_audit.pipeline.report.page.findings import finding_views, incident_views, rule_views, shown_findings
from dispatch_audit.pipeline.report.page.model import Page
from dispatch_audit.pipeline.report.page.next_steps import next_steps
from dispatch_audit.pipeline.report.page.other_sections import (
    hot_key_section,
    limits_section,
    quarantine_section,
    trend_section,
)
from dispatch_audit.pipeline.report.page.render import rendered
from dispatch_audit.pipeline.report.page.rows import PageRows, open_seconds, read_rows
from dispatch_audit.pipeline.report.query import summarise
from dispatch_audit.pipeline.report.summary import RunSummary
from dispatch_audit.pipeline.report.text.next_step import worth_a_look
from dispatch_audit.pipeline.report.wording import DIGESTS, duration, moment, of_sample, together
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.tables.way import tables_of

# What the number of findings of a severity counts: of one, and of several.
_COUNTED: dict[Severity, tuple[str, str]] = {
    "violation": ("violation", "violations"),
    "known_bug": ("finding of a known bug", "findings of known bugs"),
    "not_provable": ("finding not provable", "findings not provable"),
    "permitted": ("permitted finding", "permitted findings"),
    "info": ("fact beside the contract", "facts beside the contract"),
}
_STARTS_FROM: dict[str | None, str] = {
    "state": ", continued from the window before",
    "censored": "; what was open when it began is not known",
}


def page_of_run(spark: SparkSession | None, target: str, run_key: str) -> str:
    """Returns the page of one run as an HTML document.

    Args:
        spark: the session; None is enough for tables below a local path.
        target: where the tables are, as `parse_target` reads it.
        run_key: the run.

    Raises:
        UsageError: there is no such run.
    """
    (run,) = summarise(spark, target, [run_key]).runs
    return rendered(built_page(spark, target, run))


def built_page(spark: SparkSession | None, target: str, run: RunSummary) -> Page:
    """Returns what the page of a run says."""
    shown = shown_findings(run)
    rows = read_rows(tables_of(spark, parse_target(target)), run, shown)
    findings = finding_views(shown, rows, target)
    rules = rule_views(run.rules)
    return Page(
        title=together(run.inputs),
        run_key=run.run_key,
        answers=answers_on(run),
        held_up=_held_up(run),
        completeness=run.completeness,
        basis=tuple(_basis(run, rows)),
        key_figures=tuple(_key_figures(run, rows)),
        next_steps=next_steps(run.without_accepted, [finding for finding in findings if not finding.accepted], target),
        incidents=incident_views(shown, findings),
        findings=findings,
        findings_total=sum(sum(rule.findings.values()) for rule in rules),
        rules=rules,
        rules_without=tuple(
            counts.rule for counts in run.rules if counts.checked and not any(counts.findings.values())
        ),
        rules_unchecked=tuple(
            counts.rule for counts in run.rules if not counts.checked and not any(counts.findings.values())
        ),
        sections=(
            blocking_section(run, rows),
            assignment_section(run, rows),
            hot_key_section(run, rows),
            trend_section(rows),
            quarantine_section(run, rows),
            limits_section(run, rows),
        ),
        timeline=_timeline(),
        target=target,
        themes={"light": config("light"), "dark": config("dark")},
    )


def _held_up(run: RunSummary) -> str:
    block = worth_a_look(run)
    if block is None or run.progress in ("held_up", "stalled"):
        return ""
    return f"Some messages waited for up to {duration(block.longest_s)} ({block.cause})."


def _timeline() -> dict[str, object]:
    """Returns the chart that all findings share; each has its own rows."""
    spec = hash_timeline([]).to_dict(validate=False)
    return {**{name: value for name, value in spec.items() if name != "datasets"}, "data": {"name": "story"}}


def _basis(run: RunSummary, rows: PageRows) -> Iterator[tuple[str, str]]:
    yield "Trace", together(run.inputs)
    yield "Events", f"{run.events_in:,} read, {run.events_quarantined:,} quarantined"
    if run.from_ts_us is not None and run.to_ts_us is not None:
        length = duration((run.to_ts_us - run.from_ts_us) / 1e6)
        yield "Time", f"{moment(run.from_ts_us)} to {moment(run.to_ts_us)} UTC ({length})"
    if run.window is not None:
        yield "Window", f"{run.window.text}{_STARTS_FROM.get(run.starts_from, '')}"
    groups = {(group.topic, group.subscription) for group in run.groups}
    topics = {topic for topic, _ in groups}
    if len(groups) == 1:
        topic, subscription = next(iter(groups))
        yield "Topic", topic
        yield "Subscription", subscription
    elif groups:
        yield "Scope", f"{count(len(groups), 'subscription')} of {count(len(topics), 'topic partition')}"
    yield "Broker", f"Pulsar {run.pulsar_version}" if run.pulsar_version else "version not stated"
    if outside := OUTSIDE.get(run.recorded_by or BROKER):
        yield "Source", f"{outside.described}: {outside.not_judged}"
    judged = run.judged_as
    yield "Profile", f"{run.profile}; {judged}" if judged else run.profile
    if run.keys_digested:
        yield "Keys", DIGESTS
    if run.sample is not None:
        yield "Hashes", of_sample(*run.sample)
    if run.chosen:
        yield "Only", f"topics and subscriptions {' '.join(run.chosen)}"
    yield "Run", run.run_key
    audited = f"{moment(rows.run['ended_at_us'])} UTC, dispatch-audit {rows.run['code_version']}"
    yield "Audited", f"{audited}{f' on {run.engine}' if run.engine else ''}"


def _key_figures(run: RunSummary, rows: PageRows) -> Iterator[tuple[str, str, str]]:
    counts = {severity: sum(rule.findings[severity] for rule in run.rules) for severity in WORST_FIRST}
    found = [severity for severity in WORST_FIRST if counts[severity]]
    for severity in found[:2]:
        yield f"{counts[severity]:,}", _COUNTED[severity][counts[severity] != 1], "findings"
    if run.accepted:
        yield f"{run.accepted:,}", "of them accepted by the baseline", "findings"
    if not found:
        checked = sum(counts.checked > 0 for counts in run.rules)
        yield "0", f"findings of {count(checked, 'rule')}", "findings"
    if run.causes:
        first = run.causes[0]
        yield cost(first.message_seconds), f"message-seconds of {first.cause}", "blocking"
    if rows.longest:
        yield duration(open_seconds(rows.longest[0], run.to_ts_us)), "without progress for any consumer", "blocking"
    spans = len(rows.draining)
    if spans:
        yield f"{spans:,}", "hashes drained", "assignment"
