"""The next step for whoever reads a report: one sentence, with a command where there is one."""

import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from dispatch_audit.pipeline.contract.recorded_by import OUTSIDE
from dispatch_audit.pipeline.contract.severity import NEED_A_LOOK
from dispatch_audit.pipeline.report.answers import (
    facts_about_clients,
    held_back,
    impossible_counters,
    lacking,
    missing_in,
    to_record,
)
from dispatch_audit.pipeline.report.explain_command import explain_command, explain_consumer_command
from dispatch_audit.pipeline.report.summary import Block, Finding, RunSummary
from dispatch_audit.pipeline.report.text.topics import TopicNames
from dispatch_audit.pipeline.report.wording import consumer, printable
from dispatch_audit.pipeline.windows.window import iso_8601

STEPS: Mapping[str, str] = MappingProxyType(
    {
        "draining": "look at why {blamed} took so long to acknowledge {oldest}; the hashes that moved away wait for "
        "that",
        "recently_joined": "look at why {blamed} took so long to acknowledge {oldest}; consumers that joined later "
        "wait for that, as long as the broker does not drain hashes instead (4.0)",
        "no_permits": "look at {blamed}, which had no permits left while entries waited for it: what it does with "
        "{oldest}, and its receiverQueueSize",
        "unacked_limit_consumer": "look at why {blamed} had not acknowledged enough before {oldest}, or raise "
        "maxUnackedMessagesPerConsumer",
        "unacked_limit_subscription": "look at who had not acknowledged {oldest}, or raise "
        "maxUnackedMessagesPerSubscription",
        "look_ahead_limit": "repair or disconnect {blamed}, which did not acknowledge {oldest}; after it the replay "
        "queue reached keySharedLookAheadMsgInReplayThresholdPerConsumer or "
        "keySharedLookAheadMsgInReplayThresholdPerSubscription",
        "no_owner": "keep a consumer connected that owns the hash of {oldest}: in STICKY mode one with a range that "
        "has it",
        "nack_delay": "look at why the application gave {oldest} back",
        "delayed_delivery": "check that the producers mean this delay, for {oldest}",
        "overdue": "look at the broker's delayed delivery: the time of {oldest} had come and it was not sent",
        "replay_queue": "look at what put {oldest} into the replay queue: a join or leave, a redeliver request, or a "
        "consumer that could not be sent more",
        "not_read_yet": "see whether a limit of the dispatch rate was in force, or compare this time with the broker's "
        "reads from its storage: it had not read {oldest}",
        "draining_stuck": "reconnect the consumers of the subscription, and upgrade the broker: {oldest} could be sent "
        "and were not",
        "dispatch_rate_limit": "raise the dispatch rate, in broker.conf or in the policies of the namespace or the "
        "topic, if {oldest} should not wait for it",
        "ack_holes_limit": "look at why {blamed} did not acknowledge {oldest}, or raise "
        "managedLedgerMaxUnackedRangesToPersist",
        "broker_hung": "see what the threads of the broker wait for (jstack), and restart it if they wait for each "
        "other: {oldest} waited meanwhile",
        "unexplained": "record the broker's statistics as snapshots too: the trace does not show what {oldest} "
        "waited for",
    }
)
"""What to look at, by the cause of blocking (docs/BLOCKING.md)."""

_NOBODY_BLAMED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "recently_joined": "look at {oldest}, which no other consumer holds: it waits to be sent, as a delayed message "
        "does, and keeps mark-delete, and consumers that joined later wait for that, as long as the broker does not "
        "drain hashes instead (4.0)",
    }
)
"""The same where no consumer is to blame."""

_STEPS_WITH_NOTHING_HELD: Mapping[str, str] = MappingProxyType(
    {
        "no_permits": "look at {blamed}, which had no permits left although it held nothing when it got some: its "
        "client was slow with what it had been sent, is paused, or does not call receive",
        "unacked_limit_consumer": "reconnect {blamed}, which was blocked although it held nothing: the broker counts "
        "messages as unacknowledged that the consumer does not have",
    }
)
"""The same where the consumer to blame had acknowledged everything."""

CORRECT_THE_CLAIM: Final = (
    "look up on the broker the setting that settings_mismatch names, correct it in trace.json or record rows "
    "`settings`, and audit again"
)

# Uneven shares follow from the keys, and ask for nothing.
_SHARES: Final = "uneven_share"
# A row that was delivered again was not refused.
_REPEATED = "repeated_row"
_MANY = 10
# What is as old at the end of a window is not held back (`replay.subscription.result`).
_SETTLED_AFTER_US = 61_000_000
# The default of blocking.stall_threshold_ms.
_LONG_S = 1.0


def next_step(run: RunSummary, target: str, topics: TopicNames) -> str:
    """Returns the sentence.

    A finding comes first, then rows that the trace lacks for an answer, rows that could not be used, and waiting that
    is worth a look.

    Args:
        run: what was found.
        target: where the tables are.
        topics: how the report names topics.
    """
    if run.recorded_by in OUTSIDE:
        return "for a verdict on the broker, record inside of it (docs/RECORDING.md)"
    missing = missing_in(run)
    held = held_back(run)
    if of_finding := _about_findings(run, target, bool(missing)):
        return of_finding
    if held:
        return _audit_the_next_window(run, target, held)
    if missing:
        return f"record {to_record(missing)}: this trace does not show {lacking(missing)}"
    if unusable_rows(run):
        traces = " ".join(map(shlex.quote, run.inputs))
        return f"see which rows could not be used: dispatch-audit validate {printable(traces)}, and table quarantine"
    return _about_waits(run, target, topics)


