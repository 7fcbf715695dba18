"""Decides from the first rows of a subscription by which selector it is replayed.

The replay begins with the selector that the trace claims. Once a snapshot of several consumers reports the ranges that
this selector gives them, it is confirmed; nearly every trace confirms it in its first snapshots. If snapshots or
dispatches contradict it, the same rows are replayed with the other selectors that may give the reported ranges, and the
first that explains them takes its place from the first row on. So rows are kept until the selector is confirmed, about
`TRIAL_ROWS` of them at most.

If no known selector explains the rows, or the contradiction shows only later, the owners of hashes are undecided.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from dispatch_audit.pipeline.replay.packing.membership_rows import NEVER
from dispatch_audit.pipeline.replay.packing.packed_batch import Merged
from dispatch_audit.pipeline.replay.subscription.subscription import Subscription
from dispatch_audit.pipeline.replay.trial.contradictions import (
    UNKNOWN_SELECTOR,
    no_selector_found,
    other_selector_found,
    settings_of,
)
from dispatch_audit.pipeline.replay.trial.other_selectors import other_selectors
from dispatch_audit.pipeline.replay.trial.selector_evidence import evidence_of

TRIAL_ROWS: Final = 1 << 17
"""The number of rows after which the claimed selector stays if nothing contradicts it."""


def on_trial(replay: Subscription, parts: Iterator[Merged], goes_on: bool) -> tuple[Subscription, list[Merged]]:
    """Replays the first rows, and chooses the selector.

    Args:
        replay: the replay in front of the first row, with the selector that the trace claims.
        parts: the rows; those up to the decision are taken.
        goes_on: whether the trace goes on after all of them.

    Returns:
        The replay that goes on, and the parts that it has taken.
    """
    kept: list[Merged] = []
    rows, until = 0, NEVER
    while not replay.loop.reported.confirmed and replay.released.seq < until:
        part = next(parts, None)
        if part is None:
            return _chosen(replay, kept, NEVER, final=not goes_on), kept
        kept.append(part)
        replay.feed(part)
        before, rows = rows, rows + part.events.seq.size
        if before < TRIAL_ROWS <= rows:
            # However the rows are cut into parts, the same ones decide.
            until = int(part.events.seq[TRIAL_ROWS - before - 1])
    return _chosen(replay, kept, until, final=False), kept


def _chosen(claimed: Subscription, kept: Sequence[Merged], until: int, final: bool) -> Subscription:
    """The replay that goes on: by the claimed selector, or by another one that explains the rows up to `until`."""
    if final:
        claimed.close()
    against = evidence_of(claimed, until)
    if not against.contradicts:
        return claimed
    names = {number: stay.row.name for number, stay in claimed.loop.membership.stays.items()}
    for other in other_selectors(claimed.config, against.against, names):
        replay = Subscription(other.applied(claimed.config))
        for part in kept:
            replay.feed(part)
        if final:
            replay.close()
        # All hashes of one consumer look alike in many releases, so one snapshot does not show that it is another one.
        alone_min = 1 if other.is_of_release(claimed.config) else 2
        if evidence_of(replay, until).explains(against, alone_min):
            for contradiction in other_selector_found(claimed.config, other, against):
                replay.loop.settings.contradict(contradiction)
            return replay
    return claimed


def weigh_selector(replay: Subscription) -> None:
    """Notes, before the result of a window, whether the broker contradicts the selector of the replay."""
    loop = replay.loop
    if loop.reported.confirmed or loop.reported.seen:
        for name in settings_of(replay.config):
            loop.settings.compared(name)
    if loop.reported.confirmed or loop.membership.owners.unknown:
        return
    against = evidence_of(replay, NEVER)
    if against.rules_out:
        loop.settings.contradict(no_selector_found(replay.config, against))
        loop.disown(UNKNOWN_SELECTOR)
