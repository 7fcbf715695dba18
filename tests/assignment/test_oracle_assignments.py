"""Every membership change that a real broker recorded: the ranges after it."""

import json
from collections import defaultdict
from typing import Any, TypeAlias

from oracle import membership_changes, oracle_rows
from recorded import ALL, RECORDINGS, of_each, rows_in

from dispatch_audit.pipeline.assignment import Selector, make_selector
from dispatch_audit.pipeline.contract.profile import SelectorKind, profile_for

KINDS: dict[str, SelectorKind] = {
    "ConsistentHashingStickyKeyConsumerSelector": "consistent_hashing",
    "HashRangeAutoSplitStickyKeyConsumerSelector": "auto_split",
    "HashRangeExclusiveStickyKeyConsumerSelector": "exclusive",
}
Ranges: TypeAlias = dict[int, list[tuple[int, int]]]


def _by_consumer(rows: list[dict[str, Any]]) -> Ranges:
    return {row["ci"]: [(start, end) for start, end in row["r"]] for row in rows}


def _reported(selector: Selector) -> Ranges:
    found: Ranges = defaultdict(list)
    for start, end, consumer in selector.ranges().rows:
        found[consumer].append((start, end))
    return found


@of_each(ALL)
def test_assignments_are_those_of_the_broker(name: str) -> None:
    trace = RECORDINGS / name
    about = json.loads((trace / "trace.json").read_text())
    settings = about["settings"]
    profile = profile_for(about["pulsar_version"], settings)
    points = settings["subscriptionKeySharedConsistentHashingReplicaPoints"]
    declared = {
        row["consumer"]: [(wanted["start"], wanted["end"]) for wanted in row.get("ranges") or []]
        for row in rows_in(trace / "consumers.jsonl.gz")
        if row["event"] == "join" and "consumer" in row
    }
    changes = membership_changes(oracle_rows(trace))
    assert changes
    selectors: dict[tuple[str, str], Selector] = {}
    for change in changes:
        subscription = (change["topic"], change["sub"])
        if subscription not in selectors:
            selectors[subscription] = make_selector(KINDS[change["selector"]], points, profile)
        selector = selectors[subscription]
        if change["op"] == "remove":
            assert selector.remove(change["ci"])
        else:
            # `snapshot` stands for the first add of a dispatcher that was there before its tap.
            selector.add(change["ci"], change["consumer"], declared.get(change["ci"], []))
        assert _reported(selector) == _by_consumer(change["ranges"]), change["seq"]
