"""What rows and snapshots show of settings: claims that they contradict, and values that change by time.

A contradiction is noted once for each setting of a subscription. Rule `settings_mismatch` reports it; the code that
notes it says in `judged` what is judged differently from then on, and does so. Rules count how often a claimed limit of
unacknowledged messages is passed (`rules.limits`).

A recorder that looks at the settings from time to time writes between which rows one changed, and either value may have
been in force there, so that nothing is found by it: beyond which limit a dispatch is, or whether the broker delays what
asks for it, and sends what comes later (E2).

A selector that is not the broker's gives other ranges to nearly every consumer in every snapshot. A broker with a bug
reports other ranges for a consumer, or for some time, and those of the selector otherwise. With one consumer all
selectors of one hash range agree, so such a snapshot may contradict a selector, but never confirms it. The two
dispatchers report different values (contract 7): only that of recently joined consumers has
`readPositionWhenJoining`, and only the draining one lists draining hashes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dispatch_audit.pipeline.assignment.ranges.reported_ranges import RangesByConsumer
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.contract.profile import CLASSIC_SETTING, Profile
from dispatch_audit.pipeline.packing.membership_rows import NEVER, TracePoint
from dispatch_audit.pipeline.packing.rows_aside import SettingsRow
from dispatch_audit.pipeline.packing.snapshot import Snapshot
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.replay.blocking.stalls.doubts import LOWERED, RATE
from dispatch_audit.pipeline.replay.dispatcher.claimed_limits import LIMITED, ContradictedLimit
from dispatch_audit.pipeline.replay.dispatcher.dispatcher import Dispatcher
from dispatch_audit.pipeline.replay.rules.findings import Alibi, Mask
from dispatch_audit.pipeline.replay.settings.settings_in_force import (
    DELAYED_DELIVERY,
    UNACKED_PER_CONSUMER,
    UNACKED_PER_SUBSCRIPTION,
    Setting,
    SettingsInForce,
)
from dispatch_audit.pipeline.replay.state.records import Records
from dispatch_audit.pipeline.replay.state.state import common_of

# So many are enough to decide, and a trace without an answer must not fill the memory.
_KEPT_MAX: Final = 1_000


@checkpointed("reported_assignment")
class ReportedAssignment(NamedTuple):
    """The assignment in one snapshot beside the one of the replay."""

    snapshot: Snapshot  # the snapshot
    consumers: int  # how many consumers it lists, each with its ranges
    differing: int  # how many of them have other ranges in the replay
    of_other_dispatcher: bool  # whether it has values that only the other dispatcher reports
    # Whether the rows determine the ranges of the replay. At the beginning of a trace that does not begin with the
    # first join, consumers that joined and left before may have changed them.
    determined: bool

    @property
    def agrees(self) -> bool:
        """Whether the broker reports nothing else than the replay has."""
        return not self.differing and not self.of_other_dispatcher


@checkpointed("reported_assignments")
@dataclass(eq=False, slots=True)
class ReportedAssignments:
    """The first assignments that snapshots report, until one confirms the selector."""

    _drains: bool
    # In the order of the trace; none once the selector is confirmed.
    seen: list[ReportedAssignment] = field(default_factory=list)
    confirmed: bool = False  # whether a snapshot has shown the selector and the dispatcher of the replay

    def note(self, snapshot: Snapshot, in_force: Sequence[RangesByConsumer], determined: bool) -> None:
        """Takes the next snapshot, the ranges of the replay on both sides of it, and whether rows determine these."""
        if self.confirmed or len(self.seen) >= _KEPT_MAX:
            return
        reported = {consumer.consumer: consumer.ranges for consumer in snapshot.consumers if consumer.ranges}
        if not reported or len(reported) < len(snapshot.consumers):
            return
        # If neither side lists the consumers of the snapshot, the trace does not show the assignment of that moment.
        comparable = [ranges for ranges in in_force if ranges.keys() == reported.keys()]
        if not comparable:
            return
        differing = min(sum(reported[n] != ranges[n] for n in reported) for ranges in comparable)
        joining = any(consumer.joined_at is not None for consumer in snapshot.consumers)
        draining = any(consumer.draining for consumer in snapshot.consumers)
        other_dispatcher = joining if self._drains else draining
        seen = ReportedAssignment(snapshot, len(reported), differing, other_dispatcher, determined)
        self.seen.append(seen)
        # A recorder may leave out what the dispatcher of recently joined consumers reports, so only its values show it.
        if seen.agrees and len(reported) > 1 and (self._drains or joining):
            self.seen, self.confirmed = [], True


@checkpointed("contradiction")
class Contradiction(NamedTuple):
    """A claim that the broker contradicts."""

    claim: Setting  # the setting as the trace or a row has it, or the default of the release
    shown: str  # what the broker shows, as a clause with a subject and a verb
    value: str  # the broker's value, as a sentence names it; empty: another one, which is not known
    at: TracePoint  # the row that completes the evidence
    evidence: tuple[tuple[int, str], ...]  # seq and text of the rows that show it, oldest first; never none
    judged: str  # what is judged differently from then on, as a clause


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

    checked: int = 0  # how many were compared for the first time since the last report
    # The claims that the broker contradicts, by the name of the setting, in the order of the trace.
    found: dict[str, Contradiction] = field(default_factory=dict)
    _compared: set[str] = field(default_factory=set)
    _changed: list[_Rows] = field(default_factory=list)  # the brackets of changes, before the rows that say them
    _disputed: list[_Rows] = field(default_factory=list)  # where a limit is contradicted
    _since: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LIMITED, -1))
    # The most unacknowledged messages that a snapshot reports of one consumer, and its row.
    _reported: tuple[int, int] | None = None

    def announce(self, at: TracePoint, row: SettingsRow, in_force: SettingsInForce, dispatcher: Dispatcher) -> None:
        """Notes that the values of a row may be in force from a point on, although perhaps since earlier rows."""
        rates = in_force.rates()
        in_force.announce(row)
        if in_force.rates() != rates and row.seq_begin < at.seq:
            dispatcher.monitor.stalls.rates_said_late()

    def put(self, row: SettingsRow, in_force: SettingsInForce, dispatcher: Dispatcher) -> None:
        """Puts the values of a row in force; a limit that it changes is judged anew."""
        before, delays = [in_force.of(name) for name in LIMITED], in_force.of(DELAYED_DELIVERY)
        rates, unacked = in_force.claimed_rates(), int(common_of(dispatcher.seen)["unacked"])
        in_force.put(row)
        changed = []
        if in_force.claimed_rates() != rates and in_force.rates():
            dispatcher.monitor.stalls.said_late(row.seq_begin, row.seq, RATE)
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
            if 0 < now.limit <= 2 * unacked and not 0 < was.limit <= now.limit:
                dispatcher.monitor.stalls.said_late(row.seq_begin, row.seq, LOWERED)
            dispatcher.judge_anew(name)
            changed.append(name)
        self._changed += [_Rows(name, row.seq_begin, row.seq - 1, row.ts_us) for name in changed]

    def look(self, snapshot: Snapshot) -> None:
        """Remembers the most unacknowledged messages that the broker reports of a consumer."""
        most = max((consumer.unacked or 0 for consumer in snapshot.consumers), default=0)
        if self._reported is None or most > self._reported[0]:
            self._reported = most, snapshot.seq

    def compared(self, setting: str) -> None:
        """Notes that a setting was compared."""
        self.checked += setting not in self._compared
        self._compared.add(setting)

    def contradict(self, contradiction: Contradiction) -> None:
        """Notes that the broker contradicts a claim; only the first contradiction of a setting counts."""
        self.compared(contradiction.claim.name)
        self.found.setdefault(contradiction.claim.name, contradiction)

    def contradict_limit(self, found: ContradictedLimit, in_force: SettingsInForce) -> None:
        """Notes a contradicted limit; from its beginning on, findings under it are not provable."""
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
        self.contradict(Contradiction(setting, shown, f"at least {found.most}", found.at, tuple(sorted(rows)), _JUDGED))

    def doubts(self) -> list[Alibi]:
        """The limit that a finding is about is not the broker's: it is contradicted."""
        return [Alibi("limit", rows.include, "not_provable", _DISPUTED.format(rows.setting)) for rows in self._disputed]

    def alibis(self) -> list[Alibi]:
        """The value from before a change, and the one after it, may both have been in force by then."""
        return [Alibi("in order" if of.setting == DELAYED_DELIVERY else "limit", of.include) for of in self._changed]

    def forget(self, recent_us: int) -> None:
        """Restarts the count, and drops what concerns no finding that a later window reports."""
        self.checked = 0
        self._changed = [changed for changed in self._changed if changed.ts_us > recent_us]


def may_be_other(in_force: SettingsInForce, profile: Profile) -> bool:
    """Whether rows say another kind at the creation of a dispatcher than the profile has.

    The first consumer after none may find the former dispatcher, which keeps its kind; only after an unload is
    there certainly a new one. So the kind stays open from here on, even if rows have the former value again.
    """
    said = [setting for setting in in_force.possible(CLASSIC_SETTING) if setting.said_by_row]
    there_are_two = profile.classic or profile.has_classic
    return there_are_two and any((setting.value is True) != profile.classic for setting in said)
