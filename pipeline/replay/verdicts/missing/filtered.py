"""What an entry filter may explain (E4): it rejects an entry, or puts it off, and no row shows either.

A rejected entry is acknowledged by the broker itself and sent to nobody; one that is put off comes later with a higher
redelivery count. Where a trace says that filters are in force, nothing is proven of order and of stalls. Where it does
not say so, an entry that later ones of its hash passed and that is never sent, or is first sent with a count that no
row raised, shows that one may be; not so if mark-delete stays in front of it.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from dispatch_audit.pipeline.contract.rules import FIRST_DELIVERY_ORDER, OVERTAKING, REDELIVERY_COUNT
from dispatch_audit.pipeline.replay.durations import READ_US
from dispatch_audit.pipeline.replay.rules.permitted import NOT_PERMITTED
from dispatch_audit.pipeline.replay.settings.settings_in_force import ENTRY_FILTERS
from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.output import KernelFinding, findings_at
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Ints, chosen
from dispatch_audit.pipeline.replay.state.state import common_of
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.verdict import FindingVerdict, not_provable

_IN_FORCE: Final = "entry filters are in force ({}), which reject an entry or put it off without a row (E4)"
_PERHAPS: Final = (
    "later entries of its hash passed it and it was never sent, as if an entry filter had rejected it (E4): no row "
    "says which filters the topic has"
)
_PUT_OFF: Final = (
    "it came with a redelivery count that no row raised, as if an entry filter had put it off (E4): no row says which "
    "filters the topic has"
)
_ORDER: Final = (FIRST_DELIVERY_ORDER, *OVERTAKING)

Position = tuple[int, int]


def _in_force(context: FindingContext) -> str:
    """What the trace says of the entry filters of the topic, as a clause; empty: it names none."""
    names = context.found.loop.in_force.filters or context.config.broker.get(ENTRY_FILTERS)
    return _IN_FORCE.format(str(names).replace(",", ", ")) if names else ""


def filtered(verdicts: Sequence[FindingVerdict], context: FindingContext) -> list[FindingVerdict]:
    """The verdicts, in their order; findings that an entry filter may explain become not provable."""
    findings, found = context.found.findings, list(verdicts)
    about_order = np.flatnonzero(np.isin(findings.rule, _ORDER))
    if not about_order.size:
        return found
    put_off, rejected, in_force = _put_off(context), perhaps_rejected(context), _in_force(context)
    for at, finding in findings_at(findings, about_order):
        because = in_force or _because(finding, put_off, rejected)
        if found[at].severity in ("violation", "known_bug") and because:
            found[at] = not_provable(because)
    return found


def _because(finding: KernelFinding, put_off: set[Position], rejected: set[Position]) -> str:
    late = (finding.ledger, finding.entry)
    if finding.rule in OVERTAKING:
        late = (finding.other_ledger, finding.other_entry)
        if late in rejected:
            return _PERHAPS
    return _PUT_OFF if late in put_off else ""


def doubt_of_filters(context: FindingContext, oldest: Position | None) -> str:
    """Why an entry filter may have taken the entries that waited, as a clause; empty: nothing says so."""
    if in_force := _in_force(context):
        return in_force
    if oldest in perhaps_rejected(context):
        return _PERHAPS
    return _PUT_OFF if oldest in _put_off(context) else ""


def perhaps_rejected(context: FindingContext) -> set[Position]:
    """The entries that later ones of their hash passed, and that were not sent by the end of the trace.

    One that was passed within the last `READ_US` may still be on its way.
    """
    findings = context.found.findings
    unpermitted = findings.permitted == NOT_PERMITTED
    long_ago = findings.ts_us <= context.found.membership.released.ts_us - READ_US
    passed = chosen(findings, np.isin(findings.rule, OVERTAKING) & unpermitted & long_ago)
    others = dict(zip(_positions(passed.other_ledger, passed.other_entry), passed.ts_us.tolist(), strict=True))
    if not others:
        return set()
    entries: Any = context.found.dispatcher.seen.entries.view(np.ndarray)
    used = entries[entries["ledger"] != UNKNOWN]
    unsent = used[(used["times_sent"] == 0) & (used["marks"] & Mark.WAITING != 0)]
    rejected = others.keys() & set(_positions(unsent["ledger"], unsent["entry"]))
    kept = used[used["marks"] & Mark.ACKED == 0]
    lowest = min(_positions(kept["ledger"], kept["entry"]), default=None)
    if (
        lowest in rejected
        and context.config.sample.is_all
        and common_of(context.found.dispatcher.seen)["shown_ts"] > others[lowest] + READ_US
    ):
        # A snapshot shows mark-delete in front of it, and the broker acknowledges what a filter rejects.
        rejected.discard(lowest)
    return rejected


def _put_off(context: FindingContext) -> set[Position]:
    """The entries that came with a redelivery count that no row raised."""
    findings = context.found.findings
    raised = chosen(findings, (findings.rule == REDELIVERY_COUNT) & (findings.value > findings.expected))
    return set(_positions(raised.ledger, raised.entry))


def _positions(ledgers: Ints, entries: Ints) -> list[Position]:
    return list(zip(ledgers.tolist(), entries.tolist(), strict=True))
