"""What rows and snapshots show of settings: claims that they contradict, and values that change by time.

A contradiction is noted once for each setting of a subscription. Rule `settings_mismatch` reports it; the code that
notes it says in `judged` what is judged differently from then on, and does so. Rules count how often a claimed limit of
unacknowledged messages is passed (`rules.limits`).

A recorder that looks at the settings from time to time writes between which rows one changed, and either value may have
been in force there, so that nothing is found by it: beyond which limit a dispatch is, or whether the broker delays what
asks for it, and sends what comes later (E2).
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.contract.profile import CLASSIC_SETTING, Profile
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.replay.dispatcher.claimed_limits import LIMITED, ContradictedLimit
from dispatch_audit.pipeline.replay.dispatcher.dispatcher import Dispatcher
from dispatch_audit.pipeline.replay.packing.membership_rows import NEVER, TracePoint
from dispatch_audit.pipeline.replay.packing.snapshot import Snapshot
from dispatch_audit.pipeline.replay.rules.findings import Alibi, Mask
from dispatch_audit.pipeline.replay.settings.settings_in_force import (
    DELAYED_DELIVERY,
    UNACKED_PER_CONSUMER,
    UNACKED_PER_SUBSCRIPTION,
    Setting,
    SettingsInForce,
)
from dispatch_audit.pipeline.replay.settings.settings_row import SettingsRow
from dispatch_audit.pipeline.replay.state.records import Records


@checkpointed("contradiction")
class Contradiction(NamedTuple):
    """A claim that the broker contradicts."""

    claim: Setting  # the setting as the trace or a row has it, or the default of the release
    shown: str  # what the broker shows, as a clause with a subject and a verb
    value: str  # the broker's value, as a sentence names it; empty: another one, which is not known
    at: TracePoint  # the row that completes the evidence
    evidence: tuple[tuple[int, str], ...]  # seq and text of the rows that show it, oldest first; never none
    judged: str  # what is judged differently from then on, as a clause


@checkpointed("compared_settings")
@dataclass(eq=False, slots=True)
class ComparedSettings:
    """The settings of one subscription that were compared with what the broker shows."""

    checked: int = 0  # how many were compared for the first time since the last report
    # The contradictions, by the name of the setting, in the order of the trace.
    found: dict[str, Contradiction] = field(default_factory=dict)
    _compared: set[str] = field(default_factory=set)

    def compared(self, setting: str) -> None:
        """Notes that a setting was compared."""
        if setting not in self._compared:
            self._compared.add(setting)
            self.checked += 1

    def contradict(self, contradiction: Contradiction) -> None:
        """Notes that the broker contradicts a claim; only the first contradiction of a setting counts."""
        self.compared(contradiction.claim.name)
        self.found.setdefault(contradiction.claim.name, contradiction)

    def forget(self) -> None:
        """Restarts the count; what was compared and found stays known, so that no later window reports it again."""
        self.checked = 0


_DISPUTED: Final = "the broker does not keep the claimed {} (settings_mismatch)"
_JUDGED: Final = (
    "no wait is put down to this limit any more, and dispatches beyond it are not provable instead of violations"
)


@checkpointed("rows_of_setting")
class _Rows(NamedTuple):
    """The rows in which something holds of a setting: those after `after_seq`, up to `until_seq`."""

    setting: str
    after_seq: int
    until_seq: int
    ts_us: int = 0  # the time of the last one

    def include(self, found: Records) -> Mask:
        """Which findings about the setting are among them."""
        among: Mask = (found.seq > self.after_seq) & (found.seq <= self.until_seq)
        if self.setting == DELAYED_DELIVERY:
            among &= found.other_due_ts > found.ts_us
        else:
            among &= found.limited == LIMITED[self.setting]
        return among


@checkpointed("settings_evidence")
@dataclass(eq=False, slots=True)
class SettingsEvidence:
    """What rows and snapshots say of the settings of one subscription."""

    _changed: list[_Rows] = field(default_factory=list)  # the brackets of changes, before the rows that say them
    _disputed: list[_Rows] = field(default_factory=list)  # where a limit is contradicted
    _since: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LIMITED, -1))
    # The most unacknowledged messages that a snapshot reports of one consumer, and its row.
    _reported: tuple[int, int] | None = None

    def put(self, row: SettingsRow, in_force: SettingsInForce, dispatcher: Dispatcher) -> None:
        """Puts the values of a row in force; a limit that it changes is judged anew."""
        before, delays = [in_force.of(name) for name in LIMITED], in_force.of(DELAYED_DELIVERY)
        in_force.put(row)
        changed = []
        if delays.value is False and in_force.of(DELAYED_DELIVERY).value is not False:
            changed.append(DELAYED_DELIVERY)
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
            changed.append(name)
        self._changed += [_Rows(name, row.seq_begin, row.seq - 1, row.ts_us) for name in changed]

    def look(self, snapshot: Snapshot) -> None:
        """Remembers the most unacknowledged messages that the broker reports of a consumer."""
        most = max((consumer.unacked or 0 for consumer in snapshot.consumers), default=0)
        if self._reported is None or most > self._reported[0]:
            self._reported = most, snapshot.seq

    def contradicted(self, found: ContradictedLimit, in_force: SettingsInForce) -> Contradiction:
        """The report of a contradicted limit; from its beginning on, findings under it are not provable."""
        setting = in_force.of(found.setting)
        self._disputed.append(_Rows(found.setting, self._since[found.setting], NEVER))
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

    def alibis(self) -> list[Alibi]:
        """The value from before a change, and the one after it, may both have been in force by then."""
        return [Alibi("in order" if of.setting == DELAYED_DELIVERY else "limit", of.include) for of in self._changed]

    def forget(self, recent_us: int) -> None:
        """Drops what concerns no finding that a later window reports."""
        self._changed = [changed for changed in self._changed if changed.ts_us > recent_us]


def may_be_other(in_force: SettingsInForce, profile: Profile) -> bool:
    """Whether rows say another kind at the creation of a dispatcher than the profile has.

    The first consumer after none may find the former dispatcher, which keeps its kind; only after an unload is
    there certainly a new one. So the kind stays open from here on, even if rows have the former value again.
    """
    said = [setting for setting in in_force.possible(CLASSIC_SETTING) if setting.said_by_row]
    there_are_two = profile.classic or profile.has_classic
    return there_are_two and any((setting.value is True) != profile.classic for setting in said)
