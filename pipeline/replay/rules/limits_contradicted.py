"""Whether the broker has the claimed limits of unacknowledged messages (contract 4.2, 4.8, 4.14).

A dispatch beyond a limit is a finding only while the broker respects the limit elsewhere. If consumers pass it often,
or far, and the broker holds them back less often than it lets them pass, the broker does not have the limit: the claim
of the trace is contradicted, and no later dispatch is judged by it.
"""

from typing import Final

from dispatch_audit.pipeline.replay.rules.finding_records import Dispatch
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import CONTRADICTED, Output
from dispatch_audit.pipeline.replay.state.seen import SeenByLimits
from dispatch_audit.pipeline.replay.state.state import CLAIM_CONTRADICTED

PASSES_MIN: Final = 3
"""The passes that contradict a limit; a single one may be a mistake of the broker."""
FAR: Final = 2
"""The multiple of what the limit and batches allow at which a single pass contradicts the limit."""
HELD_BACK_US: Final = 5_000
"""A limit held back an entry that could be sent and waited for so long until the consumer came below the limit.

If flow rows show permits, the consumer must have had some by then: one that asks for permits only when it acknowledges
waited for these. In two recordings with a limit of 50 on real brokers entries waited so 251 and 275 times, and no
consumer passed the limit; if the limit is claimed too low, entries waited 0 to 5 times, and consumers passed it 40 to
534 times.
"""


@compiled
def count_pass(state: SeenByLimits, limited: int, sent: Dispatch, explained_from: int) -> None:
    """Counts a dispatch that exceeds what a limit and batches allow.

    A limit of `explained_from` explains it, and also the times in which the broker held back at as many messages.
    """
    claims = state.limits.claims
    claims[limited].passes += 1
    if claims[limited].passes == 1:
        claims[limited].passed_seq = sent.seq
        claims[limited].passes_from = explained_from
    claims[limited].passes_from = min(claims[limited].passes_from, explained_from)
    if claims[limited].held_at >= claims[limited].passes_from:
        _forget_held_back(state, limited)


@compiled
def _forget_held_back(state: SeenByLimits, limited: int) -> None:
    """Forgets the times in which the broker seemed to hold back at a limit: it had another reason."""
    claims = state.limits.claims
    claims[limited].held_back = 0
    claims[limited].held_at = 0


@compiled
def count_held_back(state: SeenByLimits, limited: int, most: int) -> None:
    """Counts a time at the limit, at most `most` messages, in which the broker held back.

    With a limit of the dispatch rate such a time proves nothing, because entries may have waited for that.
    """
    claims = state.limits.claims
    if state.common[0].rate_limited == 1 or 0 < claims[limited].passes_from <= most:
        return
    claims[limited].held_back += 1
    claims[limited].held_at = max(claims[limited].held_at, most)


@compiled
def weigh(state: SeenByLimits, out: Output, limited: int, sent: Dispatch, far: bool) -> None:
    """Contradicts a claimed limit, and stops the kernel, if a dispatch completes the evidence against the limit.

    A single dispatch `far` beyond the limit is enough.
    """
    claims = state.limits.claims
    passes = claims[limited].passes
    if (passes >= PASSES_MIN or far) and passes > claims[limited].held_back:
        claims[limited].claim = CLAIM_CONTRADICTED
        claims[limited].contradicted_seq = sent.seq
        claims[limited].contradicted_ts = sent.ts_us
        if out.stop[0] == 0:
            out.stop[0] = CONTRADICTED
