"""Whether the broker has the claimed limits of unacknowledged messages (contract 4.2, 4.8, 4.14).

If consumers pass a limit often, or far, the broker does not have it: the claim of the trace is contradicted, and no
later dispatch is judged by it.
"""

from typing import Final

from dispatch_audit.pipeline.replay.rules.finding_records import Dispatch
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import CONTRADICTED, Output
from dispatch_audit.pipeline.replay.state.records import set_point
from dispatch_audit.pipeline.replay.state.seen import SeenByLimits
from dispatch_audit.pipeline.replay.state.values import CLAIM_CONTRADICTED

PASSES_MIN: Final = 3
"""The passes that contradict a limit; a single one may be a mistake of the broker."""
FAR: Final = 2
"""The multiple of what the limit and batches allow at which a single pass contradicts the limit."""


@compiled
def count_pass(state: SeenByLimits, limited: int, sent: Dispatch) -> None:
    """Counts a dispatch that exceeds what a limit and batches allow."""
    claims = state.limits.claims
    claims[limited].passes += 1
    if claims[limited].passes == 1:
        claims[limited].passed_seq = sent.seq


@compiled
def weigh(state: SeenByLimits, out: Output, limited: int, sent: Dispatch, far: bool) -> None:
    """Contradicts a claimed limit, and stops the kernel, if a dispatch completes the evidence against the limit.

    A single dispatch `far` beyond the limit is enough.
    """
    claims = state.limits.claims
    if claims[limited].passes >= PASSES_MIN or far:
        claims[limited].claim = CLAIM_CONTRADICTED
        set_point(claims[limited].contradicted, sent)
        if out.stop[0] == 0:
            out.stop[0] = CONTRADICTED
