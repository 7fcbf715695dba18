"""The sections on hot keys, on earlier runs, on the quarantine, and on what the trace could not show."""

from collections.abc import Iterator

from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.charts.hot_keys import hottest, traffic_of_keys
from dispatch_audit.pipeline.report.charts.parts.data import clipped, cost
from dispatch_audit.pipeline.report.charts.trend import trend_of_findings, trend_of_waiting
from dispatch_audit.pipeline.report.keys import keyless_routing
from dispatch_audit.pipeline.report.page.model import Figure, Section, Table
from dispatch_audit.pipeline.report.page.rows import PageRows, Row
from dispatch_audit.pipeline.report.summary import RunSummary
from dispatch_audit.pipeline.report.wording import duration, moment, share

_ROWS = 12
_RAW = 300
# The severities by which runs are compared.
_COUNTED = ("violation", "known_bug", "not_provable")
# Columns of `coverage` that count what a verdict does not rest on, in words.
_NOT_SHOWN = {
    "gaps": "gaps, in which the recorder dropped rows",
    "rows_dropped": "rows that the recorder dropped",
    "rows_censored": "rows from before the state was known, or from after a gap",
    "rows_refused": "rows that do not fit the rows before them",
    "dispatches_undecided": "dispatches while the owner of their hash was undecided",
    "dispatches_without_key": "dispatches without a recorded key",
    "dispatches_without_end": "dispatches not recorded as written to the connection",
    "entries_without_publish": "entries without a recorded publish",
    "censored_never_dispatched": "entries that still waited for their first dispatch at the end",
    "censored_never_acknowledged": "entries dispatched and not acknowledged at the end",
    "consumers_by_snapshot_only": "consumers that only snapshots name",
    "clock_steps_back": "rows at which the clock went back",
    "intervals_left_out": "intervals of waiting of lower cost that were left out",
}
"""Not `seq_missing`: recorders number all topics together, so gaps are normal."""


def hot_key_section(run: RunSummary, rows: PageRows) -> Section:
    """Returns the section on hot keys, and on messages without a key."""
    found, keyless = hottest(rows.hot_keys), _keyless_tables(run)
    if not found:
        return Section("hot-keys", "Hot keys", "No dispatches of a key were recorded.", tables=keyless)
    first = found[0]
    name = "a key that is not recorded" if first["key"] is None else f"key {clipped(first['key'])}"
    part = "" if first["dispatched_share"] is None else f", {share(first['dispatched_share'])} of all"
    pending = max(found, key=lambda row: row["unacked_max"] or 0)
    lead = f"The hottest is {name}: {count(first['dispatched'], 'dispatch', 'dispatches')}{part}."
    figure = Figure(
        "hot-keys-chart",
        "Which keys had the most traffic, and did their hashes wait?",
        f"At most {count(pending['unacked_max'] or 0, 'entry', 'entries')} of one hash were pending at one time "
        f"(hash {pending['sticky_hash']}).",
        traffic_of_keys(rows.hot_keys).to_dict(validate=False),
        Table(
            ("key", "hash", "keys on it", "dispatches", "share", "most pending", "its hash waited"),
            tuple(map(_key, found[:_ROWS])),
            frozenset(range(1, 7)),
            max(0, len(found) - _ROWS),
        ),
        "A hash waits for any cause; several keys may share it.",
    )
    return Section("hot-keys", "Hot keys", lead, "", (("", (figure,)),), keyless)


def _keyless_tables(run: RunSummary) -> tuple[tuple[str, Table], ...]:
    """Returns the table of the producers of messages without a key, if there are any."""
    if not run.keyless_producers:
        return ()
    rows = tuple(
        (
            "a producer without a name" if producer.producer_name is None else producer.producer_name,
            f"{producer.keyless_entries:,}",
            f"{producer.entries:,}",
            share(producer.keyless_entries / producer.entries),
            producer.topic,
        )
        for producer in run.keyless_producers
    )
    table = Table(("producer", "entries without a key", "entries", "share", "topic"), rows, frozenset({1, 2, 3}))
    return ((f"Messages without a key: {keyless_routing(run.profile)}.", table),)


def _key(row: Row) -> tuple[str, ...]:
    return (
        "not recorded" if row["key"] is None else row["key"],
        str(row["sticky_hash"]),
        f"{row['keys_on_hash']:,}",
        f"{'≥ ' if row['dispatched_error_max'] else ''}{row['dispatched']:,}",
        "" if row["dispatched_share"] is None else share(row["dispatched_share"]),
        "" if row["unacked_max"] is None else f"{row['unacked_max']:,}",
        duration(row["blocked_seconds"]),
    )


