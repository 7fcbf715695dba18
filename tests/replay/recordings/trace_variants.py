"""Recordings with less evidence in them: what another recorder of the same broker would have written.

    .venv/bin/python tests/replay/recordings/trace_variants.py [NAME...]

prints what each variant breaks that the whole trace does not. A variant leaves rows out; it never says anything else:

- `key_hash_ranges` that are absent mean "as in the snapshot before", so a snapshot that stays names all ranges that
  were last named by then. One that names none, and lists other consumers than the snapshot before it, was written
  after a later one, and stays without;
- a recorder of ends still sees that a broker closes a consumer, which has a start only; what never ended it does not;
- one side is bounded by the other "plus the configured recorder skew" (TRACE_FORMAT), so the skew of such a variant is
  as long as the longest bracket of which it leaves a side out.
"""

import json
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from local_replay import SKEW_US, Columns, Replay, recorded_logs, replayed_logs, replayed_recording
from recorded import RECORDINGS

from dispatch_audit.pipeline.packing.membership_rows import CLOSED_BY_BROKER
from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.pipeline.replay.verdicts.dispatch_findings import dispatch_findings
from dispatch_audit.pipeline.replay.verdicts.reported_findings import counter_findings, mismatch_findings
from dispatch_audit.pipeline.replay.verdicts.stalls.stall_findings import stuck_findings

Logs = Sequence[Sequence[Columns]]
Broken = tuple[str, int]
"""A rule, and the seq of the row that breaks it; of what was stuck, which no row ends for sure, the hash."""


class Variant(NamedTuple):
    """Rows with some of them left out, and the skew that still bounds what they say."""

    logs: Logs
    skew_us: int


def _kept(logs: Logs, stays: Callable[[Columns], bool]) -> list[list[Columns]]:
    return [[row for row in log if stays(row)] for log in logs]


def snapshots_with_ranges(logs: Logs) -> Iterator[tuple[Columns, Columns]]:
    """The `stats` rows by seq, each with its snapshot, which names all ranges that were last named by then."""
    rows = sorted((row for log in logs for row in log if row["event"] == "stats"), key=lambda row: row["seq"])
    ranges: dict[tuple[Any, ...], dict[int, object]] = defaultdict(dict)
    for row in rows:
        group = row["topic"], row["subscription"]
        snapshot = json.loads(row["snapshot"])
        consumers = {consumer["consumer"]: consumer for consumer in snapshot["consumers"]}
        said = {who: of_one["key_hash_ranges"] for who, of_one in consumers.items() if of_one.get("key_hash_ranges")}
        if said or ranges[group].keys() == consumers.keys():
            known = ranges[group] | said
            ranges[group] = {who: known[who] for who in consumers if who in known}
            for who, of_one in ranges[group].items():
                consumers[who]["key_hash_ranges"] = of_one
        yield row, snapshot


def _some_snapshots(logs: Logs, stays: Callable[[int, Columns], bool]) -> Variant:
    """Keeps the snapshots that `stays` chooses by their number, from 0 for each subscription, and their row."""
    numbers: Counter[tuple[Any, ...]] = Counter()
    kept: dict[int, Columns] = {}
    for row, snapshot in snapshots_with_ranges(logs):
        group = row["topic"], row["subscription"]
        if stays(numbers[group], row):
            kept[row["seq"]] = {**row, "snapshot": json.dumps(snapshot)}
        numbers[group] += 1
    thinned = [[kept.get(row["seq"], row) for row in log] for log in logs]
    return Variant(_kept(thinned, lambda row: row["event"] != "stats" or row["seq"] in kept), SKEW_US)


def _one_a_second(logs: Logs) -> Variant:
    seen: set[tuple[Any, ...]] = set()

    def is_first(_: int, row: Columns) -> bool:
        second = row["topic"], row["subscription"], row["ts_us"] // 1_000_000
        return second not in seen and not seen.add(second)  # type: ignore[func-returns-value]  # adds, and is None

    return _some_snapshots(logs, is_first)


def _of_bracket(row: Columns) -> tuple[Any, ...]:
    entries = row.get("ledger_id"), row.get("entry_id"), json.dumps(row.get("positions"))
    return row["event"], row["topic"], row.get("subscription"), row.get("consumer"), *entries


