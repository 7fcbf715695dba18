"""The packed events of one subscription, and which of them concern a hash.

Events are the rows as the replay gets them: keys hashed, lists of positions expanded, several recorders in one order.
Their seqs are therefore places in the order of the topic; with one recorder they are the trace's own.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.contract.profile import SelectorKind
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.groups.replay_rows import PackedRows, with_shown_selector
from dispatch_audit.pipeline.packing.events import Code, Events, among, concatenated
from dispatch_audit.pipeline.packing.gap import Gap
from dispatch_audit.pipeline.packing.hashes import hashes_of
from dispatch_audit.pipeline.packing.membership_rows import MembershipEvent
from dispatch_audit.pipeline.packing.packed_batch import Group, merged
from dispatch_audit.pipeline.packing.rows_aside import SettingsRow
from dispatch_audit.pipeline.recorders.recorders import Recorders
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.state.records import Ints
from dispatch_audit.udfs.sticky_key_hash import key_ids, sticky_hashes

_NAMING: Final = among(Code.PUBLISH, Code.PUBLISH_DELAYED, Code.DISPATCH_START, Code.DISPATCH_END)
_SENT: Final = among(Code.DISPATCH_START, Code.DISPATCH_END)
# They concern all that their consumer holds, or holds up to a position.
_OF_CONSUMER: Final = among(Code.REDELIVER_ALL, Code.ACK_CUMULATIVE)
_BACKGROUND: Final = among(Code.PUBLISH, Code.PUBLISH_DELAYED, Code.FLOW)
# Combines a position into one number.
_MIXER: Final = 0x1000003


@dataclass(frozen=True)
class SubscriptionEvents:
    """The events of a subscription, in the order of the replay.

    Attributes:
        packed: the rows, as `dispatch_audit.pipeline.groups.replay_rows` replays them.
        group: the subscription.
        config: of the replay, with the selector that the rows show.
        claimed: the same with the selector that the trace claims, by which an audit begins.
        events: its rows and the publishes of its topic.
        membership: the details of its joins, leaves and resets.
        gaps: in which rows of it may be missing.
        settings: the rows that say what is in force.
        recorders: of its topic.
    """

    packed: PackedRows
    group: Group
    config: ReplayConfig
    claimed: ReplayConfig
    events: Events
    membership: list[MembershipEvent]
    gaps: list[Gap]
    settings: list[SettingsRow]
    recorders: Recorders

    @staticmethod
    def of(packed: PackedRows, group: Group, config: ReplayConfig) -> "SubscriptionEvents":
        """Returns the events of one subscription of packed rows; the configuration is that which the trace claims."""
        parts = list(merged(packed.of_group[group]))
        membership = [row for part in parts for row in part.membership]
        gaps = [gap for part in parts for gap in part.gaps]
        settings = [row for part in parts for row in part.settings if row.recorded]
        events = concatenated([part.events for part in parts])
        shown, recorders = with_shown_selector(packed, group, config), packed.recorders_of(group.topic)
        return SubscriptionEvents(packed, group, shown, config, events, membership, gaps, settings, recorders)

    @cached_property
    def selector(self) -> SelectorKind:
        """The selector, by the first join: it decides (contract 2)."""
        first = next((row for row in self.membership if row.kind == "join"), None)
        return self.config.selector(sticky=first is not None and first.sticky)

    @cached_property
    def names(self) -> dict[int, str]:
        """The names of consumers by the replay's numbers, as the client gave them."""
        return {row.consumer: row.name for row in self.membership if row.kind == "join" and row.name}

    @cached_property
    def settings_changed(self) -> dict[int, frozenset[str]]:
        """By the place of each row `settings`, the names whose value or source is another one than before.

        A recorder repeats what is in force at the beginning of each file.
        """
        said: dict[str, tuple[object, object]] = {}
        changed = {}
        for row in self.settings:
            sources = json.loads(row.sources)
            says = {name: (value, sources.get(name)) for name, value in json.loads(row.values).items()}
            changed[row.seq] = frozenset(name for name, what in says.items() if said.get(name) != what)
            said |= says
        return changed

    def hash_of_key(self, key: str) -> int:
        """The sticky hash of a key in the range of the selector; where keys are digests, of a digest.

        Raises:
            UsageError: no row has this digest.
        """
        if self.config.keys_digested:
            (key_id,) = key_ids([key.encode()]).tolist()
            at = np.flatnonzero((self.events.key_id == key_id) & _NAMING[self.events.code] & (self.hashes >= 0))
            if not at.size:
                raise UsageError(
                    f"no row of {self.group.subscription} has the digest {key}",
                    "keys are digests in this trace: pass --key with one of a report or of hot_keys, or --hash",
                )
            return int(self.hashes[at[0]])
        return int(sticky_hashes([key.encode()], self.config.profile.hash[self.selector])[0])

    def hash_of_entry(self, ledger: int, entry: int) -> int | None:
        """The sticky hash of an entry; None: no row gives its key."""
        events = self.events
        at = np.flatnonzero((events.ledger == ledger) & (events.entry == entry) & (self.hashes >= 0))
        return None if not at.size else int(self.hashes[at[0]])

    def of_hash(self, sticky_hash: int) -> NDArray[np.bool_]:
        """Which events concern a hash: those of its entries, and those of all that a consumer holds of it."""
        return self._of_entries(_NAMING[self.events.code] & (self.hashes == sticky_hash))

    def of_entry(self, ledger: int, entry: int) -> NDArray[np.bool_]:
        """Which events concern an entry."""
        return self._of_entries((self.events.ledger == ledger) & (self.events.entry == entry))

    def of_consumers(self, numbers: Collection[int]) -> NDArray[np.bool_]:
        """Which events are of consumers by the replay's numbers, but for requests of permits."""
        concerned: NDArray[np.bool_] = np.isin(self.events.consumer, [*numbers]) & (self.events.code != Code.FLOW)
        return concerned

    def numbers_of(self, consumer: str) -> tuple[int, ...]:
        """The replay's numbers of the consumers with a name, else of the one with this number in the trace."""
        named = tuple(sorted(number for number, name in self.names.items() if name == consumer))
        if named or not consumer.isdigit():
            return named
        there = np.unique(self.events.consumer).tolist()
        return tuple(number for number in there if number >= 0 and self.recorders.consumer(number) == int(consumer))

    def _of_entries(self, naming: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which events concern the entries that some of them name."""
        events = self.events
        mixed = events.ledger * _MIXER + events.entry
        concerned: NDArray[np.bool_] = (events.ledger >= 0) & np.isin(mixed, mixed[np.flatnonzero(naming)])
        concerned &= ~_OF_CONSUMER[events.code] & (events.code != Code.MARK_DELETE)
        holders = np.unique(events.consumer[concerned & _SENT[events.code]])
        return concerned | (_OF_CONSUMER[events.code] & np.isin(events.consumer, holders))

    def in_general(self) -> NDArray[np.bool_]:
        """Which events are of interest if no hash is: all but publishes and flow."""
        return ~_BACKGROUND[self.events.code]

    def place(self, broker: str | None, seq: int) -> int:
        """The place of a row in the order of the topic."""
        return self.recorders.place(broker, seq)

    def place_at(self, ts_us: int) -> int:
        """The place of the first row at or after a moment; of the last row if there is none."""
        later = np.flatnonzero(self.events.ts_us >= ts_us)
        return int(self.events.seq[later[0] if later.size else -1]) if self.events.seq.size else 0

    def row_of(self, place: int) -> tuple[str | None, int]:
        """The recorder and its own seq of the row at a place."""
        if not self.recorders.terms:
            return self.recorders.names[0], place
        return self.recorders.names[self.recorders.term_of(place).recorder], self.recorders.seq(place)

    @cached_property
    def hashes(self) -> Ints:
        """The sticky hash of each event, as far as its own row says it; -1: it does not."""
        rules = self.config.profile.hash
        return hashes_of(self.events, rules[self.selector], rules[self.config.selector(sticky=False)])
