"""Counts the epochs of recordings that are right, undecided and wrong, by what the broker knew itself.

    .venv/bin/python tests/replay/recordings/recording_epochs.py [NAME...]

The truth is the oracle's `assign` rows of one subscription on one topic: after each of them the broker had one
*state*, an assignment of all hashes. The audit claims an assignment for each of its epochs, and names the hashes of
which it does not know the owner (`Epoch.undecided`). Nothing else is a claim: not the number of an epoch, and
not its place, which the two sides of a bracket leave open.

A state and an epoch are the same if the same consumers have joined by then and the same ones are still there. The
consumers that are there are not enough: where one comes and goes inside a burst, the broker has the same consumers
before and after, and not always the same assignment. Both numbers only ever grow and shrink, so no state comes twice.
An epoch is then

- `right`: nothing of it is undecided, and all hashes have the owner that they have in its state;
- `undecided`: some hashes are undecided, and all others have the owner that they have in its state;
- `wrong`: a hash that is not undecided has another owner than in its state.

Where the evidence leaves the order of a burst open, the audit may pass through consumers that the broker never had
together, and the broker through consumers that the audit does not have. Such an epoch has no state of its own. It is
wrong unless it agrees, in every hash that is not undecided, with a state that was in force while the epoch lasted, or
between the nearest epochs before and after it that have one: when a change happened inside of its bracket is not
judged. So it can hardly be right without a word about what is undecided, and this is what "wrong without saying so" is
held against.

A state that nobody claims is the same error seen from the other side: the audit claims that the assignment before it
or after it was in force meanwhile. Where an epoch without a state stands in the gap, that one answers for it;
where none does, the state counts as one wrong epoch unless it is the same as the state before or after the gap, or as
an epoch meanwhile but for what is undecided there. A restart is an exception: one consumer after the other is closed
within microseconds, and the audit has one epoch for it.
"""

import math
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NamedTuple

from hash_sets import Owned, Range, agree
from local_replay import Replay, replayed_recording
from oracle import membership_changes, oracle_rows
from recorded import RECORDINGS
from recorded_batches import joined, recorded_batches

from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.pipeline.replay.membership.history import PlacedEpoch

Present = tuple[frozenset[int], frozenset[int]]
"""Who has joined so far, and who of them is still there."""


class State(NamedTuple):
    """What the broker had from `seq` on."""

    seq: int
    change: str
    present: Present
    owned: Owned


class Claim(NamedTuple):
    """What the audit says of one epoch."""

    seq: int
    until: float
    change: str
    present: Present
    owned: Owned
    undecided: tuple[Range, ...]


@dataclass
class Judged:
    """The epochs of one subscription, or of several.

    Attributes:
        right: how many.
        undecided: how many.
        wrong: each in words, in the order of the trace.
    """

    right: int = 0
    undecided: int = 0
    wrong: list[str] = field(default_factory=list)

    def __add__(self, other: "Judged") -> "Judged":
        return Judged(self.right + other.right, self.undecided + other.undecided, self.wrong + other.wrong)

    def __str__(self) -> str:
        return f"{self.right} / {self.undecided} / {len(self.wrong)}"


def states_of(rows: Sequence[dict[str, Any]], group: Group, recorded: Container[int]) -> list[State]:
    """The states of one subscription by the oracle's rows, ascending, but for those of consumers that are not recorded.

    A client whose connection closes while it subscribes may get a consumer for a millisecond. Its join has a start
    without a consumer number then, and nothing in the trace says that the broker let it in.
    """
    joined: set[int] = set()
    there: set[int] = set()
    states: list[State] = []
    for row in membership_changes(list(rows)):
        if (row["topic"], row["sub"]) != group or row["ci"] not in recorded:
            continue
        owned = {reported["ci"]: [(start, end) for start, end in reported["r"]] for reported in row["ranges"]}
        if row["op"] == "remove":
            there.discard(row["ci"])
        elif row["op"] == "add":
            there.add(row["ci"])
        else:
            # A new dispatcher, seen first with all whom it has.
            there = set(owned)
        joined |= there
        present = frozenset(joined), frozenset(there)
        states.append(State(row["seq"], f"{row['op']} {row['consumer']}", present, owned))
    return states


