"""Rows in memory, as the stories and the search for the shortest trace take them, and what their audit finds."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from local_replay import AUTO_SPLIT, SKEW_US, Columns, batches
from recorded import RECORDINGS

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.explain.shortest_trace import Shortest, shortest_trace
from dispatch_audit.pipeline.explain.story import Middle, Story, Subject, packed_events, refused_places, story_of
from dispatch_audit.pipeline.explain.subscription_events import SubscriptionEvents
from dispatch_audit.pipeline.groups.replay_rows import packed_rows, replayed_rows
from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.pipeline.replay.config import ReplayConfig


def config_of(version: str = "4.0.8", settings: Mapping[str, object] = AUTO_SPLIT) -> ReplayConfig:
    profile = profile_for(version, settings)
    return ReplayConfig(profile, version, profile.broker(settings), SKEW_US, 10_000_000)


def recorded_config(name: str) -> ReplayConfig:
    """The configuration for a recording."""
    manifest = json.loads((RECORDINGS / name / "trace.json").read_text())
    return config_of(manifest["pulsar_version"], manifest["settings"])


@dataclass(frozen=True)
class Found:
    """The rows of one subscription, and the findings of their audit."""

    rows: pa.Table
    events: SubscriptionEvents
    findings: list[Columns]
    refused: frozenset[int]

    def of_rule(self, rule: str, **values: object) -> Columns:
        """The first finding of a rule, with these values."""
        return next(
            row for row in self.findings if row["rule"] == rule and all(row[name] == values[name] for name in values)
        )

    def hash_of(self, finding: Mapping[str, Any]) -> int | None:
        """The hash that a finding is about."""
        if finding.get("sticky_hash") is not None or finding.get("ledger_id") is None:
            return finding.get("sticky_hash")
        return self.events.hash_of_entry(finding["ledger_id"], finding["entry_id"])

    def story(self, sticky_hash: int | None, middle: Middle, number: int = 100) -> Story:
        return story_of(self.rows, self.events, Subject(sticky_hash), middle, number)

    def shortest(self, finding: Mapping[str, Any], replays_max: int = 1_000) -> Shortest:
        shortest = shortest_trace(
            self.rows, self.events, self.hash_of(finding), {"broker": None, **finding}, self.refused, replays_max
        )
        assert shortest is not None
        return shortest


def found_in(rows: Sequence[Mapping[str, Any]], config: ReplayConfig) -> Found:
    """The audit of the only subscription in some rows."""
    (group,) = {Group(row["topic"], row["subscription"]) for row in rows if row.get("subscription")}
    in_time = sorted(rows, key=lambda row: (row["ts_us"], row["seq"]))
    table = pa.Table.from_batches(list(batches(in_time)))
    packed = packed_rows(table.to_batches(), config, [group])
    tables = replayed_rows(packed, group, config)
    events = packed_events(table, group, config)
    refused = refused_places(tables.get("refused", []), events)
    return Found(table, events, tables.get("violations", []), refused)


def again(rows: pa.Table, found: Found) -> list[Columns]:
    """The findings of the audit of some of the rows alone; none of them may be refused."""
    packed = packed_rows(rows.to_batches(), found.events.claimed, [found.events.group])
    tables = replayed_rows(packed, found.events.group, found.events.claimed)
    assert "refused" not in tables
    return tables.get("violations", [])
