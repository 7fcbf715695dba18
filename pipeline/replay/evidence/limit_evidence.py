"""The claimed limits of unacknowledged messages: when they changed, and which of them the broker contradicts.

Rules count how often a limit is passed, and how often the broker holds back at it (`rules.limits_contradicted`). It
follows for the findings: those under a contradicted limit are not provable, and one within the bracket of a
change stands only if both values make it one.
"""

from typing import Final, NamedTuple

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.contract.rules import UNACKED_LIMIT
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.replay.dispatcher.claimed_limits import LIMITED, ContradictedLimit
from dispatch_audit.pipeline.replay.dispatcher.dispatcher import Dispatcher
from dispatch_audit.pipeline.replay.evidence.compared_settings import Contradiction
from dispatch_audit.pipeline.replay.packing.membership_rows import NEVER
from dispatch_audit.pipeline.replay.packing.snapshot import Snapshot
from dispatch_audit.pipeline.replay.settings.settings_in_force import (
    UNACKED_PER_CONSUMER,
    UNACKED_PER_SUBSCRIPTION,
    SettingsInForce,
)
from dispatch_audit.pipeline.replay.settings.settings_row import SettingsRow
from dispatch_audit.pipeline.replay.state.records import Records, chosen

_JUDGED: Final = (
    "no wait is put down to this limit any more, and dispatches beyond it are not provable instead of violations"
)


@checkpointed("changed_limit")
class _ChangedLimit(NamedTuple):
    """A limit that may have been in force between two rows, before the row that says so."""

    setting: str
    after_seq: int
    before_seq: int
    limit: int
    ts_us: int


@checkpointed("limit_rows")
class _LimitRows(NamedTuple):
    """The rows in which something holds of a claimed limit: those after `after_seq`, up to `until_seq`."""

    setting: str
    after_seq: int
    until_seq: int

    def include(self, limited: int, seq: int) -> bool:
        """Whether a finding about a limit (`limited`) is among them."""
        return LIMITED[self.setting] == limited and self.after_seq < seq <= self.until_seq


@checkpointed("limit_evidence")
class LimitEvidence:
    """What rows and snapshots say of the limits of one subscription."""

    __slots__ = ("_changed", "_disputed", "_reported", "_since")

    def __init__(self) -> None:
        self._changed: list[_ChangedLimit] = []
        # Where the limit is contradicted.
        self._disputed: list[_LimitRows] = []
        self._since = dict.fromkeys(LIMITED, -1)
        # The most unacknowledged messages that a snapshot reports of one consumer, and its row.
        self._reported: tuple[int, int] | None = None

    def put(self, row: SettingsRow, in_force: SettingsInForce, dispatcher: Dispatcher) -> None:
        """Puts the values of a row in force; a limit that it changes is judged anew."""
        before = [in_force.of(name) for name in LIMITED]
        in_force.put(row)
        for name, was in zip(LIMITED, before, strict=True):
            now = in_force.of(name)
            # Where rows were lost, the last one before them need not have been in force until now.
            if now.limit == was.limit and not (now.said_by_row and was.where == "lost"):
                continue
            self._disputed = [
                disputed._replace(until_seq=min(disputed.until_seq, row.seq)) if disputed.setting == name else disputed
                for disputed in self._disputed
            ]
            self._since[name] = row.seq
            if name == UNACKED_PER_CONSUMER:
                self._reported = None
            dispatcher.judge_anew(name)
            if row.seq_begin < row.seq:
                self._changed.append(_ChangedLimit(name, row.seq_begin, row.seq, now.limit, row.ts_us))

    def look(self, snapshot: Snapshot) -> None:
        """Remembers the most unacknowledged messages that the broker reports of a consumer."""
        most = max((consumer.unacked or 0 for consumer in snapshot.consumers), default=0)
        if self._reported is None or most > self._reported[0]:
            self._reported = most, snapshot.seq

    def contradicted(self, found: ContradictedLimit, in_force: SettingsInForce) -> Contradiction:
        """The report of a contradicted limit; from its beginning on, findings under it are not provable."""
        setting = in_force.of(found.setting)
        self._disputed.append(_LimitRows(found.setting, self._since[found.setting], NEVER))
        held = count(found.most, "unacknowledged message")
        who = "the subscription" if found.setting == UNACKED_PER_SUBSCRIPTION else "a consumer"
        rows = [(found.first_seq, f"{who} is sent more than the limit and batches allow")]
        if found.at.seq != found.first_seq:
            rows.append((found.at.seq, f"{who} is sent more, with up to {held} by now"))
        messages, seq = self._reported or (0, 0)
        if found.setting == UNACKED_PER_CONSUMER and messages > setting.limit:
            rows.append((seq, f"a snapshot reports {messages} unacknowledged messages of a consumer"))
        shown = (
            f"{who} gets up to {held} and goes past the limit {count(found.passes, 'time')}, while the broker holds "
            f"back at it {count(found.held_back, 'time')}"
        )
        return Contradiction(setting, shown, f"at least {found.most}", found.at, tuple(sorted(rows)), _JUDGED)

    def is_disputed(self, limited: int, seq: int) -> str | None:
        """The name of the contradicted limit that a finding is about; None: it stands."""
        return next((disputed.setting for disputed in self._disputed if disputed.include(limited, seq)), None)

    def holding(self, findings: Records, messages_of_a_read: int) -> Records:
        """The findings without those that a limit explains which may have been in force by then.

        One read brings `messages_of_a_read` at most.
        """
        explained = np.zeros(findings.size, dtype=np.bool_)
        for changed in self._changed:
            within = (findings.rule == UNACKED_LIMIT) & (findings.limited == LIMITED[changed.setting])
            within &= (findings.seq > changed.after_seq) & (findings.seq < changed.before_seq)
            if changed.limit > 0 and changed.setting == UNACKED_PER_CONSUMER:
                within &= findings.value <= changed.limit * findings.largest
            elif changed.limit > 0:
                within &= findings.value <= changed.limit + messages_of_a_read
            explained |= within
        return chosen(findings, ~explained) if explained.any() else findings

    def forget(self, recent_us: int) -> None:
        """Drops what concerns no finding that a later window reports."""
        self._changed = [changed for changed in self._changed if changed.ts_us > recent_us]
