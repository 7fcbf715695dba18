"""A story, or the state of a subscription at a moment, as one JSON object for programs.

Its names are a public interface (docs/EXPLAIN.md).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dispatch_audit.pipeline.explain.at_moment import Row, StateAtMoment
from dispatch_audit.pipeline.explain.hash_observer import SeenHash
from dispatch_audit.pipeline.explain.steps import Step
from dispatch_audit.pipeline.explain.story import Story
from dispatch_audit.pipeline.run.key_lookup import key_text

# What the tables repeat, or what is a date.
_LEFT_OUT = ("run_key", "topic", "subscription", "from_ts", "to_ts", "ts", "joined_at", "left_at", "returned_ts")


def json_story(story: Story, finding: Row | None, run_key: str, consumers: Sequence[Row] = ()) -> str:
    """Returns a story, without a newline at its end; `consumers` are the rows of that table that it is about."""
    return _written(
        {
            "run_key": run_key,
            "topic": story.events.group.topic,
            "subscription": story.events.group.subscription,
            "sticky_hash": story.sticky_hash,
            "key": story.key,
            "entry": None if story.subject.entry is None else "{}:{}".format(*story.subject.entry),
            "consumers": [_row(row) for row in consumers],
            "finding": None if finding is None else _row(finding),
            "finding_holds": None
            if finding is None
            else any(r["finding_id"] == finding["finding_id"] for r in story.found),
            "ts_us": story.middle_us,
            "before": story.before,
            "state": _state(story, story.at_middle),
            "rows_concerned": story.total,
            "events": [_step(story, step) for step in story.steps],
        }
    )


def json_moment(found: StateAtMoment, run_key: str) -> str:
    """Returns the state of a subscription, without a newline at its end."""
    tables = {
        name: [_row(row) for row in getattr(found, name)] for name in ("consumers", "ranges", "draining", "blocks")
    }
    return _written({"run_key": run_key, **found.group._asdict(), "ts_us": found.ts_us, **tables})


def _step(story: Story, step: Step) -> dict[str, Any]:
    row = {
        name: value for name, value in step.row.items() if value is not None and name not in ("topic", "subscription")
    }
    if "key" in row:
        row["key"] = key_text(row["key"])
    if "snapshot" in row:
        row["snapshot"] = json.loads(row["snapshot"])
    row |= {name: dict(row[name]) for name in ("settings", "sources") if name in row}
    return {**row, "completes_finding": step.offending, "state": _state(story, step.state)}


def _state(story: Story, seen: SeenHash | None) -> dict[str, Any] | None:
    if seen is None:
        return None
    drains = None
    if seen.drains_from is not None:
        drains = {"from": _consumer(story, seen.drains_from), "to": _consumer(story, seen.drains_to)}
    return {
        "owner": _consumer(story, seen.owner),
        "undecided": seen.undecided or None,
        "holders": [{**(_consumer(story, n) or {}), "entries": entries} for n, entries in seen.held.items()],
        "draining": drains,
        "waiting": seen.waiting,
        "in_replay": seen.in_replay,
    }


def _consumer(story: Story, number: int | None) -> dict[str, Any] | None:
    if number is None:
        return None
    recorders = story.events.recorders
    found = {"consumer": recorders.consumer(number), "consumer_name": story.events.names.get(number)}
    return {**found, "broker": recorders.recorder_of(number)} if recorders.terms else found


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in _LEFT_OUT}


def _written(found: Mapping[str, Any]) -> str:
    # Clients choose the names of consumers and keys, which may hold any character.
    return json.dumps(found, indent=2, ensure_ascii=True)
