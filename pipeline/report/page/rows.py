"""Reads what the page of a run shows beyond the summary: rows of the tables for its charts, bounded in number.

A run may have millions of rows and a thousand subscriptions. The page draws the few subscriptions where most went
wrong; limits hold for each table, and what they leave out is counted.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import md5
from typing import Any

from dispatch_audit.pipeline.contract.severity import COUNT_COLUMNS, SEVERITIES
from dispatch_audit.pipeline.report.charts.hash_timeline import earlier_event
from dispatch_audit.pipeline.report.summary import Finding, RunSummary
from dispatch_audit.pipeline.report.widest_scopes import widest_scopes
from dispatch_audit.pipeline.tables.tables import Tables, every_column, of_run, of_runs
from dispatch_audit.pipeline.tables.threads import at_one_time

Row = dict[str, Any]

_SUBSCRIPTIONS = 4
_INTERVALS = 20_000
_OWNERSHIPS = 20_000
_SPANS = 5_000
_SAMPLES = 6_000
_CONSUMERS = 400
_KEYS = 200
_REASONS = 6
_EXAMPLES = 3
_PARTITIONS = 12
_RUNS = 30
# Conditions of one query; a longer one takes seconds to be parsed.
_TIMELINES = 100

_OWNERSHIP = (
    "topic, subscription, broker, epoch, consumer, consumer_name, from_seq, to_seq, from_ts_us, to_ts_us, change, "
    "hashes_moved"
)
_RANGE = "topic, subscription, broker, consumer, consumer_name, range_start, range_end, from_seq, to_seq, change"
_INTERVAL = (
    "scope, cause, topic, subscription, sticky_hash, consumer, consumer_name, blocking_consumer, "
    "blocking_consumer_name, from_ts_us, to_ts_us, message_seconds, entries_waiting, ended_by"
)


@dataclass(frozen=True)
class PageRows:
    """Rows of the tables of one run, as mappings by column.

    Attributes:
        subscriptions: topic and subscription of those that are drawn, the worst first.
        subscriptions_left_out: how many more the run has.
        run: the row of `runs`.
        blocking: the costliest intervals of the scopes that count.
        longest: the longest time without progress for any consumer; at most one row.
        assignments: what each consumer owned, a row a consumer and time instead of a row a range; `hashes` has the
            size.
        ranges: the ranges with the hashes of findings, for their timelines.
        drained: spans of the hashes of findings.
        runs: this run and those before it of the same subscriptions, in order of time, with their totals.
    """

    subscriptions: tuple[tuple[str, str], ...]
    subscriptions_left_out: int
    run: Row
    blocking: list[Row]
    longest: list[Row]
    assignments: list[Row]
    draining: list[Row]
    consumers: list[Row]
    capacity: list[Row]
    hot_keys: list[Row]
    coverage: list[Row]
    quarantine: list[Row]
    ranges: list[Row]
    drained: list[Row]
    runs: list[Row]

    def of(self, rows: list[Row], subscription: tuple[str, str]) -> list[Row]:
        """Returns the rows of one subscription."""
        return [row for row in rows if (row["topic"], row["subscription"]) == subscription]


def read_rows(tables: Tables, run: RunSummary, shown: Sequence[Finding]) -> PageRows:
    """Returns the rows that the page of a run needs.

    Args:
        tables: of the target.
        run: the summary of the run.
        shown: the findings that the page shows.
    """
    worst, left_out = _worst_subscriptions(run)
    drawn = " OR ".join(map(_is_subscription, worst)) or "FALSE"

    def ask(table: str, select: str = "", where: str = "TRUE", rest: str = "") -> Callable[[], list[Row]]:
        return partial(
            tables.query,
            table,
            select or every_column(tables, table),
            f"WHERE {of_run(run.run_key)} AND ({where}) {rest}",
        )

    totals = "cause, scope, sum(message_seconds) AS message_seconds"
    by_scope = ask("blocking", totals, rest="GROUP BY cause, scope")() if run.causes else []
    scopes = widest_scopes({(row["cause"], row["scope"]): row["message_seconds"] for row in by_scope})
    of_scopes = " OR ".join(f"cause = '{cause}' AND scope = '{scope}'" for cause, scope in scopes.items()) or "FALSE"
    by_cost = "ORDER BY message_seconds DESC, from_ts_us"
    by_length = "ORDER BY coalesce(to_ts_us, from_ts_us) - from_ts_us DESC, from_ts_us LIMIT 1"
    size = f"{_OWNERSHIP}, min(range_start) AS range_start, max(range_end) AS range_end, "
    size += "sum(range_end - range_start + 1) AS hashes"
    reasons = list(run.refused)[:_REASONS]
    queries = [
        ask("runs"),
        ask("blocking", _INTERVAL, of_scopes, f"{by_cost} LIMIT {_INTERVALS}"),
        ask("blocking", _INTERVAL, "scope = 'subscription'", by_length),
        ask("assignments", size, drawn, f"GROUP BY {_OWNERSHIP} ORDER BY from_ts_us, consumer LIMIT {_OWNERSHIPS}"),
        ask("draining", "", drawn, f"ORDER BY from_ts_us, sticky_hash LIMIT {_SPANS}"),
        ask("consumers", _CONSUMER, drawn, f"ORDER BY dispatched DESC, consumer LIMIT {_CONSUMERS}"),
        ask("capacity", "", drawn, f"ORDER BY to_ts_us DESC LIMIT {_SAMPLES}"),
        ask("hot_keys", "", "dispatched > 0", f"ORDER BY dispatched DESC, sticky_hash LIMIT {_KEYS}"),
        ask("coverage", "", "TRUE", f"ORDER BY completeness, topic, subscription LIMIT {_PARTITIONS}"),
        ask("assignments", _RANGE, _holds_hashes(shown), f"ORDER BY from_seq DESC LIMIT {_OWNERSHIPS}"),
        ask("draining", "", _names_hashes(shown), f"LIMIT {_SPANS}"),
        *(ask("quarantine", "", f"reason = '{reason}'", f"LIMIT {_EXAMPLES}") for reason in reasons),
    ]
    answers = at_one_time(lambda query: query(), queries)
    (run_row,), blocking, longest, assignments, draining, consumers, capacity, hot_keys, *others = answers
    coverage, ranges, drained, *of_reasons = others
    return PageRows(
        subscriptions=worst,
        subscriptions_left_out=left_out,
        run=run_row,
        blocking=blocking,
        longest=longest,
        assignments=assignments,
        draining=draining,
        consumers=consumers,
        capacity=capacity,
        hot_keys=hot_keys,
        coverage=coverage,
        quarantine=[row for of_reason in of_reasons for row in of_reason],
        ranges=ranges,
        drained=drained,
        runs=_runs_up_to(tables, run_row, {(group.topic, group.subscription) for group in run.groups}),
    )


_CONSUMER = (
    "topic, subscription, consumer, consumer_name, hash_share, traffic_share, dispatched, joined_at_us, left_at_us"
)


def _worst_subscriptions(run: RunSummary) -> tuple[tuple[tuple[str, str], ...], int]:
    """Returns the subscriptions with the worst findings, and how many there are besides."""
    badness: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * (len(SEVERITIES) + 1))
    for group in run.groups:
        found = badness[group.topic, group.subscription]
        for place, severity in enumerate(reversed(SEVERITIES)):
            found[place] -= group.findings[severity]
        found[-1] -= group.checked
    worst = sorted(badness, key=lambda subscription: (badness[subscription], subscription))
    return tuple(worst[:_SUBSCRIPTIONS]), max(0, len(worst) - _SUBSCRIPTIONS)


def _is_subscription(names: tuple[str, str]) -> str:
    # By digests: Spark and DataFusion do not read quotes and backslashes in a text alike.
    topic, subscription = (md5(name.encode("utf-8", "replace"), usedforsecurity=False).hexdigest() for name in names)
    return f"(md5(topic) = '{topic}' AND md5(subscription) = '{subscription}')"


def _holds_hashes(findings: Sequence[Finding]) -> str:
    """Returns the condition for the ranges that held the hash of a finding between its events."""
    wanted = [
        f"(range_start <= {finding.sticky_hash} AND range_end >= {finding.sticky_hash} AND from_seq <= {finding.seq} "
        f"AND (to_seq IS NULL OR to_seq >= {_since_seq(finding)}))"
        for finding in findings[:_TIMELINES]
        if finding.sticky_hash is not None
    ]
    return " OR ".join(dict.fromkeys(wanted)) or "FALSE"


def _since_seq(finding: Finding) -> int:
    earlier = earlier_event(asdict(finding))
    return finding.seq if earlier is None else earlier[0]


def _names_hashes(findings: Sequence[Finding]) -> str:
    with_hash = {finding.sticky_hash for finding in findings[:_TIMELINES] if finding.sticky_hash is not None}
    return f"sticky_hash IN ({', '.join(map(str, sorted(with_hash)))})" if with_hash else "FALSE"


def _runs_up_to(tables: Tables, run: Row, groups: set[tuple[str, str]]) -> list[Row]:
    """Returns the totals of the runs of the same subscriptions that began no later than this one, in order of time."""
    columns = "run_key, verdict, completeness, profile, from_ts_us, to_ts_us, ended_at_us, inputs"
    until = f"WHERE ended_at_us <= {run['ended_at_us']} ORDER BY ended_at_us DESC, run_key LIMIT {_RUNS}"
    runs = tables.query("runs", columns, until)
    if len(runs) < 2:
        return runs
    of_all = f"WHERE {of_runs([row['run_key'] for row in runs])}"
    sums = ", ".join(f"sum({column}) AS {column}" for column in COUNT_COLUMNS)
    metrics = tables.query("metrics", f"run_key, topic, subscription, {sums}", f"{of_all} GROUP BY 1, 2, 3")
    waiting = "run_key, topic, subscription, cause, scope, sum(message_seconds) AS message_seconds"
    blocking = tables.query("blocking", waiting, f"{of_all} GROUP BY 1, 2, 3, 4, 5")
    found = []
    for row in sorted(runs, key=lambda row: (row["from_ts_us"] or row["ended_at_us"], row["ended_at_us"])):
        key = row["run_key"]
        counts = [m for m in metrics if m["run_key"] == key and (m["topic"], m["subscription"]) in groups]
        if counts:
            waited = (b for b in blocking if b["run_key"] == key and (b["topic"], b["subscription"]) in groups)
            found.append({**row, **_totals(counts), **_waited(waited)})
    return found


def _totals(counts: Sequence[Row]) -> Row:
    return {severity: sum(row[column] for row in counts) for column, severity in COUNT_COLUMNS.items()}


def _waited(blocking: Any) -> Row:
    """Returns the cause that cost most, in its widest scope, with its message-seconds."""
    by_scope: defaultdict[tuple[str, str], float] = defaultdict(float)
    for row in blocking:
        by_scope[row["cause"], row["scope"]] += row["message_seconds"]
    widest = {cause: by_scope[cause, scope] for cause, scope in widest_scopes(by_scope).items()}
    costliest = max(widest, key=lambda cause: widest[cause], default=None)
    # Causes overlap, so that their sum would count messages twice.
    return {"message_seconds": 0.0 if costliest is None else widest[costliest], "cause": costliest}


def open_seconds(interval: Row, to_ts_us: int | None) -> float:
    """Returns the length of an interval; up to the end of the trace, if it is still open."""
    end_us = to_ts_us if interval["to_ts_us"] is None else interval["to_ts_us"]
    return 0.0 if end_us is None else float(end_us - interval["from_ts_us"]) / 1e6
