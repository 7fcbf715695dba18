"""Whether the broker has the claimed limits of unacknowledged messages (contract 4.2, 4.8, 4.14).

A dispatch beyond a limit is a finding only while the broker respects the limit elsewhere. Where consumers pass it again
and again, or far, and the broker holds them back less often than it lets them pass, the limit is not the broker's: what
the trace claims is contradicted, and nothing is judged by it any more.
"""

from typing import Final

from dispatch_audit.pipeline.replay.rules.finding_records import Dispatch
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import CONTRADICTED, Output
from dispatch_audit.pipeline.replay.state.seen import SeenByLimits
from dispatch_audit.pipeline.replay.state.state import CLAIM_CONTRADICTED

PASSES_MIN: Final = 3
"""So many times a broker goes past a limit that it does not have; a single time may be its mistake."""
FAR: Final = 2
"""Or once so many times as far as the limit and batches allow."""
HELD_BACK_US: Final = 5_000
"""An entry that could be sent and waited for so long, until the consumer came down from the limit, was held back by it.

Where flow rows show permits, the consumer must have had some by then: one that asks for more only when it acknowledges
waited for its permits. In two recordings with a limit of 50 on real brokers this happened 251 and 275 times and no
consumer passed it; where the limit is claimed too low, consumers passed it 40 to 534 times, and an entry waited like
this 0 to 5 times.
"""


@compiled
def count_pass(state: SeenByLimits, limited: int, sent: Dispatch, explained_from: int) -> None:
    """Counts a dispatch with which more is sent than a limit and batches allow.

    A limit of `explained_from` explains it. Where the broker held back at as many messages, that limit explains it too.
    """
    claims = state.limits.claims
    claims[limited].passes += 1
    claims[limited].just_passed = 1
    if claims[limited].passes == 1:
        claims[limited].passed_seq = sent.seq
        claims[limited].passes_from = explained_from
    claims[limited].passes_from = min(claims[limited].passes_from, explained_from)
    if claims[limited].held_at >= claims[limited].passes_from:
        _forget_held_back(state, limited)


@compiled
def _forget_held_back(state: SeenByLimits, limited: int) -> None:
    """Forgets what was taken for holding back at a limit: it was something else."""
    claims = state.limits.claims
    claims[limited].held_back = 0
    claims[limited].held_at = 0
    claims[limited].kept_from_seq = 0


@compiled
def count_held_back(state: SeenByLimits, limited: int, most: int, seq: int) -> None:
    """Counts a time at the limit, with so many messages, in which the broker held back since the dispatch `seq`.

    Until then it certainly had the limit. It may have had another one when the time was over: who is blocked stays so
    until the next acknowledgement (4.14).

    Under a limit of the dispatch rate it shows nothing: what waited may have waited for that. A single time after a
    pass does not show that the broker has the limit still: something else holds entries back now and then.
    """
    claims = state.limits.claims
    if state.common[0].rate_limited == 1 or 0 < claims[limited].passes_from <= most:
        return
    claims[limited].held_back += 1
    claims[limited].held_at = max(claims[limited].held_at, most)
    if claims[limited].just_passed == 0:
        note_kept(state, limited, seq, seq)
    claims[limited].just_passed = 0


@compiled
def note_kept(state: SeenByLimits, limited: int, since_seq: int, seq: int) -> None:
    """Notes that the broker certainly had a limit between two rows."""
    claims = state.limits.claims
    if claims[limited].kept_from_seq == 0:
        claims[limited].kept_from_seq = since_seq
    claims[limited].kept_from_seq = min(claims[limited].kept_from_seq, since_seq)
    claims[limited].kept_to_seq = max(claims[limited].kept_to_seq, seq)


@compiled
def weigh(state: SeenByLimits, out: Output, limited: int, sent: Dispatch, far: bool, stood: int) -> None:
    """Notes whether a dispatch completes the evidence against a claimed limit, and stops the kernel if it does.

    One that goes `far` beyond the limit is enough. An entry was certainly held back at the limit `stood` times.
    """
    claims = state.limits.claims
    passes = claims[limited].passes
    if (passes >= PASSES_MIN or far) and passes > claims[limited].held_back + stood:
        claims[limited].claim = CLAIM_CONTRADICTED
        claims[limited].contradicted_seq = sent.seq
        claims[limited].contradicted_ts = sent.ts_us
        if out.stop[0] == 0:
            out.stop[0] = CONTRADICTED
