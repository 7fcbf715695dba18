"""What an entry filter may explain (E4): it rejects an entry, or puts it off, and no row shows either.

A rejected entry is acknowledged by the broker itself and sent to nobody; one that is put off comes later with a higher
redelivery count. Where a trace says that filters are in force, nothing is proven of order and of stalls. Where it does
not say so, an entry that later ones of its hash passed and that is never sent, or is first sent with a count that no
row raised, shows that one may be; not so if mark-delete stays in front of it.
"""

from functools import partial
from typing import Any, Final

import numpy as np

from dispatch_audit.pipeline.contract.rules import OVERTAKING, REDELIVERY_COUNT
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked
from dispatch_audit.pipeline.replay.durations import READ_US
from dispatch_audit.pipeline.replay.rules.findings import NOT_PERMITTED, Alibi, Mask, everything
from dispatch_audit.pipeline.replay.settings.settings_in_force import ENTRY_FILTERS
from dispatch_audit.pipeline.replay.state.output import By
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Ints, Records, chosen
from dispatch_audit.pipeline.replay.state.state import common_of
from dispatch_audit.pipeline.replay.state.values import Mark
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext

_IN_FORCE: Final = "entry filters are in force ({}), which reject an entry or put it off without a row (E4)"
_PERHAPS, _NONE_SENT, _PUT_OFF = (
    f"{what} (E4): no row says which filters the topic has"
    for what in (
        "later entries of its hash passed it and it was never sent, as if an entry filter had rejected it",
        "no entry of its hash was ever sent, as if an entry filter had rejected all of them",
        "it came with a redelivery count that no row raised, as if an entry filter had put it off",
    )
)

Position = tuple[int, int]


def filters_in_force(context: FindingContext) -> str:
    """What the trace says of the entry filters of the topic, as a clause; empty: it names none."""
    names = context.found.loop.in_force.filters or context.config.broker.get(ENTRY_FILTERS)
    return _IN_FORCE.format(str(names).replace(",", ", ")) if names else ""


def alibis_of_filters(context: FindingContext) -> list[Alibi]:
    """The alibis that entry filters give to findings about order."""
    if in_force := filters_in_force(context):
        return [Alibi("filters", everything, "not_provable", in_force)]
    late = _perhaps_filtered(context)
    return [
        Alibi("filters", partial(_came_late, {at for at in late if late[at] == because}), "not_provable", because)
        for because in dict.fromkeys(late.values())
    ]


def _came_late(late: set[Position], found: Records) -> Mask:
    """Whether the entry that was sent too late in each finding is one of some."""
    passed = np.isin(found.rule, OVERTAKING)
    ledgers = np.where(passed, found.other_ledger, found.ledger)
    entries = np.where(passed, found.other_entry, found.entry)
    return np.array([position in late for position in positions(ledgers, entries)], dtype=np.bool_)


def doubt_of_filters(context: FindingContext, oldest: Position | None) -> str:
    """Why an entry filter may have taken the entries that waited, as a clause; empty: nothing says so."""
    in_force = filters_in_force(context)
    return in_force or ("" if oldest is None else _perhaps_filtered(context).get(oldest, ""))


def doubt_of_hash(context: FindingContext, wait: Blocked) -> str:
    """The same for the entries of one hash."""
    doubt, is_open = doubt_of_filters(context, wait.roots[0]), wait.span.ended_by == By.OPEN
    if doubt or not is_open:
        return doubt
    traffic, said = context.found.dispatcher.traffic, context.found.loop.in_force.of(ENTRY_FILTERS).value is not None
    # Where its owner is not sent several hashes, and nothing else or one of them before, no filter is the reason.
    others = {other.hash for other in context.found.reported_passed_over if other.consumer == wait.consumer}
    sent = others & set(traffic.hashes.counts().group.tolist())
    shown = sent or (len(others) > 1 and wait.detail["passed_by"] != wait.consumer)
    shown = shown or _stays_in_front(context, wait.roots[0], wait.span.from_ts)
    return "" if said or traffic.keys.error_max or shown else _NONE_SENT


def _perhaps_filtered(context: FindingContext) -> dict[Position, str]:
    """The entries that a filter may have rejected, or put off, each with the reason as a clause.

    Rejected may be what later entries of its hash passed, and what was not sent by the end of the trace; what was
    passed within the last `READ_US` may still be on its way. Put off may be what came with a redelivery count that no
    row raised.
    """
    findings = context.found.findings
    unpermitted = findings.permitted == NOT_PERMITTED
    long_ago = findings.ts_us <= context.found.membership.released.ts_us - READ_US
    passed = chosen(findings, np.isin(findings.rule, OVERTAKING) & unpermitted & long_ago)
    others = dict(zip(positions(passed.other_ledger, passed.other_entry), passed.ts_us.tolist(), strict=True))
    raised = chosen(findings, (findings.rule == REDELIVERY_COUNT) & (findings.value > findings.expected))
    put_off = dict.fromkeys(positions(raised.ledger, raised.entry), _PUT_OFF)
    if not others:
        return put_off
    entries: Any = context.found.dispatcher.seen.entries.view(np.ndarray)
    unsent = entries[(entries["ledger"] != UNKNOWN) & (entries["times_sent"] == 0)]
    unsent = unsent[unsent["marks"] & Mark.WAITING != 0]
    rejected = others.keys() & set(positions(unsent["ledger"], unsent["entry"]))
    # A snapshot shows mark-delete in front of it, and the broker acknowledges what a filter rejects.
    shown = {position for position in rejected if _stays_in_front(context, position, others[position])}
    return put_off | dict.fromkeys(rejected - shown, _PERHAPS)


def _stays_in_front(context: FindingContext, oldest: Position, since_us: int) -> bool:
    """Whether a snapshot after a time shows that mark-delete stays in front of the oldest entry that is open."""
    shown_us = int(common_of(context.found.dispatcher.seen)["shown_ts"])
    return oldest == context.oldest_open and context.config.sample.is_all and shown_us > since_us + READ_US


def positions(ledgers: Ints, entries: Ints) -> list[Position]:
    """The positions of entries, by their ledgers and numbers."""
    return list(zip(ledgers.tolist(), entries.tolist(), strict=True))
