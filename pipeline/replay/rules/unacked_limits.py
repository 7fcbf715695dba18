"""The rule about the limits of unacknowledged messages, of a consumer and of the subscription (contract 4.8, 4.14)."""

from dispatch_audit.pipeline.contract.rules import UNACKED_LIMIT
from dispatch_audit.pipeline.replay.rules.finding_records import Dispatch, report
from dispatch_audit.pipeline.replay.rules.limits_seen import (
    certainly_unacked,
    largest_batch,
    passes_limit_of_consumer,
    passes_limit_of_subscription,
)
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import OF_SUBSCRIPTION, Output
from dispatch_audit.pipeline.replay.state.seen import Seen


@compiled
def check_unacked(state: Seen, out: Output, slot: int, sent: Dispatch) -> None:
    """Checks both limits, as far as the broker respects them (`limits_seen`)."""
    common, messages = state.common, state.entries[slot].messages
    if passes_limit_of_consumer(state, slot, sent):
        row = report(state, out, UNACKED_LIMIT, slot, sent)
        out.findings[row].value = certainly_unacked(state, sent.consumer) + messages
        out.findings[row].expected = common[0].unacked_max
        out.findings[row].largest = largest_batch(state, slot, sent.consumer)
    if passes_limit_of_subscription(state, slot, sent):
        row = report(state, out, UNACKED_LIMIT, slot, sent)
        out.findings[row].value = common[0].unacked + messages
        out.findings[row].expected = common[0].subscription_max
        out.findings[row].limited = OF_SUBSCRIPTION
        out.findings[row].read_when_full = state.limits.common[0].read_when_full + 1
        out.findings[row].vague = common[0].total_vague
