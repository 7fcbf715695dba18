"""What all outputs say in the same words."""

from collections.abc import Iterator, Mapping
from typing import Final

from dispatch_audit.pipeline.contract.known_bugs import label
from dispatch_audit.pipeline.plural import count, entries
from dispatch_audit.pipeline.report.wording import duration, moment
from dispatch_audit.pipeline.statistics.clock import TimeSource
from dispatch_audit.pipeline.statistics.diagnose import STANDARD_INPUT
from dispatch_audit.pipeline.statistics.diagnosis import Answer, Diagnosis, Reason
from dispatch_audit.pipeline.statistics.facts import SubscriptionFacts
from dispatch_audit.pipeline.statistics.model import ConsumerStats, Position
from dispatch_audit.pipeline.statistics.signs.sign import Certainty

ANSWER_WORDS: Final[Mapping[Answer, str]] = {
    "held_up": "HELD UP",
    "not_decidable": "NOT DECIDABLE",
    "flowing": "FLOWING",
    "delivered": "DELIVERED",
    "no_consumer": "NO CONSUMER",
    "idle": "IDLE",
}
CERTAINTY_WORDS: Final[Mapping[Certainty, str]] = {
    "proved": "proved by the dump",
    "compatible": "compatible with",
    "not_decidable": "not decidable",
}
ORDER: Final = (
    "statistics are counters and cannot prove that the order of a key was broken or kept; a trace can "
    "(docs/RECORDING.md)"
)
_SOURCES: Final[Mapping[TimeSource, str]] = {
    "name": "by the name of the file",
    "content": "by the text in front of it, or its recording",
    "age": "by the age of the file, which a copy changes",
    "none": "not known",
}
_WHEN_READ: Final = "when it was read"
CONSUMER_COLUMNS: Final = ("consumer", "permits", "unacked", "sent", "blocked", "draining", "refused", "last ack")
CONSUMER_NUMERIC: Final = frozenset({1, 2, 3, 5, 6})


def certainty_of(reason: Reason, dumps: int) -> str:
    """Returns how certain a reason is, in words."""
    return "proved by the dumps" if reason.certainty == "proved" and dumps > 1 else CERTAINTY_WORDS[reason.certainty]


def stopped(text: str) -> str:
    """Returns a clause with a full stop; names of consumers and counters keep their first letter."""
    return text if text.endswith(".") else f"{text}."


def bug_labels(reason: Reason) -> str:
    """Returns the known bugs behind a reason, as a clause; empty: none."""
    return f"known bug {', '.join(map(label, reason.bugs))}" if reason.bugs else ""


def taken(diagnosis: Diagnosis) -> str:
    """Returns when the dumps were taken, and what says so."""
    moments = diagnosis.history.moments
    clock = moments[-1].clock
    at = "at a time that is not known" if clock.at_ms is None else f"{moment(clock.at_ms * 1000)} UTC"
    zone = ", taken for UTC" if clock.source == "name" and not clock.exact else ""
    said_by = _WHEN_READ if moments[-1].files == (STANDARD_INPUT,) and clock.source == "age" else _SOURCES[clock.source]
    source = f" ({said_by}{zone})" if clock.source != "none" else ""
    number = f"; {count(len(moments), 'dump')}" if len(moments) > 1 else ""
    facts = diagnosis.facts
    latest = f"; its last timestamp is {moment(facts.last_ms * 1000)}" if facts is not None and facts.last_ms else ""
    return f"{at}{source}{number}{latest}"


def backlog(facts: SubscriptionFacts) -> str:
    """Returns what the backlog is made of."""
    sub = facts.subscription
    parts = [
        f"{sub.replay:,} in replay{_limit(facts)}" if sub.replay is not None else "",
        f"{count(facts.held, 'message')} unacknowledged" if facts.held is not None else "",
        f"{entries(facts.unread)} unread" if facts.unread is not None else "",
        f"{sub.delayed:,} delayed" if sub.delayed else "",
        f"{count(sub.holes, 'range')} acknowledged out of order" if sub.holes else "",
    ]
    number = "not known" if sub.backlog is None else entries(sub.backlog)
    return f"{number}: {', '.join(filter(None, parts))}" if any(parts) else number


def _limit(facts: SubscriptionFacts) -> str:
    limit = look_ahead_limit(facts)
    return "" if limit is None else f" (look-ahead limit {limit:,} by default)"


def look_ahead_limit(facts: SubscriptionFacts) -> int | None:
    """Returns the look-ahead limit of the release by default; None: there is none, or it depends on what is cut off."""
    if facts.dispatcher == "recently_joined" or not facts.is_key_shared or not facts.number:
        return None
    return facts.limits.look_ahead(facts.number)


