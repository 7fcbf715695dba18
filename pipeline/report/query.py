"""Reads a summary from the tables.

In a fresh JVM a query that groups or ranks costs 1.5 to 2 s of CPU time and one that only picks rows a third of that,
because the exchange has to be planned and compiled. So the counts, which are few, are added up here; the worst findings
are picked by order and limit; and tables that have no rows by the counts are not queried.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from dispatch_audit.pipeline.contract.severity import COUNT_COLUMNS, SEVERITIES, Severity
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.replay.settings.assumed import Assumption
from dispatch_audit.pipeline.report.costliest_blocks import costliest_blocks, waits_by_cause
from dispatch_audit.pipeline.report.keys import spread_keys
from dispatch_audit.pipeline.report.summary import (
    CauseTotals,
    Finding,
    GroupCounts,
    HotKey,
    KeylessProducer,
    MixedProducer,
    Partition,
    RuleCounts,
    RunSummary,
    SubscriptionAnswers,
    Summary,
    total_causes,
    total_rules,
)
from dispatch_audit.pipeline.tables.schemas import TABLES
from dispatch_audit.pipeline.tables.tables import Tables, every_column, of_run
from dispatch_audit.pipeline.tables.target import Target, parse_target
from dispatch_audit.pipeline.tables.threads import at_one_time
from dispatch_audit.pipeline.tables.way import tables_of
from dispatch_audit.pipeline.trace.sources import from_here
from dispatch_audit.pipeline.windows.window import Window

Record = TypeVar("Record", Finding, Partition, HotKey, MixedProducer, KeylessProducer, SubscriptionAnswers)
_Row = dict[str, Any]
# Asks for rows of one table and run, with `select`, `where` and `rest` of the query.
_Ask = Callable[..., list[_Row]]

# As many as the page shows. Code scanning shows 5,000 results of a run (GitHub, "SARIF support"): those of 25 rules.
_FINDINGS_PER_RULE = 200
_HOT_KEYS = 3
# The most dispatched ones, whose partitions are compared.
_KEYS_COMPARED = 1_000
_SUBSCRIPTIONS = 5
_PRODUCERS = 5
# As many as the recorder looks into before it goes on with samples (BatchKeys.java).
_INSPECTED_ENOUGH = 10
# Orders findings of one moment, so that every report of a run shows the same ones.
_TIES = ", ".join(
    f"{column} NULLS FIRST" for column in ("subscription", "sticky_hash", "ledger_id", "entry_id", "consumer", "key")
)


def summarise(spark: SparkSession | None, target: str, run_keys: Sequence[str]) -> Summary:
    """Returns the summary of complete runs.

    Args:
        spark: the session; tables below a local path are read without one.
        target: where the tables are, as `parse_target` reads it.
        run_keys: the runs, in the order of the summary.

    Raises:
        UsageError: a run has no row in `runs`.
    """
    parsed = parse_target(target)
    tables = tables_of(spark, parsed)
    return Summary(target, _locations(parsed), tuple(_run(tables, key) for key in run_keys))


def _run(tables: Tables, run_key: str) -> RunSummary:
    def ask(table_name: str) -> _Ask:
        return partial(_rows, tables, table_name, run_key)

    first: list[Callable[[], list[_Row]]] = [ask("runs"), ask("metrics"), partial(waits_by_cause, ask("blocking"))]
    runs, metrics, by_cause = at_one_time(lambda query: query(), first)
    if not runs:
        raise UsageError(f"{tables.target} has no run {run_key}", "audit again")
    run = runs[0]
    # Without a baseline the column need not be asked for, nor be there.
    accepted = _accepted(ask("violations")) if run["findings_accepted"] else {}
    groups = [_group_counts(row, accepted) for row in metrics]
    groups.sort(key=lambda group: (group.topic, group.subscription, group.rule))
    rules = total_rules([RuleCounts(group.rule, group.checked, group.findings, group.accepted)] for group in groups)
    by_badness = sorted((counts for counts in rules if any(counts.findings.values())), key=_badness)
    causes = [CauseTotals(row["cause"], row["intervals"], row["message_seconds"]) for row in by_cause]

    queries: list[Callable[[], list[Any]]] = [
        partial(_refused, ask("quarantine"), run["events_quarantined"]),
        partial(costliest_blocks, ask("blocking"), by_cause, run["to_ts_us"]),
        partial(_incomplete, ask("coverage")),
        partial(_left_out, ask("coverage"), causes),
        partial(_hottest, ask("hot_keys")),
        partial(_mixed, ask("producers")),
        partial(_keyless, ask("producers")),
        partial(_answers, ask("coverage"), run["order_verdict"]),
        *(partial(_worst_findings, ask("violations"), counts) for counts in by_badness),
    ]
    refused, blocks, incomplete, left_out, hot_keys, *others = at_one_time(lambda query: query(), queries)
    mixed, keyless, answers, *findings = others
    return RunSummary(
        run_key=run_key,
        inputs=tuple(map(from_here, run["inputs"])),
        verdict=run["verdict"],
        completeness=run["completeness"],
        events_in=run["events_in"],
        events_quarantined=run["events_quarantined"],
        profile=run["profile"],
        pulsar_version=run["pulsar_version"],
        keys_digested=run["keys"] == "digest",
        sample=None if run["sample"] is None else (run["sample"], run["sample_salt"]),
        chosen=_chosen(run["settings"]),
        engine=run["engine"],
        recorded_by=run["recorded_by"],
        from_ts_us=run["from_ts_us"],
        to_ts_us=run["to_ts_us"],
        rules=rules,
        findings=_accepted_last([finding_in(row) for of_rule in findings for row in of_rule]),
        causes=total_causes([causes]),
        blocks=tuple(blocks),
        refused={row["reason"]: row["number"] for row in refused},
        groups=tuple(groups),
        incomplete=tuple(_record(Partition, row) for row in incomplete),
        hot_keys=tuple(_record(HotKey, row) for row in hot_keys[:_HOT_KEYS]),
        spread_keys=spread_keys(hot_keys),
        mixed_producers=tuple(_record(MixedProducer, row) for row in mixed),
        keyless_producers=tuple(_record(KeylessProducer, row) for row in keyless),
        order=run["order_verdict"],
        progress=run["progress"],
        subscriptions=tuple(_record(SubscriptionAnswers, row) for row in answers),
        stall_threshold_s=_stall_threshold_s(run["settings"]),
        starts_from=run["starts_from"],
        window=None if run["starts_from"] is None else Window(run["window_from_us"], run["window_to_us"]),
        events_late=run["events_late"] or 0,
        intervals_left_out=sum(row["intervals_left_out"] for row in left_out),
    )


def _rows(
    tables: Tables, table_name: str, run_key: str, *, select: str = "", where: str = "TRUE", rest: str = ""
) -> list[_Row]:
    return tables.query(
        table_name, select or every_column(tables, table_name), f"WHERE {of_run(run_key)} AND ({where}) {rest}"
    )


def _group_counts(row: _Row, accepted: Mapping[tuple[str, str, str], Mapping[Severity, int]]) -> GroupCounts:
    findings = {severity: row[name] for name, severity in COUNT_COLUMNS.items()}
    of = row["topic"], row["subscription"], row["rule"]
    return GroupCounts(*of, row["checked"], findings, row["completeness"], accepted.get(of, {}))


def _accepted(violations: _Ask) -> dict[tuple[str, str, str], dict[Severity, int]]:
    """Returns the numbers of accepted findings by topic, subscription and rule."""
    group = "topic, subscription, rule, severity"
    found: dict[tuple[str, str, str], dict[Severity, int]] = {}
    for row in violations(select=f"{group}, count(*) AS number", where="accepted", rest=f"GROUP BY {group}"):
        found.setdefault((row["topic"], row["subscription"], row["rule"]), {})[row["severity"]] = row["number"]
    return found


def _accepted_last(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=attrgetter("accepted")))


def _badness(counts: RuleCounts) -> tuple[int, str]:
    """A sort key that puts the rule with the worst finding first."""
    return -max(rank for rank, severity in enumerate(SEVERITIES) if counts.findings[severity]), counts.rule


def _worst_findings(violations: _Ask, counts: RuleCounts) -> list[_Row]:
    ranks = " ".join(f"WHEN '{severity}' THEN {rank}" for rank, severity in enumerate(SEVERITIES))
    # Accepted findings must not take the places of others.
    others_first = "coalesce(accepted, FALSE), " if counts.accepted else ""
    worst_first = (
        f"ORDER BY {others_first}CASE severity {ranks} END DESC, ts_us NULLS FIRST, seq NULLS FIRST, topic, {_TIES}"
    )
    return violations(where=f"rule = '{counts.rule}'", rest=f"{worst_first} LIMIT {_FINDINGS_PER_RULE}")


def _incomplete(coverage: _Ask) -> list[_Row]:
    least_first = f"ORDER BY completeness, topic, subscription LIMIT {_SUBSCRIPTIONS}"
    return coverage(where="completeness < 1", rest=least_first)


def _left_out(coverage: _Ask, causes: Sequence[CauseTotals]) -> list[_Row]:
    # A run that kept no interval left none out.
    return coverage(select="intervals_left_out", where="intervals_left_out > 0") if causes else []


def _hottest(hot_keys: _Ask) -> list[_Row]:
    # A key that is listed only because its hash waited may have no dispatch.
    most_first = "ORDER BY dispatched DESC, topic, sticky_hash, key_id NULLS FIRST, subscription"
    return hot_keys(where="dispatched > 0", rest=f"{most_first} LIMIT {_KEYS_COMPARED}")


def _mixed(producers: _Ask) -> list[_Row]:
    most_first = "ORDER BY mixed_batches DESC, topic, producer_name NULLS FIRST, subscription"
    # A producer batches in one way: if none of so many batches mixes keys, it batches by key.
    open_ones = f"batches > batches_inspected AND batches_inspected < {_INSPECTED_ENOUGH}"
    return producers(where=f"mixed_batches > 0 OR {open_ones}", rest=f"{most_first} LIMIT {_PRODUCERS}")


def _keyless(producers: _Ask) -> list[_Row]:
    most_first = "ORDER BY keyless_entries DESC, topic, producer_name NULLS FIRST, subscription"
    return producers(where="keyless_entries > 0", rest=f"{most_first} LIMIT {_PRODUCERS}")


def _answers(coverage: _Ask, order: str | None) -> list[_Row]:
    if order is None:
        return []
    # Tables of an older version have no columns for what is held back.
    rows = coverage(rest="ORDER BY topic, subscription")
    return [row | {name: row[name] or 0 for name in ("order_held_back", "progress_held_back")} for row in rows]


def _stall_threshold_s(settings: str) -> float:
    """Returns the setting of a run; runs of tests may have no settings."""
    blocking = json.loads(settings).get("blocking", {})
    return float(blocking.get("stall_threshold_ms", 1000)) / 1000


def _chosen(settings: str) -> tuple[str, ...]:
    """Returns the patterns of topics and subscriptions to which a run was limited."""
    choice = json.loads(settings).get("choice", {})
    return (*choice.get("topics", ()), *choice.get("subscriptions", ()))


def _refused(quarantine: _Ask, number: int) -> list[_Row]:
    if not number:
        return []
    return quarantine(select="reason, count(*) AS number", rest="GROUP BY reason ORDER BY number DESC, reason")


def finding_in(row: Mapping[str, Any]) -> Finding:
    """Returns a finding with the columns of a row of `violations`, which an older version may have written."""
    parts = {
        "what": row["what"] or row["explanation"],
        "why": row["why"] or [],
        "assumes": tuple(Assumption(of["setting"], of["value"], of["source"]) for of in row["assumes"] or ()),
    }
    return _record(Finding, {**row, **parts, "accepted": bool(row["accepted"])})


def _record(kind: type[Record], row: _Row) -> Record:
    """Returns a `kind` with the columns of the same names; arrays become tuples."""
    values = ((field.name, row[field.name]) for field in fields(kind))
    arguments: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in values}
    return kind(**arguments)


def _locations(target: Target) -> dict[str, str]:
    separator = "." if target.named else "/"
    return {name: f"{target.location}{separator}{name}" for name in TABLES}
