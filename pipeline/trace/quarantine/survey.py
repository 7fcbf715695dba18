"""Surveys a trace: its rows by subscription, and whether it can carry a verdict."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pyspark.sql import DataFrame

from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.settings import TraceSettings
from dispatch_audit.pipeline.spark_errors import trace_errors
from dispatch_audit.pipeline.trace.entry_buckets import entry_buckets_refused
from dispatch_audit.pipeline.trace.quarantine.clock_unit import refuse_other_units
from dispatch_audit.pipeline.trace.quarantine.refused_row import RefusedRow
from dispatch_audit.pipeline.trace.quarantine.row_counts import Count
from dispatch_audit.pipeline.trace.seq_range import ALL
from dispatch_audit.pipeline.trace.sources import Trace


@dataclass(frozen=True)
class GroupSurvey:
    """The rows of one subscription of one topic.

    Attributes:
        topic: None for rows that do not name one.
        subscription: None for the publishes of the topic, which belong to each of its subscriptions.
        rows: number of recorded rows, refused ones included.
        refused: number of refused rows by reason.
        first_seq: lowest seq of the good rows; None if there are none, and so for the next three.
        last_seq: highest seq of the good rows.
        first_ts_us: lowest wall clock of the good rows, microseconds since 1970 UTC.
        last_ts_us: highest wall clock of the good rows.
        gaps: number of different good rows that report dropped rows.
        dropped: number of dropped rows.
    """

    topic: str | None
    subscription: str | None
    rows: int
    refused: Mapping[str, int]
    first_seq: int | None
    last_seq: int | None
    first_ts_us: int | None
    last_ts_us: int | None
    gaps: int = 0
    dropped: int = 0


@dataclass(frozen=True)
class TruncatedLog:
    """A log that ends in the middle of a row, as a crashed recorder or a full disk leaves it, and the line of that row.

    A broken last line that ends with a newline was written completely, and is broken like any other.
    """

    file: str
    line: int


@dataclass(frozen=True)
class Survey:
    """The content of a trace.

    Attributes:
        groups: ordered by topic and subscription.
        cut_off: the truncated logs.
    """

    groups: tuple[GroupSurvey, ...]
    cut_off: tuple[TruncatedLog, ...]

    @property
    def rows_in(self) -> int:
        """Number of recorded rows, without blank lines."""
        return sum(group.rows for group in self.groups)

    @property
    def gaps(self) -> int:
        """Number of rows that report dropped rows."""
        return sum(group.gaps for group in self.groups)

    @property
    def dropped(self) -> int:
        """Number of rows that recorders dropped."""
        return sum(group.dropped for group in self.groups)

    @property
    def refused(self) -> int:
        """Number of rows that cannot be audited."""
        return sum(self.refused_by_reason.values())

    @property
    def refused_by_reason(self) -> Mapping[str, int]:
        """Number of refused rows by reason code."""
        return MappingProxyType(dict(sum((Counter(group.refused) for group in self.groups), Counter())))


Refused = Callable[[], DataFrame]
"""Returns refused rows of a trace, as `dispatch_audit.pipeline.plan.staged_texts.rows_in` does.