def reads(facts: SubscriptionFacts) -> str:
    """Returns the state of the cursor and its reads; empty: not known."""
    cursor = facts.cursor
    if cursor is None:
        return ""
    flags = {
        "waitingReadOp": cursor.waiting_read,
        "pendingReadOps": cursor.pending_reads,
        "subscriptionHavePendingRead": cursor.have_pending_read,
        "subscriptionHavePendingReplayRead": cursor.have_pending_replay_read,
    }
    reads = ", ".join(f"{name} {_value(value)}" for name, value in flags.items() if value is not None)
    positions = f"mark-delete {_position(cursor.mark_delete)}, read position {_position(cursor.read_position)}"
    return f"{positions}{f'; {reads}' if reads else ''}"


def _value(value: bool | int) -> str:
    return str(value).lower()


def _position(at: Position | None) -> str:
    return "not known" if at is None else f"{at[0]}:{at[1]}"


def moved(facts: SubscriptionFacts) -> str:
    """Returns what moved between the dumps; empty: there is one dump."""
    movement = facts.movement
    if movement is None:
        return ""
    span = "" if movement.seconds is None else f" in {duration(movement.seconds)}"
    by_name = [(c.name, movement.consumers.get(c.identity)) for c in facts.consumers]
    each = [f"{name} {moved.sent:,}" for name, moved in by_name if moved is not None and moved.sent]
    sent = "not known" if movement.sent is None else count(movement.sent, "message")
    parts = [
        f"sent {sent}{span}{f' ({_listed(each)})' if each else ''}",
        _position_moved("mark-delete", movement.mark_delete),
        _position_moved("the read position", movement.read),
        f"replay {movement.replay:+,}" if movement.replay is not None else "",
        f"backlog {movement.backlog:+,}" if movement.backlog is not None else "",
        f"joined: {_listed(movement.joined)}" if movement.joined else "",
        f"left: {_listed(movement.left)}" if movement.left else "",
    ]
    return ", ".join(filter(None, parts))


def _position_moved(what: str, is_other: bool | None) -> str:
    return "" if is_other is None else f"{what} {'moved' if is_other else 'stood still'}"


def _listed(names: list[str] | tuple[str, ...], most: int = 5) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def consumer_rows(facts: SubscriptionFacts, most: int) -> tuple[list[tuple[str, ...]], int]:
    """Returns rows of `CONSUMER_COLUMNS`, of many consumers those that hold most, and how many are left out."""
    # A consumer of a sum stands for one of each partition.
    listed = () if facts.moment.aggregated else facts.subscription.consumers
    ranked = sorted(listed, key=lambda c: (not c.draining_count, -(c.unacked or 0), c.permits or 0))
    return [_row(consumer) for consumer in ranked[:most]], max(len(ranked) - most, 0)


def _row(consumer: ConsumerStats) -> tuple[str, ...]:
    refused = None if consumer.draining is None else sum(attempts for _, _, attempts in consumer.draining)
    acked = consumer.last_acked_ms
    return (
        consumer.name,
        _number(consumer.permits),
        _number(consumer.unacked),
        _number(consumer.sent),
        "-" if consumer.blocked is None else "yes" if consumer.blocked else "no",
        _number(consumer.draining_count),
        _number(refused),
        "-" if acked is None else moment(acked * 1000) if acked else "never",
    )


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def about(diagnosis: Diagnosis) -> str:
    """Returns the subscription, its mode and the number of its consumers."""
    facts = diagnosis.facts
    if facts is None:
        return diagnosis.history.subscription
    sub = facts.subscription
    kind = "" if facts.is_key_shared else sub.type or ""
    modes = [kind, sub.mode or "", "out of order allowed" if sub.out_of_order else ""]
    mode = f" ({', '.join(filter(None, modes))})" if any(modes) else ""
    at_least = "at least " if sub.cut else ""
    number = len(sub.consumers) if sub.lists_consumers else sub.connected
    connected = "consumers not listed" if number is None else f"{at_least}{count(number, 'consumer')}"
    return f"{sub.name}{mode}, {connected}"


def said_of(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """Yields what the leading reason says, as names and texts; nothing without one."""
    reason = leading(diagnosis.reasons)
    if reason is None:
        return
    judged = certainty_of(reason, len(diagnosis.history.moments))
    is_said = reason.title in diagnosis.headline
    judged = "compatible with it, and not proved" if is_said and reason.certainty == "compatible" else judged
    title = "" if is_said else f": {reason.title.removesuffix('.')}"
    bugs = f"; this is how {bug_labels(reason)} looks" if reason.bugs else ""
    said = {
        "Certain": stopped(reason.shown),
        "Judged": stopped(f"{judged}{title}{bugs}"),
        "Since": stopped(reason.since) if reason.since else "",
        "Decide": reason.decide,
        "Do": reason.remedy,
    }
    yield from ((name, text) for name, text in said.items() if text)


def rest_of(reasons: tuple[Reason, ...]) -> Iterator[Reason]:
    """Yields all reasons but the leading one."""
    first = leading(reasons)
    yield from (reason for reason in reasons if reason is not first)


def leading(reasons: tuple[Reason, ...]) -> Reason | None:
    """Returns the first reason that is not of kind `state`; None: all are."""
    return next((reason for reason in reasons if reason.kind != "state"), None)