def paired(logs: Logs) -> list[tuple[Columns, Columns]]:
    """The rows that are the two sides of one bracket, start and end."""
    rows = sorted((row for log in logs for row in log if row.get("phase")), key=lambda row: row["seq"])
    begun: dict[tuple[Any, ...], deque[Columns]] = defaultdict(deque)
    pairs = []
    for row in rows:
        open_ = begun[_of_bracket(row)]
        if row["phase"] == "start":
            open_.append(row)
        elif open_:
            pairs.append((open_.popleft(), row))
    return pairs


def _one_side(logs: Logs, side: str, events: Collection[str]) -> Variant:
    def stays(row: Columns) -> bool:
        return row["event"] not in events or row.get("phase", "end") == side or row.get("reason") == CLOSED_BY_BROKER

    longest = max(end["ts_us"] - start["ts_us"] for start, end in paired(logs) if start["event"] in events)
    return Variant(_kept(logs, stays), max(SKEW_US, longest))


def _without(event: str) -> Callable[[Logs], Variant]:
    return lambda logs: Variant(_kept(logs, lambda row: row["event"] != event), SKEW_US)


VARIANTS: Final[Mapping[str, Callable[[Logs], Variant]]] = {
    "every tenth snapshot": lambda logs: _some_snapshots(logs, lambda number, _: number % 10 == 0),
    "a snapshot a second": _one_a_second,
    "no snapshot": _without("stats"),
    "only starts": lambda logs: _one_side(logs, "start", ("join", "leave", "reset", "dispatch", "ack")),
    "only starts of joins and leaves": lambda logs: _one_side(logs, "start", ("join", "leave")),
    "only ends of joins and leaves": lambda logs: _one_side(logs, "end", ("join", "leave")),
    "only ends of dispatches and acks": lambda logs: _one_side(logs, "end", ("dispatch", "ack")),
    "no flow": _without("flow"),
    "no publish": _without("publish"),
    "no ack": _without("ack"),
}


def broken_by(replays: Mapping[Group, Replay], seqs: Mapping[int, int]) -> Counter[Broken]:
    """How often each row or hash breaks the contract, whether or not a known flaw explains it.

    Args:
        replays: of each subscription.
        seqs: of the end of a dispatch the seq of its start, by which findings name it, whichever side was recorded.
    """
    broken: Counter[Broken] = Counter()
    for replay in replays.values():
        for source in (dispatch_findings, stuck_findings, mismatch_findings, counter_findings):
            for of_rule in source(replay.context):
                for finding in of_rule.worst:
                    if finding.severity in ("violation", "known_bug"):
                        stuck_hash = -1 if finding.sticky_hash is None else finding.sticky_hash
                        row = seqs.get(finding.seq, finding.seq)
                        broken[of_rule.rule, stuck_hash if source is stuck_findings else row] += 1
    return broken


class Compared(NamedTuple):
    """What a recording and its variants break."""

    whole: Counter[Broken]
    more: dict[str, Counter[Broken]]
    fewer: dict[str, Counter[Broken]]


def compared(name: str, variants: Iterable[str] = VARIANTS) -> Compared:
    """What variants of a recording break that the whole trace does not, and what they no longer show."""
    logs = recorded_logs(name)
    seqs = {end["seq"]: start["seq"] for start, end in paired(logs) if start["event"] == "dispatch"}
    whole = broken_by(replayed_recording(name), seqs)
    more, fewer = {}, {}
    for of_variant in variants:
        variant = VARIANTS[of_variant](logs)
        broken = broken_by(replayed_logs(name, variant.logs, skew_us=variant.skew_us), seqs)
        more[of_variant], fewer[of_variant] = broken - whole, whole - broken
    return Compared(whole, more, fewer)


def main(names: Sequence[str]) -> None:
    for name in names or sorted(path.name for path in RECORDINGS.iterdir() if path.is_dir()):
        found = compared(name)
        rules = Counter(rule for rule, _ in found.whole.elements())
        print(f"{name}: {dict(rules)}", flush=True)
        for of_variant, more in found.more.items():
            if more:
                first = min(more, key=lambda broken: broken[1])
                print(f"    {of_variant}: {dict(Counter(rule for rule, _ in more.elements()))}, first {first}")


if __name__ == "__main__":
    main(sys.argv[1:])