Among them are the first one and all at which a log ends too early.
"""


def survey(counts: Sequence[Count], refused: Refused, trace: Trace, settings: TraceSettings) -> Survey:
    """Returns the content of a trace that can be audited.

    Args:
        counts: of its rows (`dispatch_audit.pipeline.trace.quarantine.row_counts`).
        refused: its refused rows; called only if there are any.
        trace: the counted trace.
        settings: allowed share of refused rows, and whether truncated logs are allowed.

    Raises:
        TraceError: a file cannot be read, there are no rows, too many are refused, a log is truncated, or a
            subscription used entry-bucket dispatch.
    """
    found = counted_up(counts, refused, trace)
    fault = fault_of(found, refused, trace, settings)
    if fault is not None:
        raise fault
    return found


def counted_up(counts: Sequence[Count], refused: Refused, trace: Trace) -> Survey:
    """Returns the content of a trace, whether the settings allow to audit it or not; arguments as of `survey`.

    Raises:
        TraceError: a file cannot be read, there are no rows, times are in another unit, or a subscription used
            entry-bucket dispatch.
    """
    found = Survey(_groups(counts), ())
    _refuse_entry_buckets(counts, trace)
    refuse_other_units(counts, trace.path)
    # A window of a log may be empty.
    if found.rows_in == 0 and trace.seqs == ALL:
        raise TraceError(f"{trace.path}: the trace is empty", "check that the recorder was running")
    if not found.refused_by_reason.get("cut_off"):
        return found
    with trace_errors():
        return Survey(found.groups, truncated_logs(refused()))


def truncated_logs(refused: DataFrame) -> tuple[TruncatedLog, ...]:
    """Returns the logs that end in the middle of a row.

    Args:
        refused: refused rows with reason, file and line.
    """
    rows = refused.where("reason = 'cut_off'").select("file", "line").orderBy("file").collect()
    return tuple(TruncatedLog(row["file"], row["line"]) for row in rows)


def fault_of(found: Survey, refused: Refused, trace: Trace, settings: TraceSettings) -> TraceError | None:
    """Returns why the settings refuse a trace; None: they accept it. The arguments are those of `survey`."""
    if found.refused > settings.quarantine_ratio_max * found.rows_in:
        with trace_errors():
            return _too_much_refused(found, refused(), trace, settings)
    if found.cut_off and settings.truncated_log == "refuse":
        return cut_off_refused(found.cut_off[0])
    return None


def cut_off_refused(where: TruncatedLog) -> TraceError:
    """Returns the error for a log that ends in the middle of a row."""
    return TraceError(
        f"{where.file}, line {where.line}: the log ends in the middle of a row; later rows may be lost",
        'record again, or set trace.truncated_log = "quarantine"',
    )


def _refuse_entry_buckets(counts: Sequence[Count], trace: Trace) -> None:
    named = sorted((count.topic or "", count.subscription or "") for count in counts if count.entry_buckets)
    if named:
        topic, subscription = named[0]
        raise entry_buckets_refused(f"{trace.path}: subscription {subscription} of {topic}")


def _groups(counts: Sequence[Count]) -> tuple[GroupSurvey, ...]:
    by_group: dict[tuple[str | None, str | None], list[Count]] = {}
    for count in counts:
        by_group.setdefault((count.topic, count.subscription), []).append(count)
    ordered = sorted(by_group.items(), key=lambda item: tuple(name or "" for name in item[0]))
    return tuple(_group(topic, subscription, group_counts) for (topic, subscription), group_counts in ordered)


def _group(topic: str | None, subscription: str | None, counts: Sequence[Count]) -> GroupSurvey:
    good = [count for count in counts if count.refused is None]
    refused: Counter[str] = Counter()
    for count in counts:
        if count.refused is not None:
            refused[count.refused] += count.rows
    return GroupSurvey(
        topic=topic,
        subscription=subscription,
        rows=sum(count.rows for count in counts),
        refused=MappingProxyType(dict(refused)),
        first_seq=min((c.first_seq for c in good if c.first_seq is not None), default=None),
        last_seq=max((c.last_seq for c in good if c.last_seq is not None), default=None),
        first_ts_us=min((c.first_ts_us for c in good if c.first_ts_us is not None), default=None),
        last_ts_us=max((c.last_ts_us for c in good if c.last_ts_us is not None), default=None),
        gaps=sum(count.gap is not None for count in good),
        dropped=sum(count.dropped for count in good),
    )


def _too_much_refused(found: Survey, refused: DataFrame, trace: Trace, settings: TraceSettings) -> TraceError:
    first = refused.orderBy("file", "line").first()
    assert first is not None, "rows were counted as refused, and a second scan finds none"
    example = f"the first is {RefusedRow.of(first.asDict())}"
    return TraceError(
        f"{trace.path}: the checks refuse {found.refused} of {found.rows_in} rows, more than the allowed share of "
        f"{settings.quarantine_ratio_max:g}; {example}",
        "check the recorder, or raise trace.quarantine_ratio_max",
    )
