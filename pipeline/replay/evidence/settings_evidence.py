"""What rows of settings say after rows that it concerns: limits and delayed delivery by time, the kind of dispatcher.

A recorder that looks at the settings from time to time writes between which rows one changed, and either value may have
been in force there: a finding stands only if both make it one. From the first row on that may switch delayed delivery
on, the broker may delay what asks for it, and send what comes later (E2).

Rules count how often a claimed limit of unacknowledged messages is passed (`rules.limits_contradicted`). What the
broker contradicts is not provable.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.contract.profile import CLASSIC_SETTING, Profile
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.replay.dispatcher.claimed_limits import LIMITED, ContradictedLimit
from dispatch_audit.pipeline.replay.dispatcher.dispatcher import Dispatcher
from dispatch_audit.pipeline.replay.evidence.compared_settings import Contradiction
from dispatch_audit.pipeline.replay.packing.membership_rows import NEVER
from dispatch_audit.pipeline.replay.packing.snapshot import Snapshot
from dispatch_audit.pipeline.replay.rules.alibis import Alibi, Mask
from dispatch_audit.pipeline.replay.settings.settings_in_force import (
    DELAYED_DELIVERY,
    UNACKED_PER_CONSUMER,
    UNACKED_PER_SUBSCRIPTION,
    SettingsInForce,
)
from dispatch_audit.pipeline.replay.settings.settings_row import SettingsRow
from dispatch_audit.pipeline.replay.state.records import Records

_DISPUTED: Final = "the broker does not keep the claimed {} (settings_mismatch)"
_JUDGED: Final = (
    "no wait is put down to this limit any more, and dispatches beyond it are not provable instead of violations"
)


@checkpointed("changed_setting")
class _Changed(NamedTuple):
    """A limit, or delayed delivery, that may have been in force between two rows, before the row that says so."""

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

    def include(self, found: Records) -> Mask:
        """Which findings about a limit are among them."""
        among: Mask = (found.limited == LIMITED[self.setting]) & (found.seq > self.after_seq)
        among &= found.seq <= self.until_seq
        return among


@checkpointed("settings_evidence")
@dataclass(eq=False, slots=True)
class SettingsEvidence:
    """What rows and snapshots say of the settings of one subscription."""

    _changed: list[_Changed] = field(default_factory=list)
    _disputed: list[_LimitRows] = field(default_factory=list)  # where the limit is contradicted
    _since: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LIMITED, -1))
    # The most unacknowledged messages that a snapshot reports of one consumer, and its row.
    _reported: tuple[int, int] | None = None

    def put(self, row: SettingsRow, in_force: SettingsInForce, dispatcher: Dispatcher) -> None:
        """Puts the values of a row in force; a limit that it changes is judged anew."""
        before, delays = [in_force.of(name) for name in LIMITED], in_force.of(DELAYED_DELIVERY)
        in_force.put(row)
        if delays.value is False and in_force.of(DELAYED_DELIVERY).value is not False and row.seq_begin < row.seq:
            self._changed.append(_Changed(DELAYED_DELIVERY, row.seq_begin, row.seq, 0, row.ts_us))
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
                self._changed.append(_Changed(name, row.seq_begin, row.seq, now.limit, row.ts_us))

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
        shown = f"{who} gets up to {held} and goes past the limit {count(found.passes, 'time')}"
        return Contradiction(setting, shown, f"at least {found.most}", found.at, tuple(sorted(rows)), _JUDGED)

    def doubts(self) -> list[Alibi]:
        """The limit that a finding is about is not the broker's: it is contradicted."""
        return [Alibi("limit", rows.include, "not_provable", _DISPUTED.format(rows.setting)) for rows in self._disputed]

    def alibis(self, messages_of_a_read: int) -> Iterator[Alibi]:
        """What a value that may have been in force by then allows; one read brings so many messages at most."""
        for changed in self._changed:
            if changed.setting == DELAYED_DELIVERY:
                yield Alibi("in order", partial(_may_delay, changed))
            else:
                yield Alibi("limit", partial(_allows, changed, messages_of_a_read))

    def forget(self, recent_us: int) -> None:
        """Drops what concerns no finding that a later window reports."""
        self._changed = [changed for changed in self._changed if changed.ts_us > recent_us]


def _may_delay(changed: _Changed, found: Records) -> Mask:
    within: Mask = (found.seq > changed.after_seq) & (found.seq < changed.before_seq)
    within &= found.other_due_ts > found.ts_us
    return within


def _allows(changed: _Changed, messages_of_a_read: int, found: Records) -> Mask:
    within: Mask = found.limited == LIMITED[changed.setting]
    within &= (found.seq > changed.after_seq) & (found.seq < changed.before_seq)
    if changed.limit > 0 and changed.setting == UNACKED_PER_CONSUMER:
        within &= found.value <= changed.limit * found.largest
    elif changed.limit > 0:
        within &= found.value <= changed.limit + messages_of_a_read
    return within


def may_be_other(in_force: SettingsInForce, profile: Profile) -> bool:
    """Whether rows say another kind at the creation of a dispatcher than the profile has.

    The first consumer after none may find the former dispatcher, which keeps its kind; only after an unload is
    there certainly a new one. So the kind stays open from here on, even if rows have the former value again.
    """
    said = [setting for setting in in_force.possible(CLASSIC_SETTING) if setting.said_by_row]
    there_are_two = profile.classic or profile.has_classic
    return there_are_two and any((setting.value is True) != profile.classic for setting in said)
