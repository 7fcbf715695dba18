"""Answers one question about an audited trace: a finding, a hash or key, an entry, a consumer, or a moment."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from dispatch_audit.pipeline.contract.answers import STUCK
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.explain.at_moment import StateAtMoment, moment_at
from dispatch_audit.pipeline.explain.audited_run import AuditedRun, finding_with, run_with, subscription_of
from dispatch_audit.pipeline.explain.story import Middle, Story, Subject, packed_events, story_of
from dispatch_audit.pipeline.explain.subscription_events import SubscriptionEvents
from dispatch_audit.pipeline.explain.trace_rows import needs_session, subscription_rows
from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.pipeline.tables.tables import Tables, of_run
from dispatch_audit.pipeline.trace import Trace
from dispatch_audit.pipeline.trace.sources import from_here
from dispatch_audit.pipeline.utc import moment as moment_text

Row = dict[str, Any]

# Consumers that an error names.
_NAMED_MAX: Final = 5


@dataclass(frozen=True)
class Question:
    """A question; one of `finding_id`, `sticky_hash`, `key`, `entry`, `consumer` and `at_us` is given.

    A moment or a span is also given beside all of these but a finding.

    Attributes:
        finding_id: the finding to explain.
        sticky_hash: the hash to follow.
        key: the key whose hash to follow.
        entry: the entry to follow, ledger and entry.
        consumer: the name of the consumers to follow, or the number of one.
        at_us: a moment, microseconds since 1970 UTC.
        from_us: where the span of a story begins.
        to_us: where it ends, not in it.
        topic: the topic, in full or its last part; None: there is only one.
        subscription: the subscription; None: there is only one.
        run_key: the run; None: the newest one.
        trace: where the trace is; None: where it was audited.
        events_max: most events of a story.
    """

    finding_id: str | None = None
    sticky_hash: int | None = None
    key: str | None = None
    entry: tuple[int, int] | None = None
    consumer: str | None = None
    at_us: int | None = None
    from_us: int | None = None
    to_us: int | None = None
    topic: str | None = None
    subscription: str | None = None
    run_key: str | None = None
    trace: str | None = None
    events_max: int = 100


@dataclass(frozen=True)
class StoryEvidence:
    """What a story rests on.

    Attributes:
        run: the run.
        trace: its trace.
        rows: of the subscription, and the publishes of its topic.
        events: these rows, packed.
    """

    run: AuditedRun
    trace: Trace
    rows: pa.Table
    events: SubscriptionEvents


@dataclass(frozen=True)
class Explanation:
    """The answer: a story with its evidence, or the state at a moment.

    Attributes:
        run_key: the run that it is about.
        source: the trace and the run, in a few words.
        finding: the row of `violations` that the story is about; None: it is about none.
        story: the story; None: only a moment was asked for.
        evidence: of the story.
        consumers: the rows of `consumers` that a story of consumers is about.
        moment: the state at the moment.
    """

    run_key: str
    source: str
    finding: Row | None = None
    story: Story | None = None
    evidence: StoryEvidence | None = None
    consumers: tuple[Row, ...] = ()
    moment: StateAtMoment | None = None


def answer(question: Question, tables: Tables, session: Callable[[], SparkSession]) -> Explanation:
    """Returns the answer to a question.

    Args:
        question: the question.
        tables: of the target.
        session: starts a session; called for a trace that only Spark can read.

    Raises:
        UsageError: the tables have no such run, finding or subscription, or the trace is not where it was.
        TraceError: the trace cannot be read.
    """
    if question.finding_id is not None:
        return _about_finding(question, question.finding_id, tables, session)
    run = run_with(tables, question.run_key)
    group = subscription_of(tables, run.run_key, question.topic, question.subscription)
    if question.consumer is not None:
        return _about_consumer(question, question.consumer, run, group, tables, session)
    if question.entry is not None:
        return _about_entry(question, question.entry, run, group, session)
    if question.sticky_hash is None and question.key is None:
        at_us = question.at_us or 0
        _refuse_outside(at_us, run, run.from_us, run.to_us)
        moment = moment_at(tables, run.run_key, group, at_us)
        return Explanation(run.run_key, _source(run, question), moment=moment)
    return _about_hash(question, run, group, tables, session)


def _about_finding(
    question: Question, finding_id: str, tables: Tables, session: Callable[[], SparkSession]
) -> Explanation:
    finding = finding_with(tables, finding_id)
    run, group = run_with(tables, finding["run_key"]), Group(finding["topic"], finding["subscription"])
    evidence = _evidence(run, question, group, session)
    subject = Subject(_hash_of(finding, evidence.events), finding["key"])
    story = story_of(evidence.rows, evidence.events, subject, _middle_of(finding), question.events_max)
    return Explanation(run.run_key, _source(run, question), finding, story, evidence)


def _middle_of(finding: Row) -> Middle:
    return Middle(finding["broker"], finding["seq"], offending=True, ends_wait=finding["rule"] in STUCK)


def _about_hash(
    question: Question, run: AuditedRun, group: Group, tables: Tables, session: Callable[[], SparkSession]
) -> Explanation:
    evidence = _evidence(run, question, group, session)
    sticky_hash = question.sticky_hash if question.key is None else evidence.events.hash_of_key(question.key)
    assert sticky_hash is not None
    finding, middle = None, _asked_for(question, run, evidence)
    if middle is None:
        finding, middle = _of_interest(tables, run, group, sticky_hash)
    subject = Subject(sticky_hash, question.key, from_us=question.from_us, to_us=question.to_us)
    name = f"hash {sticky_hash}" if question.key is None else f"key {question.key} (hash {sticky_hash})"
    story = _story(question, evidence, subject, middle, name, "hot_keys and violations have hashes that are there")
    return Explanation(run.run_key, _source(run, question), finding, story, evidence)


def _about_entry(
    question: Question, entry: tuple[int, int], run: AuditedRun, group: Group, session: Callable[[], SparkSession]
) -> Explanation:
    evidence = _evidence(run, question, group, session)
    subject = Subject(
        evidence.events.hash_of_entry(*entry), entry=entry, from_us=question.from_us, to_us=question.to_us
    )
    middle = _asked_for(question, run, evidence) or Middle()
    way_out = "take LEDGER:ENTRY from a report, and name its topic with --topic"
    story = _story(question, evidence, subject, middle, f"entry {entry[0]}:{entry[1]}", way_out)
    return Explanation(run.run_key, _source(run, question), None, story, evidence)


def _about_consumer(
    question: Question,
    consumer: str,
    run: AuditedRun,
    group: Group,
    tables: Tables,
    session: Callable[[], SparkSession],
) -> Explanation:
    evidence = _evidence(run, question, group, session)
    numbers = evidence.events.numbers_of(consumer)
    rows = _of_group(tables, "consumers", run, group, "ORDER BY joined_at_us, consumer")
    if not numbers:
        names = dict.fromkeys(str(row["consumer_name"] or row["consumer"]) for row in rows)
        listed = ", ".join([*names][:_NAMED_MAX]) + (
            f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
        )
        raise UsageError(f"{group.subscription} has no consumer {consumer}, but {listed}", "name one of these")
    recorders = evidence.events.recorders
    own = {
        (recorders.recorder_of(number) if recorders.terms else None, recorders.consumer(number)) for number in numbers
    }
    about = tuple(row for row in rows if (row["broker"] if recorders.terms else None, row["consumer"]) in own)
    middle = _asked_for(question, run, evidence)
    if middle is None:
        # Where it held others up for longest.
        held = _of_group(tables, "blocking", run, group, "ORDER BY message_seconds DESC, from_seq")
        worst = next((row for row in held if row["blocking_consumer"] in {row["consumer"] for row in about}), None)
        middle = Middle() if worst is None else Middle(worst["broker"], worst["from_seq"])
    subject = Subject(consumers=numbers, from_us=question.from_us, to_us=question.to_us)
    story = _story(question, evidence, subject, middle, f"consumer {consumer}", "leave the span out")
    return Explanation(run.run_key, _source(run, question), None, story, evidence, about)


def _of_group(tables: Tables, table: str, run: AuditedRun, group: Group, order: str) -> list[Row]:
    """The rows of a subscription; not by the SQL, because engines read a name with a backslash differently."""
    rows = tables.query(table, "*", f"WHERE {of_run(run.run_key)} {order}")
    return [row for row in rows if (row["topic"], row["subscription"]) == group]


def _asked_for(question: Question, run: AuditedRun, evidence: StoryEvidence) -> Middle | None:
    """The moment or the beginning of the span that a question names; None: it names neither."""
    times = pc.min_max(evidence.rows["ts_us"]).as_py()
    if question.at_us is not None:
        _refuse_outside(question.at_us, run, times["min"], times["max"])
        return Middle(ts_us=question.at_us)
    if question.from_us is None and question.to_us is None:
        return None
    return Middle(ts_us=max(question.from_us or 0, times["min"]))


def _story(
    question: Question, evidence: StoryEvidence, subject: Subject, middle: Middle, name: str, way_out: str
) -> Story:
    story = story_of(evidence.rows, evidence.events, subject, middle, question.events_max)
    if not story.total:
        span = "" if question.from_us is None and question.to_us is None else " in this span"
        raise UsageError(f"no row of the trace is about {name}{span}", way_out)
    return story


def _refuse_outside(at_us: int, run: AuditedRun, first_us: int | None, last_us: int | None) -> None:
    """Refuses a moment before the first row or after the last one, for which the tables have no rows.

    Raises:
        UsageError: the moment is outside.
    """
    if first_us is not None and last_us is not None and not first_us <= at_us <= last_us:
        raise UsageError(
            f"--at {moment_text(at_us)} is not within run {run.run_key}, whose rows are of {moment_text(first_us)} to "
            f"{moment_text(last_us)} UTC",
            "name a moment between them",
        )


def _evidence(run: AuditedRun, question: Question, group: Group, session: Callable[[], SparkSession]) -> StoryEvidence:
    trace = run.trace(question.trace)
    rows = subscription_rows(trace, group, session() if needs_session(trace) else None)
    if not rows.num_rows:
        raise UsageError(
            f"{trace.path} has no row of {group.topic}, {group.subscription}",
            "pass --trace PATH, where the trace is now",
        )
    return StoryEvidence(run, trace, rows, packed_events(rows, group, run.config(trace)))


def _hash_of(finding: Row, events: SubscriptionEvents) -> int | None:
    sticky_hash: int | None = finding["sticky_hash"]
    if sticky_hash is None and finding["ledger_id"] is not None:
        # A mixed batch or an acknowledgement by another consumer is about an entry.
        return events.hash_of_entry(finding["ledger_id"], finding["entry_id"])
    return sticky_hash


def _of_interest(tables: Tables, run: AuditedRun, group: Group, sticky_hash: int) -> tuple[Row | None, Middle]:
    """Returns the first finding of a hash and its row, else the beginning of its longest block, else its first row."""

    def first(table: str, order: str) -> Row | None:
        return next(
            iter(_of_group(tables, table, run, group, f"AND sticky_hash = {sticky_hash} ORDER BY {order}")), None
        )

    if found := first("violations", "ts_us, seq, rule"):
        return found, _middle_of(found)
    if block := first("blocking", "message_seconds DESC, from_seq"):
        return None, Middle(block["broker"], block["from_seq"])
    return None, Middle()


def _source(run: AuditedRun, question: Question) -> str:
    return f"{question.trace or ', '.join(map(from_here, run.inputs))}, run {run.run_key}: {run.answers}"
