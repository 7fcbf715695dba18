"""Findings about a dispatcher that may be of another kind than the trace claims are not provable.

A row `settings` may say another value of `subscriptionKeySharedUseClassicPersistentImplementation` than the start of
the trace. It concerns dispatchers that are created from then on (contract 8). The classic dispatcher and the draining
one have other rules, other exceptions and other bugs, and the replay has those of one of them.
"""

from collections.abc import Sequence
from typing import Final

from dispatch_audit.pipeline.contract.profile import CLASSIC_SETTING
from dispatch_audit.pipeline.contract.rules import UNACKED_LIMIT
from dispatch_audit.pipeline.replay.subscription.result import ReplayResult
from dispatch_audit.pipeline.replay.verdicts.verdict import FindingVerdict

OTHER_DISPATCHER: Final = f"a row `settings` changed {CLASSIC_SETTING}, so the dispatcher may be of the other kind"
_UNKNOWN_RULES: Final = FindingVerdict("not_provable", because=OTHER_DISPATCHER)
_PROVEN: Final = ("violation", "known_bug")


def perhaps_other_dispatcher(found: ReplayResult, seq: int) -> str:
    """Why the dispatcher at a row may be of the other kind, as a clause; empty: it is of the claimed one."""
    since = found.other_dispatcher_seq
    return OTHER_DISPATCHER if since is not None and seq >= since else ""


def without_dispatcher(verdicts: Sequence[FindingVerdict], found: ReplayResult) -> list[FindingVerdict]:
    """The verdicts, in the order of the findings; those that rest on the kind of the dispatcher are not provable."""
    if found.other_dispatcher_seq is None:
        return list(verdicts)
    # Both kinds keep the limit of unacknowledged messages (4.7).
    resting = (found.findings.rule != UNACKED_LIMIT) & (found.findings.seq >= found.other_dispatcher_seq)
    return [
        _UNKNOWN_RULES if rests and verdict.severity in _PROVEN else verdict
        for verdict, rests in zip(verdicts, resting.tolist(), strict=True)
    ]