def trend_section(rows: PageRows) -> Section:
    """Returns the section on the runs before this one."""
    title = "Earlier runs"
    if len(rows.runs) < 2:
        return Section("trend", title, "The tables hold no earlier run of these subscriptions to compare with.")
    runs = [{**row, "label": _label(row)} for row in rows.runs]
    before, last = runs[-2:]
    lead = f"Compared with the run before: {_compared(before, last)}."
    table = Table(
        ("trace from (UTC)", "run", "verdict", "completeness", "violation", "known bug", "not provable", "waited (s)"),
        tuple(
            (
                row["label"],
                row["run_key"],
                row["verdict"].replace("_", " "),
                share(row["completeness"]),
                f"{row['violation']:,}",
                f"{row['known_bug']:,}",
                f"{row['not_provable']:,}",
                f"{row['message_seconds']:,.1f}",
            )
            for row in reversed(runs[-_ROWS:])
        ),
        frozenset(range(3, 8)),
        max(0, len(runs) - _ROWS),
    )
    figures = (
        Figure(
            "trend-findings",
            "Did it find more or less than before?",
            f"{sum(last[s] for s in _COUNTED):,} in this run, {sum(before[s] for s in _COUNTED):,} in the one before.",
            trend_of_findings(runs).to_dict(validate=False),
            table,
            "Violations, known bugs and findings not provable, of the same subscriptions; the newest run at the right.",
        ),
        Figure(
            "trend-waiting",
            "Did messages wait longer than before?",
            f"{cost(last['message_seconds'])} message-seconds in this run, {cost(before['message_seconds'])} before.",
            trend_of_waiting(runs).to_dict(validate=False),
            table,
            "Of the cause that cost most in each run; traces of different length are not made comparable.",
        ),
    )
    return Section("trend", title, lead, f"{len(runs):,}", (("", figures),))


def _label(row: Row) -> str:
    # Month to minute, and the beginning of the key: runs of one window differ in it only.
    return f"{moment(row['from_ts_us'] or row['ended_at_us'])[5:16]} · {row['run_key'][:4]}"


def _compared(before: Row, last: Row) -> str:
    findings = sum(last[s] - before[s] for s in _COUNTED)
    seconds = last["message_seconds"] - before["message_seconds"]
    more = "as many findings" if not findings else f"{abs(findings):,} findings {'more' if findings > 0 else 'fewer'}"
    # A smaller difference would be shown as 0.
    if abs(seconds) < 0.01:
        return f"{more}, and as many message-seconds"
    return f"{more}, and {cost(abs(seconds))} message-seconds {'more' if seconds > 0 else 'fewer'}"


def quarantine_section(run: RunSummary, rows: PageRows) -> Section:
    """Returns the section on rows that could not be read or used."""
    title = "Quarantine"
    if not run.events_quarantined:
        return Section("quarantine", title, "Every row of the trace could be read and used.")
    part = share(run.events_quarantined / run.events_in) if run.events_in else ""
    lead = f"{count(run.events_quarantined, 'row')} of {run.events_in:,} ({part}) could not be read or used."
    reasons = Table(("reason", "rows"), tuple((r, f"{n:,}") for r, n in run.refused.items()), frozenset({1}))
    examples = Table(
        ("reason", "where", "what was wrong", "the row"),
        tuple(
            (
                row["reason"],
                row["file"] if row["line"] is None else f"{row['file']}:{row['line']}",
                row["detail"] or "",
                (row["raw"] or "")[:_RAW],
            )
            for row in rows.quarantine
        ),
    )
    badge = f"{run.events_quarantined:,}"
    return Section("quarantine", title, lead, badge, (), (("Rows by reason", reasons), ("Examples", examples)))


def limits_section(run: RunSummary, rows: PageRows) -> Section:
    """Returns the section on what the trace could not show."""
    unproven = sum(counts.findings["not_provable"] for counts in run.rules)
    lines = list(_limits(rows.coverage))
    whole = run.completeness == 1
    lead = (
        "Every row could carry a verdict." if whole else f"{share(run.completeness)} of the rows could carry a verdict."
    )
    if unproven:
        lead += f" {count(unproven, 'finding')} could be neither proven nor ruled out."
    if run.starts_from == "censored":
        lead += " What was open when the window began is not known."
    tables = [("What no verdict rests on", Table(("subscription", "what", "number"), tuple(lines), frozenset({2})))]
    idle = [counts.rule for counts in run.rules if not counts.checked]
    if idle:
        lead += f" {count(len(idle), 'rule')} had nothing to check: {', '.join(idle)}."
    badge = "" if whole and not unproven else share(run.completeness)
    return Section("limits", "What the trace could not show", lead, badge, (), tuple(tables) if lines else ())


def _limits(coverage: list[Row]) -> Iterator[tuple[str, str, str]]:
    for row in coverage:
        for column, words in _NOT_SHOWN.items():
            if row[column]:
                yield f"{row['topic']}, {row['subscription']}", words, f"{row[column]:,}"