def _about_findings(run: RunSummary, target: str, lacks: bool) -> str:
    """What to do about the findings; empty: nothing, or first to record what the trace lacks."""
    contradicted = None if lacks else contradicted_claim(run)
    if contradicted is not None and contradicted.finding_id is not None:
        return f"{CORRECT_THE_CLAIM}: {printable(explain_command(target, contradicted.finding_id))}"
    # A finding is often not provable because of what is missing.
    if is_worth_a_look(run, unproven=not lacks) and run.findings[0].finding_id is not None:
        command = explain_command(target, run.findings[0].finding_id)
        return f"see how the worst finding came about, event by event: {printable(command)}"
    return ""


def contradicted_claim(run: RunSummary) -> Finding | None:
    """Returns the finding that names a setting which the broker contradicts, unless another finding is proven."""
    if any(finding.severity in ("violation", "known_bug") for finding in run.findings):
        return None
    return next((finding for finding in run.findings if finding.rule == "settings_mismatch"), None)


def _audit_the_next_window(run: RunSummary, target: str, held: int) -> str:
    to_us = run.window.to_us if run.window is not None else None
    later_us = max(run.to_ts_us or 0, to_us or 0) + _SETTLED_AFTER_US
    traces = " ".join(map(shlex.quote, run.inputs))
    command = f"dispatch-audit audit {traces} --out {shlex.quote(target)} --to {iso_8601(later_us)}"
    return (
        f"audit the next window, which reports or explains what is held back ({held:,}); if it ends a minute after the "
        f"last row, it needs no new ones: {printable(command)}"
    )


def _about_waits(run: RunSummary, target: str, topics: TopicNames) -> str:
    if block := worth_a_look(run):
        events = events_of(block, run, target)
        return f"{look_at(block)}{topics.suffix(block)}{f': {events}' if events else ''}"
    if run.progress == "held_up":
        return "see table blocking, the rows of scope subscription: what each time without progress waited for"
    if impossible_counters(run):
        return "see table violations, the rows of rule impossible_counter: the broker reports counters that cannot be"
    if facts := [fact for fact in facts_about_clients(run) if fact.rule != _SHARES]:
        return f"see the facts about clients above: {facts[0].what}"
    if mixed := [producer for producer in run.mixed_producers if producer.mixed_batches]:
        name = printable(mixed[0].producer_name or "without a name")
        return (
            f"let producer {name} batch by key (BatcherBuilder.KEY_BASED in Java), or not at all: its batches mix keys"
        )
    return "nothing to do: entries waited briefly or not at all"


def is_worth_a_look(run: RunSummary, *, unproven: bool = True) -> bool:
    """Whether the worst finding needs a look; one that is not provable does only if `unproven`."""
    severity = run.findings[0].severity if run.findings else "info"
    return run.verdict != "clean" and severity in NEED_A_LOOK and (unproven or severity != "not_provable")


def worth_a_look(run: RunSummary) -> Block | None:
    """Returns the block that held up all consumers, else the costliest in which many messages waited, or one for long.

    Joins and leaves make a few messages wait briefly, which needs no look.
    """
    if run.progress == "held_up":
        longest = max(run.subscriptions, key=lambda subscription: subscription.held_up_seconds)
        where = (longest.topic, longest.subscription, longest.held_up_cause)
        if held_up := next((b for b in run.blocks if (b.topic, b.subscription, b.cause) == where), None):
            return held_up
    seconds = 0.0 if run.from_ts_us is None or run.to_ts_us is None else (run.to_ts_us - run.from_ts_us) / 1e6
    for block in run.blocks:
        on_average = block.message_seconds / seconds if seconds else block.message_seconds
        if on_average >= _MANY or (on_average >= 1 and block.longest_s >= _LONG_S):
            return block
    return None


def events_of(block: Block, run: RunSummary, target: str) -> str:
    """Returns the command that shows what the consumer to blame did; empty: none is."""
    if block.consumer is None:
        return ""
    several = len({(counts.topic, counts.subscription) for counts in run.groups}) > 1
    of = (block.topic, block.subscription) if several else (None, None)
    return printable(explain_consumer_command(target, block.consumer_name or str(block.consumer), *of))


def unusable_rows(run: RunSummary) -> int:
    """Returns the number of refused rows; a repeated row is none of them."""
    return sum(number for reason, number in run.refused.items() if reason != _REPEATED)


def look_at(block: Block) -> str:
    """Returns what to look at because of a block, beginning with a small letter."""
    roots = block.worst.root_positions
    oldest = "entries" if not roots else f"entry {roots[0]}" if len(roots) == 1 else f"entries from {roots[0]} on"
    blamed = "the consumers" if block.consumer is None else consumer(block.consumer, block.consumer_name)
    steps = _STEPS_WITH_NOTHING_HELD if not roots else {}
    if block.consumer is None:
        steps = _NOBODY_BLAMED
    return steps.get(block.cause, STEPS[block.cause]).format(blamed=blamed, oldest=oldest)
