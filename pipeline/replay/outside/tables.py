"""The rows of the tables for a subscription that was recorded outside of the broker."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from dispatch_audit.pipeline.contract.recorded_by import CLIENT, OUTSIDE
from dispatch_audit.pipeline.contract.rules import RuleName
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.outside.client_view import ClientView, Pair
from dispatch_audit.pipeline.replay.packing.packed_batch import PackedBatch, merged
from dispatch_audit.pipeline.replay.packing.snapshot import parsed_snapshot
from dispatch_audit.pipeline.replay.recorders.recorders import ONE
from dispatch_audit.pipeline.replay.rows.coverage import answers_from_outside, coverage, refused
from dispatch_audit.pipeline.replay.rows.findings import metrics, violations
from dispatch_audit.pipeline.replay.subscription.completeness import RowsSeen, Unseen
from dispatch_audit.pipeline.replay.verdicts.finding import FindingText, JudgedFinding, RuleFindings
from dispatch_audit.pipeline.replay.verdicts.naming import Columns, columns_of, position


class _Shown(NamedTuple):
    """What rows of clients show of a rule."""

    rule: RuleName
    checked: int  # how often it was checked
    pairs: Sequence[Pair]  # what contradicts it
    words: FindingText  # the text of each, with names in braces


_OUT_OF_ORDER: Final = FindingText(
    "{consumer} received entry {entry} (seq {seq}) for the first time",
    "the later entry {earlier} of the key had been received (seq {earlier_seq})",
    "after",
    ("not provable: a client sees no seek, unload or reconnect, nor whether another consumer had the entry before",),
)
_TWO_HOLDERS: Final = FindingText(
    "{consumer} received entry {entry} (seq {seq})",
    "{other} had neither acknowledged nor given back entry {earlier} of the key (seq {earlier_seq})",
    "while",
    (
        "not provable: the broker takes entries back from a consumer that loses its connection or exceeds its "
        "acknowledgement timeout, which a client does not see",
    ),
)


def outside_tables(
    batches: Iterable[PackedBatch], config: ReplayConfig, findings_per_rule_max: int
) -> Iterator[tuple[str, Columns]]:
    """Yields the name of a table and columns with rows of it.

    Args:
        batches: all packed batches of the subscription, ordered by their first seq.
        config: the configuration of the replay.
        findings_per_rule_max: how many findings of each rule become rows; `ALL`: every one.

    Raises:
        LimitError: more messages are open at one time than the limit allows.
    """
    view, counted = ClientView(config.open_entries_max), RowsSeen(config.skew_us)
    unused, listed = 0, set[int]()
    for part in merged(batches):
        counted.add(part)
        if config.recorded_by == CLIENT:
            view.feed(part.events, part.membership, part.gaps)
        for found in map(parsed_snapshot, part.snapshots):
            listed |= {one.consumer for one in (*found.as_before, *found.consumers)}
        unused += len(part.contradicted)
        yield "refused", refused([*part.contradicted, *part.repeated], ONE)
    findings = [
        RuleFindings(
            shown.rule,
            shown.checked,
            {"not_provable": len(shown.pairs)},
            [_finding(view, pair, shown.words) for pair in shown.pairs[: findings_per_rule_max or None]],
        )
        for shown in (
            _Shown("first_delivery_order", view.compared, view.out_of_order, _OUT_OF_ORDER),
            _Shown("single_holder", view.checked, view.two_holders, _TWO_HOLDERS),
        )
        if shown.rule in OUTSIDE[config.recorded_by].shown and shown.rule in config.profile.rules
    ]
    # Only compared receives are judged rows; acknowledgements only settle entries.
    unseen = Unseen(
        rows_censored=counted.rows - view.checked - unused - view.unkeyed,
        dispatches_without_key=view.unkeyed,
        censored_never_acknowledged=view.open,
        consumers_by_snapshot_only=len(listed),
    )
    covered = coverage(counted, unused, unseen, 0) | answers_from_outside(counted.dispatches)
    yield "violations", violations(findings, findings_per_rule_max)
    yield "metrics", columns_of(metrics(config.profile.rules, findings, covered["completeness"]))
    yield "coverage", columns_of([covered])


def _finding(view: ClientView, pair: Pair, text: FindingText) -> JudgedFinding:
    receive, earlier = pair
    entry, before = position(*receive.position), position(*earlier.position)
    consumer, other = (f"{view.names.get(one.consumer)} (consumer {one.consumer})" for one in pair)
    words = {
        "consumer": consumer,
        "other": other,
        "entry": entry,
        "seq": receive.seq,
        "earlier": before,
        "earlier_seq": earlier.seq,
    }
    return JudgedFinding(
        severity="not_provable",
        seq=receive.seq,
        ts_us=receive.ts_us,
        explanation=text._replace(what=text.what.format_map(words), against=text.against.format_map(words)),
        evidence=[f"seq {earlier.seq}: {other} received {before}", f"seq {receive.seq}: {consumer} received {entry}"],
        key_id=receive.key,
        ledger_id=receive.position[0],
        entry_id=receive.position[1],
        consumer=receive.consumer,
        consumer_name=view.names.get(receive.consumer),
        other_consumer=earlier.consumer,
        other_consumer_name=view.names.get(earlier.consumer),
        detail={"other_position": before, "other_seq": earlier.seq, "same_key": True},
    )