def claims_of(epochs: Sequence[PlacedEpoch]) -> list[Claim]:
    """What the audit says of the epochs of one subscription, which are in order."""
    joined: set[int] = set()
    claims = []
    for placed in epochs:
        epoch = placed.epoch
        joined |= epoch.names.keys()
        owned = {consumer: list(ranges) for consumer, ranges in epoch.owned.by_consumer.items()}
        present = frozenset(joined), frozenset(epoch.names)
        until = math.inf if placed.until is None else placed.until.seq
        claims.append(Claim(placed.since.seq, until, epoch.change, present, owned, placed.epoch.undecided.ranges))
    return claims


def judged(claims: Sequence[Claim], states: Sequence[State]) -> Judged:
    """The epochs of one subscription, held against what the broker had."""
    found = Judged()
    for stretch in _stretches(claims, states):
        for claim in stretch.claims:
            instead = [*stretch.states, *(_in_force(claim, states) if stretch.around else ())]
            if stretch.around and claim.until == claim.seq:
                # It lasted for no row, so nothing is claimed by it.
                found.undecided += 1
            elif not any(agree(claim.owned, state.owned, claim.undecided) for state in instead):
                had = ", ".join(f"{state.change} at {state.seq}" for state in instead)
                found.wrong.append(f"{claim.change} at {claim.seq}, where the broker had {had}")
            elif claim.undecided:
                found.undecided += 1
            else:
                found.right += 1
        for state in () if stretch.claims else stretch.states:
            following = next((claim.change for claim in claims if claim.seq >= state.seq), "")
            before = next((claim.change for claim in reversed(claims) if claim.seq <= state.seq), "")
            claimed = any(agree(state.owned, around.owned) for around in stretch.around) or any(
                agree(claim.owned, state.owned, claim.undecided) for claim in _claimed_then(state, states, claims)
            )
            if "reset" not in (before, following) and not claimed:
                found.wrong.append(f"nothing at {state.seq}, where the broker had {state.change}")
    return found


def _in_force(claim: Claim, states: Sequence[State]) -> list[State]:
    """The states that the broker had at some moment of an epoch."""
    until = [state.seq for state in states[1:]]
    return [s for s, end in zip_longest(states, until) if s.seq <= claim.until and (end is None or end >= claim.seq)]


def _claimed_then(state: State, states: Sequence[State], claims: Sequence[Claim]) -> list[Claim]:
    """The epochs that were in force while the broker had a state."""
    until = next((later.seq for later in states if later.seq > state.seq), math.inf)
    return [claim for claim in claims if claim.undecided and claim.seq <= until and claim.until >= state.seq]


class _Stretch(NamedTuple):
    """Either an epoch and its state, or all epochs and states between two such pairs, whose states are `around`."""

    claims: Sequence[Claim]
    states: Sequence[State]
    around: Sequence[State] = ()


def _stretches(claims: Sequence[Claim], states: Sequence[State]) -> Iterator[_Stretch]:
    at_state = {state.present: number for number, state in enumerate(states)}
    pairs = [(n, at_state[claim.present]) for n, claim in enumerate(claims) if claim.present in at_state]
    # Before the first epoch that has a state nothing is claimed; the last one is claimed to the end.
    claim = state = -1
    for next_claim, next_state in [*pairs, (len(claims), len(states))]:
        around = [states[number] for number in (state, next_state) if 0 <= number < len(states)]
        between = _Stretch(claims[claim + 1 : next_claim], states[state + 1 : next_state], around)
        if between.claims or state >= 0:
            yield between
        if next_claim < len(claims):
            yield _Stretch(claims[next_claim : next_claim + 1], states[next_state : next_state + 1])
        claim, state = next_claim, next_state


def judged_recording(name: str, replays: Mapping[Group, Replay]) -> Judged:
    """The epochs of all subscriptions of a recording together."""
    rows = oracle_rows(RECORDINGS / name)
    recorded = joined(recorded_batches(name))
    found = Judged()
    for group, replay in replays.items():
        found += judged(claims_of(replay.epochs), states_of(rows, group, recorded))
    return found


def line(name: str, found: Judged) -> str:
    """A recording's line of the table."""
    first = f"  first: {found.wrong[0]}" if found.wrong else ""
    return f"{name:40} {found.right:5} {found.undecided:5} {len(found.wrong):5}{first}"


def main(names: Sequence[str]) -> None:
    print(f"{'epochs':40} right undec. wrong")
    total = Judged()
    for name in names or sorted(path.name for path in RECORDINGS.iterdir() if path.is_dir()):
        found = judged_recording(name, replayed_recording(name))
        total += found
        print(line(name, found), flush=True)
    print(line("all", total).split("  first")[0])


if __name__ == "__main__":
    main(sys.argv[1:])
