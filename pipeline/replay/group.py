"""The replay of one group from its chunks to rows of the tables; it knows nothing of Spark or Delta."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from pipeline.replay import rows
from pipeline.replay.basis import Rules
from pipeline.replay.chunk import Chunk, merged
from pipeline.replay.completeness import RowsSeen
from pipeline.replay.producers import Producers
from pipeline.replay.refused import Refused
from pipeline.replay.rows.names import Rows
from pipeline.replay.subscription import Subscription

Columns: TypeAlias = Mapping[str, Sequence[Any]]


class Group(NamedTuple):
    """One subscription on one topic partition."""

    topic: str
    subscription: str


def replay_group(
    group: Group, chunks: Iterable[Chunk], rules: Rules, findings_per_rule_max: int
) -> Iterator[tuple[str, Columns]]:
    """Yields the name of a table and columns of rows for it, as soon as they are known; never no rows.

    Under `refused` come the rows of the trace that the replay could not use.

    Args:
        group: whose rows these are.
        chunks: all of them, ordered by their first seq.
        rules: what the replay depends on.
        findings_per_rule_max: how many findings of each rule are kept with their evidence; 0: all.
    """
    for table, found in _tables(group, chunks, rules, findings_per_rule_max):
        if found:
            # Findings of one rule leave out columns that those of another fill.
            columns = dict.fromkeys(name for row in found for name in row)
            yield table, {name: [row.get(name) for row in found] for name in columns}


def _tables(
    group: Group, chunks: Iterable[Chunk], rules: Rules, findings_per_rule_max: int
) -> Iterator[tuple[str, Rows]]:
    replay = Subscription(rules)
    senders = Producers()
    counted = RowsSeen(rules.skew_us)
    refused = 0
    for part in merged(_noted(chunks, senders)):
        counted.add(part)
        replay.feed(part.events, part.membership, part.snapshots)
        yield "assignments", rows.assignments(*group, replay.take_epochs())
        of_part = [*part.repeated, *replay.take_refused()]
        refused += len(of_part)
        yield "refused", [_refused(group, r) for r in of_part]
    found = replay.finish()
    yield "assignments", rows.assignments(*group, replay.take_epochs(final=True))
    of_rest = replay.take_refused()
    yield "refused", [_refused(group, r) for r in of_rest]
    partitions = rows.partitions(*group, counted, refused + len(of_rest), found.seen)
    sources = (rows.dispatch_findings, rows.stuck_findings, rows.mismatch_findings)
    findings = [of_rule for source in sources for of_rule in source(found, rules, findings_per_rule_max)]
    findings.append(rows.mixed_key_batches(senders))
    yield "violations", rows.violations(*group, findings)
    yield "metrics", rows.with_completeness(rows.metrics(*group, rules.profile.rules, findings), partitions)
    yield "partitions", partitions
    yield "draining", rows.draining(*group, found)
    yield "blocking", rows.blocking(*group, found)
    yield "capacity", rows.capacity(*group, found.watch.samples)
    yield "consumers", rows.consumers(*group, found)
    yield "hot_keys", rows.hot_keys(*group, found, rules.hot_keys_max)
    yield "producers", rows.producers(*group, senders)


def _noted(chunks: Iterable[Chunk], senders: Producers) -> Iterator[Chunk]:
    for chunk in chunks:
        senders.add(chunk.published)
        yield chunk


def _refused(group: Group, row: Refused) -> dict[str, object]:
    return {"topic": group.topic, "subscription": group.subscription, **row._asdict()}
