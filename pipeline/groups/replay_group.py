"""Replays one group from its packed batches to rows of the tables, without Spark or Delta."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Final

from dispatch_audit.pipeline.contract.recorded_by import BROKER
from dispatch_audit.pipeline.contract.rule import About
from dispatch_audit.pipeline.errors import LimitError
from dispatch_audit.pipeline.groups.assignments_rows import assignments
from dispatch_audit.pipeline.groups.blocking_rows import blocking, capacity, draining
from dispatch_audit.pipeline.groups.columns import Columns, columns_of
from dispatch_audit.pipeline.groups.findings_rows import (
    answers,
    coverage,
    metrics,
    need_a_look,
    refused,
    violations,
    with_finding_ids,
)
from dispatch_audit.pipeline.groups.outside import outside_tables
from dispatch_audit.pipeline.groups.traffic_rows import consumers, hot_keys, producers
from dispatch_audit.pipeline.packing.packed_batch import Group, Merged, PackedBatch, merged
from dispatch_audit.pipeline.packing.producer_summary import Producers
from dispatch_audit.pipeline.recorders.one_order import Transfers
from dispatch_audit.pipeline.recorders.recorders import ONE, Recorders
from dispatch_audit.pipeline.replay.checkpoint import (
    STATE_VERSION,
    GroupState,
    read_checkpoint,
    write_checkpoint,
)
from dispatch_audit.pipeline.replay.clients.client_facts import client_findings
from dispatch_audit.pipeline.replay.clients.connections import mixed_key_batches, published_twice, two_kinds_of_keys
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.subscription.completeness import RowsSeen
from dispatch_audit.pipeline.replay.subscription.range_ownership import OwnedRanges, RangeOwnership
from dispatch_audit.pipeline.replay.subscription.step_loop import Observer
from dispatch_audit.pipeline.replay.subscription.subscription import Subscription
from dispatch_audit.pipeline.replay.trial.selector_trial import on_trial, weigh_selector
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.dispatch_findings import dispatch_findings
from dispatch_audit.pipeline.replay.verdicts.finding import RuleFindings
from dispatch_audit.pipeline.replay.verdicts.reported_findings import (
    clocks_apart,
    counter_findings,
    mismatch_findings,
    settings_findings,
)
from dispatch_audit.pipeline.replay.verdicts.stalls.stall_findings import stuck_findings

# Owned ranges that are kept until they become rows: a quiet partition has one payload of them, and memory a bound.
_RANGES_MAX: Final = 65_536


def replay_group(
    group: Group,
    batches: Iterable[PackedBatch],
    config: ReplayConfig,
    findings_per_rule_max: int,
    *,
    before: bytes | None = None,
    keep_state: bool = False,
    recorders: Recorders = ONE,
    observer: Observer | None = None,
) -> Iterator[tuple[str, Columns]]:
    """Yields the name of a table and columns of at least one row for it, as soon as there are any.

    The table `refused` gets the rows of the trace that the replay could not use, `state` what is open at the end.

    Args:
        group: the subscription on its topic partition.
        batches: all its packed batches, ordered by their first seq.
        config: the configuration of the replay.
        findings_per_rule_max: how many findings of each rule are kept with their evidence; 0: all.
        before: the state at the end of the window before; None: there is none.
        keep_state: whether the trace goes on after these rows.
        recorders: the recorders of the topic.
        observer: looks at the dispatcher between rows; of a replay with neither `before` nor `keep_state`.

    Raises:
        LimitError: more entries are open at one time than the limit allows.
        StateError: this version cannot continue from `before`.
    """
    if config.recorded_by != BROKER:
        found, recorders = outside_tables(batches, config, findings_per_rule_max), ONE
    else:
        if before is None:
            subscription = Subscription(config, observer)
            state = GroupState(
                subscription, RangeOwnership(), Producers(), RowsSeen(config.skew_us, not config.sample.is_all)
            )
        else:
            state = read_checkpoint(before, config)
        # An observed replay keeps the selector of its configuration.
        begins = before is None and observer is None
        found = _replayed(group, batches, config, findings_per_rule_max, state, begins, keep_state, recorders)
    with _named(group):
        for table, columns in found:
            if columns:
                size = len(next(iter(columns.values())))
                of_group = {"topic": [group.topic] * size, "subscription": [group.subscription] * size}
                numbered = {**of_group, **recorders.in_own_numbers(table, columns)}
                yield table, with_finding_ids(numbered) if table == "violations" else numbered


@contextmanager
def _named(group: Group) -> Iterator[None]:
    """Adds the subscription to the error of a limit, which does not know it."""
    try:
        yield
    except LimitError as error:
        raise LimitError(f"{group.topic}, subscription {group.subscription}: {error.args[0]}", error.way_out) from error


def _replayed(
    group: Group,
    batches: Iterable[PackedBatch],
    claimed: ReplayConfig,
    findings_per_rule_max: int,
    state: GroupState,
    begins: bool,
    keep_state: bool,
    recorders: Recorders,
) -> Iterator[tuple[str, Columns]]:
    """Yields the name of a table and its columns; outside of texts, rows and consumers have the replay's numbers."""
    transfers, unused = Transfers(recorders), 0
    parts = merged(_counted(transfers.among(batches), state.producers))
    first: Sequence[Merged] = ()
    if begins:
        subscription, first = on_trial(state.subscription, parts, goes_on=keep_state)
        state = state._replace(subscription=subscription)
    subscription, range_ownership, sent, seen = state
    config, owners = subscription.config, subscription.loop.membership.owners
    ended: list[OwnedRanges] = []
    for number, part in enumerate(chain(first, parts)):
        seen.add(part)
        if number >= len(first):
            subscription.feed(part)
        ended += range_ownership.follow(owners.take_epochs())
        if sum(ranges.epochs.size for ranges in ended) > _RANGES_MAX:
            yield "assignments", assignments(group, ended)
            ended = []
        of_part = [*part.contradicted, *subscription.loop.take_refused()]
        unused += len(of_part)
        yield "refused", refused([*part.repeated, *of_part], recorders)
    if keep_state:
        subscription.pass_time()
    else:
        subscription.close()
    weigh_selector(subscription)
    whole = None if keep_state else subscription.finish()
    ended += range_ownership.follow([*owners.take_epochs(), *owners.open_epoch()])
    if keep_state:
        payload = write_checkpoint(state, claimed)
        yield "state", columns_of([{"version": STATE_VERSION, "payload": payload}])
    seen.leave_out(transfers.rows, transfers.places)
    found = subscription.so_far() if whole is None else whole
    yield "assignments", assignments(group, [*ended, *range_ownership.going_on()])
    of_rest = subscription.loop.take_refused()
    yield "refused", refused(of_rest, recorders)
    unused += len(of_rest)
    context = FindingContext(found, config, recorders)
    findings = [
        *findings_by_rule(context, findings_per_rule_max),
        mixed_key_batches(sent, context),
        published_twice(sent, context),
        two_kinds_of_keys(sent, context),
        *clocks_apart(context),
        *client_findings(context),
    ]
    held = Counter[About]()
    if keep_state:
        to_the_end = dataclasses.replace(found, report_range=found.report_range.to_the_end)
        with_last_rows = findings_by_rule(FindingContext(to_the_end, config, recorders), 1)
        held = need_a_look(to_the_end, with_last_rows) - need_a_look(found, findings)
    covered = coverage(seen, unused, found.unseen, found.monitor.intervals.left_out.total())
    yield "violations", violations(findings, findings_per_rule_max)
    for table, found_rows in (
        ("metrics", metrics(config.profile.rules, findings, covered["completeness"])),
        ("coverage", [covered | answers(context, findings, seen, unused, held)]),
        ("draining", draining(context)),
        ("blocking", blocking(context)),
        ("capacity", capacity(found.monitor.samples)),
        ("consumers", consumers(context)),
        ("hot_keys", hot_keys(found, config.hot_keys_max)),
        ("producers", producers(sent)),
    ):
        yield table, columns_of(found_rows)


def _counted(batches: Iterable[PackedBatch], producers: Producers) -> Iterator[PackedBatch]:
    for batch in batches:
        producers.add(batch.published)
        yield batch


def findings_by_rule(context: FindingContext, per_rule_max: int) -> list[RuleFindings]:
    """The findings that the window reports, for every rule that applies to the broker; a rule may stand there twice.

    At most `per_rule_max` findings of each rule of the kernel are worded; `ALL`: every one.
    """
    of_dispatches = dispatch_findings(context, per_rule_max)
    others = (stuck_findings, mismatch_findings, settings_findings, counter_findings)
    found = [*of_dispatches, *(of_rule for source in others for of_rule in source(context))]
    return [of_rule for of_rule in found if context.applies(of_rule.rule)]
