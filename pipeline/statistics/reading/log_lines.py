"""Reads lines of a client's or a broker's log: what each known kind of line means, and what to do.

A log shows single events and no counters, so nothing is judged from it; it says which statistics to look at.

Source: `DrainingHashesTracker` (#25277, #25558), `ConsumerStatsRecorderImpl` (#23698), `UnAckedMessageTracker`,
`PersistentDispatcherMultipleConsumers`; pulsar-client-dotnet#271; pulsar-client-go#698;
`HashRangeExclusiveStickyKeyConsumerSelector` (#7217), `AbstractSubscription` (#23272).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dispatch_audit.pipeline.plural import count

_NAMED_MAX: Final = 5
_TOPIC: Final = re.compile(r"(?:non-)?persistent://[\w.%-]+/[\w.%-]+/[\w.%/-]+")


@dataclass(frozen=True)
class LineSign:
    """A kind of line.

    Attributes:
        pattern: of the line; its group is what the line is about.
        about: what the group is.
        means: a clause.
    """

    pattern: re.Pattern[str]
    about: str
    means: str


LINE_SIGNS: Final = (
    LineSign(
        re.compile(r"Draining hash (\d+) not found in the tracker"),
        "hash",
        "the warning comes from reading statistics while a hash stops draining; it is harmless, and gone with 4.0.10 "
        "and 4.2.1 (#25277, #25558)",
    ),
    LineSign(
        re.compile(r"(?:Batch reading exception|Message) (\d+:\d+)(?::-?\d+)?(?: was discarded)?\s*$", re.MULTILINE),
        "entry",
        "the client cannot take a batch apart and discards it: with a receiver queue of 0 produce without batching, or "
        "take a queue of 1 (pulsar-client-dotnet#271)",
    ),
    LineSign(
        re.compile(r"\[([^\[\]]+)\] Prefetched messages: [1-9]\d* --- Consume throughput received: 0\.00 "),
        "consumer",
        "its receiver queue holds messages that the application does not take: look at a thread dump of it",
    ),
    LineSign(
        re.compile(r"(?<!\d)(\d{1,19}) messages (?:have timed-out|will be re-delivered)"),
        "number",
        "the acknowledgement timeout of the client sends messages again: the application takes longer than the timeout",
    ),
    LineSign(
        re.compile(r"Dispatcher is blocked due to unackMessages (\d+)"),
        "number",
        "the subscription is at maxUnackedMessagesPerSubscription: nothing is sent until half of it is acknowledged",
    ),
    LineSign(
        re.compile(r"Reconnecting (?:to broker|after|the connection)[^\n]*?(?:name=(\S+))?"),
        "consumer",
        "the client lost its connection: what it held goes to others, and its hashes move twice",
    ),
    LineSign(
        re.compile(r"Range conflict with consumer(?: Consumer\{[^{}\n]*?consumerName=([^,{}\n]+))?"),
        "connected consumer",
        "the join of a STICKY consumer was refused, because its ranges overlap with those of one that is connected: "
        "give each ranges of its own",
    ),
    LineSign(
        re.compile(r"Subscription is of different type()"),
        "",
        "the join was refused, because consumers ask for different policies, or types, in one subscription: give all "
        "of them one, or a subscription each (#23272)",
    ),
    LineSign(
        re.compile(r"Subscription reached max consumers limit()"),
        "",
        "the join was refused, because the subscription has as many consumers as maxConsumersPerSubscription allows",
    ),
    LineSign(
        re.compile(r"is already draining hash (\d+)"),
        "hash",
        "the broker's list of draining hashes contradicts itself, which is a bug of the broker: unload the topic",
    ),
)
"""All kinds of lines that are known, each with what it means."""


def topic_in(text: str) -> str | None:
    """The first topic that a text names; None: it names none."""
    found = _TOPIC.search(text)
    return None if found is None else found[0].rstrip(".")


def sentences_of(text: str) -> Iterator[str]:
    """Yields what known lines of a log mean, a sentence for each kind, and then the command that says more."""
    found = False
    for sign in LINE_SIGNS:
        matches = [match[1] or "" for match in sign.pattern.finditer(text)]
        if not matches:
            continue
        found = True
        named = list(dict.fromkeys(filter(None, matches)))
        more = f" and {len(named) - _NAMED_MAX:,} more" if len(named) > _NAMED_MAX else ""
        about = f" ({sign.about} {', '.join(named[:_NAMED_MAX])}{more})" if named else ""
        yield f"{count(len(matches), 'line')}{about}: {sign.means}"
    if found:
        name = topic_in(text) or "TOPIC"
        yield f"counters decide: pulsar-admin topics stats {name}; pulsar-admin topics stats-internal {name}"
