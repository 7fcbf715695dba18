"""The dispatcher once more, as simple as it gets: dictionaries, lists, and a look at everything for every row.

Written from contract 3, 5 and 9 and from the statements of the rules in docs/RULES.md, not from the compiled core, so
that the two can be held against each other. It takes rows of a `Log` in which every interval has both sides and no
width: an effect happens at its first row, but for redeliver rows, which have the first one only. AUTO_SPLIT, ordered,
no resets, no administrative moves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from local_replay import SKEW_US, Episode, Finding

from dispatch_audit.pipeline.assignment import make_selector
from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.udfs.sticky_key_hash import sticky_hashes

Position = tuple[int, int]

NEVER_US = -(10**9)


@dataclass
class Entry:
    """One entry, which is never forgotten here.

    Attributes:
        hash: -1 until a row says its key.
        holder: who has it pending.
        sent_to: whom it was sent to last; the audit need not remember it of an entry below mark-delete.
        given_back: nacked or left behind since it was sent last.
        left: messages of the batch that no ack set has acknowledged, as bits; None before the first ack set.
        nacked: by a redeliver row, since it was sent last.
        waits_since_us: when it began to wait last.
        named_us: when a redeliver row last named it for a consumer that did not hold it.
        named_by: that consumer.
        named_before: `named_us` and `named_by` when it was acknowledged and mark-delete passed it; the audit may still
            know them as long as a read in flight may send the entry.
        vague: perhaps given back again as soon as it was sent, by a row that stands before, or by `also_at`.
        also_at: who had it pending when it was sent to another consumer.
    """

    hash: int = -1
    messages: int = 1
    holder: int = -1
    sent_to: int = -1
    sent_seq: int = -1
    sent: bool = False
    waiting: bool = False
    given_back: bool = False
    acked: bool = False
    delayed: bool = False
    also_at: int = -1
    left: int | None = None
    nacked: bool = False
    waits_since_us: int = NEVER_US
    named_us: int = NEVER_US
    named_by: int = -1
    named_before: tuple[int, int] = (NEVER_US, -1)
    vague: bool = False


@dataclass
class Draining:
    """A hash that moved away while entries of it are pending at `holder`."""

    holder: int
    new_owner: int
    from_seq: int
    held_at_start: int
    away: bool = True
    waited_us: int = 0
    returned_seq: int = -1
    awaited: int = 0


class SimpleDispatcher:
    """Takes rows one by one.

    Attributes:
        findings: rules broken so far, in order.
        episodes: draining episodes that are over, in the order of their end.
        counts: by consumer, entries sent to it and entries that its acknowledgements settled.
        connected: the consumers that are there.
        entries: every position seen.
        pending: positions that somebody holds, in the order in which they were sent.
        depends_on_memory: whether an entry was sent that is perhaps given back at once, by a row that the audit need
            not remember.
    """

    def __init__(self, version: str, settings: Mapping[str, object]) -> None:
        profile = profile_for(version, settings)
        by_ring = settings.get("subscriptionKeySharedUseConsistentHashing") is not False
        self._selector = make_selector("consistent_hashing" if by_ring else "auto_split", profile=profile)
        self._hash_rule = profile.hash["consistent_hashing" if by_ring else "auto_split"]
        self._mark_delete_releases = profile.mark_delete_releases == "any"
        self._ignores_ack_sets = settings.get("acknowledgmentAtBatchIndexLevelEnabled") is False
        self._routing = self._selector.routing()
        self.findings: list[Finding] = []
        self.depends_on_memory = False
        self.episodes: list[Episode] = []
        self.counts: dict[int, list[int]] = {}
        self.connected: list[int] = []
        self.entries: dict[Position, Entry] = {}
        self.pending: list[Position] = []
        self._hashes: dict[bytes, int] = {}
        self._holders: dict[int, int] = {}
        self._draining: dict[int, Draining] = {}
        self._top: dict[int, Position] = {}
        self._gave_all_back_us: dict[int, int] = {}
        self._mark_delete: Position | None = None
        self._seq = 0
        self._now_us = 0

    def owner(self, sticky_hash: int) -> int:
        """Who gets the hash; -1: nobody."""
        return int(self._routing.owners_of([sticky_hash])[0])

    def hash_of(self, key: bytes) -> int:
        """The sticky hash of a key."""
        if key not in self._hashes:
            self._hashes[key] = int(sticky_hashes([key], self._hash_rule)[0])
        return self._hashes[key]

    def take(self, row: Mapping[str, Any]) -> None:
        """Applies the next row."""
        self._let_time_pass(row["ts_us"])
        self._seq = row["seq"]
        if row.get("phase", "start") == "start":
            getattr(self, "_" + row["event"])(row)
        self._forget_what_is_deleted()

    def close(self) -> None:
        """No row follows."""
        for sticky_hash in list(self._draining):
            self._end_draining(sticky_hash, "open")

    # What happens between two rows.

    def _let_time_pass(self, now_us: int) -> None:
        for sticky_hash, draining in self._draining.items():
            if draining.away:
                messages = sum(e.messages for e in self.entries.values() if e.waiting and e.hash == sticky_hash)
                draining.waited_us += messages * (now_us - self._now_us)
        self._now_us = now_us

    def _forget_what_is_deleted(self) -> None:
        for position, entry in self.entries.items():
            replay_may_send_it = entry.given_back
            if entry.acked and entry.holder < 0 and not replay_may_send_it and self._deleted(position):
                entry.sent_to = entry.sent_seq = entry.also_at = -1
                if entry.named_us != NEVER_US:
                    entry.named_before = entry.named_us, entry.named_by
                entry.nacked, entry.named_us = False, NEVER_US

    def _deleted(self, position: Position) -> bool:
        return self._mark_delete is not None and position <= self._mark_delete

    # The rows.

    def _join(self, row: Mapping[str, Any]) -> None:
        owners = self._owners()
        self._selector.add(row["consumer"], row["consumer_name"], None)
        self._routing = self._selector.routing()
        self.connected.append(row["consumer"])
        self.counts[row["consumer"]] = [0, 0]
        self._drain_what_moved(owners)

    def _leave(self, row: Mapping[str, Any]) -> None:
        consumer = row["consumer"]
        owners = self._owners()
        self.connected.remove(consumer)
        self._give_back([p for p in self.pending if self.entries[p].holder == consumer], "leave")
        self._give_back_too(list(self.entries), consumer)
        self._selector.remove(consumer)
        self._routing = self._selector.routing()
        if not self.connected:
            self._top.clear()  # the cursor rewinds, the order starts anew (E3)
        self._drain_what_moved(owners)

    def _publish(self, row: Mapping[str, Any]) -> None:
        position = (row["ledger_id"], row["entry_id"])
        known = position in self.entries
        entry = self._entry(position, row["key"])
        entry.delayed |= row.get("deliver_at_ms") is not None
        if not known:
            entry.messages = row["batch_size"]
            self._wait(position)

    def _dispatch(self, row: Mapping[str, Any]) -> None:
        position, consumer = (row["ledger_id"], row["entry_id"]), row["consumer"]
        known = position in self.entries
        entry = self._entry(position, row["key"])
        if not known:
            entry.messages = row["batch_size"]
        self._check(position, entry, consumer)
        vague = self._perhaps_given_back(entry, consumer)
        if (entry.holder != consumer or entry.vague) and position in self.pending:
            if entry.holder != consumer:
                entry.also_at = entry.holder
            self.pending.remove(position)
            entry.holder = -1
            self._see_who_holds(entry.hash, "redeliver")
        if position not in self.pending:
            self.pending.append(position)
        entry.holder = entry.sent_to = consumer
        entry.sent_seq = self._seq
        entry.sent = True
        entry.waiting = entry.given_back = entry.nacked = False
        entry.vague = vague
        named_us, named_by = entry.named_before
        self.depends_on_memory |= not vague and named_us >= self._now_us - SKEW_US and named_by == consumer
        self.counts[consumer][0] += 1
        self._see_who_holds(entry.hash, "redeliver")

    def _perhaps_given_back(self, entry: Entry, consumer: int) -> bool:
        since_us = self._now_us - SKEW_US
        if entry.named_us >= since_us and entry.named_by == consumer:
            return True
        if entry.nacked and entry.waits_since_us >= since_us:
            return False
        return self._gave_all_back_us.get(consumer, NEVER_US) >= since_us

    def _ack(self, row: Mapping[str, Any]) -> None:
        if row["ack_type"] == "cumulative":
            return
        for named in row["positions"]:
            position = (named["ledger_id"], named["entry_id"])
            if not named["ack_set"]:
                self._ack_whole(position, row["consumer"])
            elif not self._ignores_ack_sets:
                self._ack_in_part(position, named["ack_set"])

    def _ack_whole(self, position: Position, consumer: int) -> None:
        entry = self._entry(position, None)
        if position in self.pending:
            self.counts[consumer][1] += 1
            self.pending.remove(position)
        entry.holder = -1
        entry.acked, entry.waiting = True, False
        self._see_who_holds(entry.hash, "ack")
        self._move_mark_delete()

    def _ack_in_part(self, position: Position, ack_set: list[int]) -> None:
        entry = self.entries.get(position)
        if entry is None or entry.acked:
            return
        not_yet = sum((word & (1 << 64) - 1) << 64 * i for i, word in enumerate(ack_set))
        entry.left = not_yet if entry.left is None else entry.left & not_yet
        if entry.left == 0:
            entry.acked, entry.waiting = True, False  # and yet pending (contract 5.3)
            self._move_mark_delete()

    def _redeliver(self, row: Mapping[str, Any]) -> None:
        held = [p for p in self.pending if self.entries[p].holder == row["consumer"]]
        if not row["positions"]:
            self._give_back(held, "redeliver")
            self._give_back_too(list(self.entries), row["consumer"])
            self._gave_all_back_us[row["consumer"]] = row["ts_us"]
        for named in row["positions"]:
            position = (named["ledger_id"], named["entry_id"])
            if position in held:
                self._give_back([position], "redeliver")
                held.remove(position)
            elif position in self.entries:
                entry = self.entries[position]
                entry.named_us, entry.named_by = row["ts_us"], row["consumer"]
                self._give_back_too([position], row["consumer"])

    # What they have in common.

    def _entry(self, position: Position, key: bytes | None) -> Entry:
        if self._mark_delete is None:
            self._mark_delete = (position[0], position[1] - 1)
        entry = self.entries.setdefault(position, Entry())
        if key is not None and entry.hash < 0:
            entry.hash = self.hash_of(key)
        return entry

    def _check(self, position: Position, entry: Entry, consumer: int) -> None:
        owner = self.owner(entry.hash)
        if owner != consumer:
            self._found("ownership", entry, consumer, owner, -1)
        drains = entry.hash in self._draining and self._draining[entry.hash].away
        for other in (self.entries[p] for p in self.pending):
            # Only a hash that drains waits for a batch of which all messages are acknowledged (contract 5.3).
            held = other.holder in self.connected and not other.vague and (drains or not other.acked)
            if other.hash == entry.hash and other.holder != consumer and held:
                self._found("single_holder", entry, consumer, other.holder, other.sent_seq)
                break
        if entry.holder in self.connected and not entry.vague:
            self._found("early_duplicate", entry, consumer, entry.holder, entry.sent_seq)
        elif entry.holder < 0 and entry.sent and entry.acked and not entry.given_back:
            self._found("early_duplicate", entry, consumer, entry.sent_to, entry.sent_seq, acknowledged=True)
        # An entry that is acknowledged was sent before, seen or not.
        if not (entry.sent or entry.acked or entry.delayed):
            top = self._top.get(entry.hash)
            if top is None or position > top:
                self._top[entry.hash] = position
            else:
                self._found("first_delivery_order", entry, consumer, -2, -2)

    def _found(
        self, rule: str, entry: Entry, consumer: int, other: int, other_seq: int, acknowledged: bool = False
    ) -> None:
        draining = entry.hash in self._draining and self._draining[entry.hash].away
        self.findings.append(Finding(rule, self._seq, consumer, other, other_seq, draining, acknowledged))

    def _give_back(self, positions: list[Position], ended_by: str) -> None:
        for position in positions:
            self.pending.remove(position)
            self.entries[position].holder = -1
            self.entries[position].nacked |= ended_by == "redeliver"
        for sticky_hash in sorted({self.entries[p].hash for p in positions}):
            self._see_who_holds(sticky_hash, ended_by)
        for position in positions:
            if not self.entries[position].acked:
                self.entries[position].given_back = True
                self._wait(position)

    def _give_back_too(self, positions: list[Position], consumer: int) -> None:
        for entry in (self.entries[position] for position in positions):
            if entry.also_at == consumer:
                entry.also_at, entry.vague = -1, True

    def _wait(self, position: Position) -> None:
        entry = self.entries[position]
        if not entry.waiting:
            entry.waits_since_us = self._now_us
        entry.waiting = True
        if entry.hash in self._draining and self._draining[entry.hash].away:
            self._draining[entry.hash].awaited += 1

    def _move_mark_delete(self) -> None:
        assert self._mark_delete is not None
        while True:
            ledger, entry = self._mark_delete
            following = self.entries.get((ledger, entry + 1))
            later_ledgers = sorted({known for known, _ in self.entries if known > ledger})
            if following is not None and following.acked:
                self._mark_delete = (ledger, entry + 1)
                if following.holder >= 0 and self._mark_delete_releases:
                    self.pending.remove(self._mark_delete)
                    following.holder = -1
                    self._see_who_holds(following.hash, "mark_delete")
            elif following is None and later_ledgers:
                self._mark_delete = (later_ledgers[0], -1)
            else:
                return

    # Draining.

    def _owners(self) -> dict[int, int]:
        return {h: self.owner(h) for h in {entry.hash for entry in self.entries.values()} if h >= 0}

    def _held(self, sticky_hash: int, consumer: int) -> int:
        return sum(self.entries[p].hash == sticky_hash and self.entries[p].holder == consumer for p in self.pending)

    def _see_who_holds(self, sticky_hash: int, ended_by: str) -> None:
        """Somebody got or gave up entries of the hash: it belongs to its holder until that one has none."""
        holder = self._holders.get(sticky_hash, -1)
        if holder >= 0 and self._held(sticky_hash, holder):
            return
        if sticky_hash in self._draining:
            self._end_draining(sticky_hash, ended_by)
        held = [self.entries[p].holder for p in self.pending if self.entries[p].hash == sticky_hash]
        self._holders[sticky_hash] = held[0] if held else -1

    def _drain_what_moved(self, before: dict[int, int]) -> None:
        for sticky_hash, old_owner in before.items():
            holder, owner = self._holders.get(sticky_hash, -1), self.owner(sticky_hash)
            if holder < 0:
                continue
            draining = self._draining.get(sticky_hash)
            if draining is None and old_owner == holder != owner:
                held = self._held(sticky_hash, holder)
                draining = self._draining[sticky_hash] = Draining(holder, owner, self._seq, held, away=False)
            if draining is None:
                continue
            if owner == holder:
                if draining.away:
                    self.episodes.append(self._episode(sticky_hash, draining, "returned"))
                    draining.away, draining.returned_seq = False, self._seq
                    draining.awaited, draining.waited_us = 0, 0
            else:
                draining.new_owner = owner
                if not draining.away:
                    draining.awaited += sum(e.waiting and e.hash == sticky_hash for e in self.entries.values())
                draining.away, draining.returned_seq = True, -1

    def _end_draining(self, sticky_hash: int, ended_by: str) -> None:
        self.episodes.append(self._episode(sticky_hash, self._draining.pop(sticky_hash), ended_by))

    def _episode(self, sticky_hash: int, d: Draining, ended_by: str) -> Episode:
        return Episode(
            sticky_hash,
            d.holder,
            d.new_owner,
            d.from_seq,
            self._seq,
            d.held_at_start,
            ended_by,
            d.awaited,
            d.waited_us,
            d.returned_seq,
        )
