"""Joins, leaves and findings as instants."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from dispatch_audit.pipeline.report.explain_command import explain_command
from dispatch_audit.pipeline.report.perfetto.tracks import Event, Timeline
from dispatch_audit.pipeline.report.summary import Finding
from dispatch_audit.pipeline.report.wording import consumer, moment

Row = dict[str, Any]


def joins_and_leaves(consumers: Sequence[Row], timeline: Timeline) -> Iterator[Event]:
    """Yields the joins and leaves that were recorded, each on the track of its consumer.

    Args:
        consumers: rows of the table.
        timeline: of the run.
    """
    for row in consumers:
        counts = {name: row[name] for name in ("dispatched", "acked", "hash_share", "traffic_share")}
        for name, at_us, args in (
            ("joins", row["joined_at_us"], {}),
            ("leaves", row["left_at_us"], {"reason": row["leave_reason"], **counts}),
        ):
            if at_us is not None:
                known = {**args, "at": f"{moment(at_us)} UTC"}
                yield Event(timeline.of_consumer(row), name, "membership", timeline.at(at_us), None, known)


def findings(found: Sequence[Finding], timeline: Timeline, target: str) -> Iterator[Event]:
    """Yields the findings, on one track of their subscription.

    Args:
        found: the worst of each rule.
        timeline: of the run.
        target: where the tables are, for the command that shows the events behind a finding.
    """
    for finding in found:
        other = finding.other_consumer
        args = {
            "severity": finding.severity,
            "accepted": finding.accepted,
            "what": finding.what,
            "against": finding.against,
            "why": list(finding.why),
            "remedy": finding.remedy,
            "consumer": consumer(finding.consumer, finding.consumer_name),
            "other_consumer": None if other is None else consumer(other, finding.other_consumer_name),
            "key": finding.key,
            "sticky_hash": finding.sticky_hash,
            "entry": None if finding.ledger_id is None else f"{finding.ledger_id}:{finding.entry_id}",
            "seq": finding.seq,
            "at": f"{moment(finding.ts_us)} UTC",
            "finding_id": finding.finding_id,
            "explain": None if finding.finding_id is None else explain_command(target, finding.finding_id),
        }
        track = timeline.of_findings(asdict(finding))
        yield Event(track, f"{finding.rule}: {finding.severity}", "finding", timeline.at(finding.ts_us), None, args)
