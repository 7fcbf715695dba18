"""Which consumers of a subscription were sent much more than others, or next to nothing."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.replay.membership.stays import Stay
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext

_CONSUMERS_MIN: Final = 2
_DISPATCHES_MIN: Final = 10
_TIMES_MEAN: Final = 1.5
_TIMES_LEAST: Final = 3
_IDLE: Final = 0.1
_NAMED_MAX: Final = 10


def uneven_shares(context: FindingContext) -> Iterator[tuple[Stay, str]]:
    """The consumer that was sent most and what there is to say, if shares are uneven.

    Who was connected for less than half as long as another is not compared, because its share says nothing. A name that
    connects anew is one consumer, unless two of the name were connected at once.
    """
    stays, counts = _by_label(context), context.found.dispatcher.counts
    now_us = context.found.membership.released.ts_us
    connected_us = {label: sum(_connected_us(stay, now_us) for _, stay in of) for label, of in stays.items()}
    long_us = max(connected_us.values(), default=0) / 2
    sent, acknowledged = (
        Counter({label: sum(counts.get(number, (0, 0))[at] for number, _ in of) for label, of in stays.items()})
        for at in range(2)
    )
    compared = [(label, number) for label, number in sent.most_common() if connected_us[label] >= long_us]
    total = sent.total()
    if len(compared) < _CONSUMERS_MIN or total < _DISPATCHES_MIN:
        return
    # Of those that are connected at one time; one that comes and goes is a part of one.
    mean = total * max(connected_us.values()) / max(sum(connected_us.values()), 1)
    (most, most_sent), (_, least_sent) = compared[0], compared[-1]
    # One that acknowledges nothing of what it gets hangs, and is not idle.
    idle = [(label, n) for label, n in compared if n <= _IDLE * mean and not n > acknowledged[label] == 0]
    # Where consumers come and go, what they had to catch up on decides shares.
    uneven = len(compared) == len(sent) and most_sent >= max(_TIMES_MEAN * mean, _TIMES_LEAST * least_sent)
    if not (idle or uneven):
        return
    least = idle or compared[-1:]
    named = ", ".join(f"{label} ({number / total:.0%})" for label, number in least[:_NAMED_MAX])
    more = f" and {len(least) - _NAMED_MAX} more" if len(least) > _NAMED_MAX else ""
    yield (
        stays[most][0][1],
        f"{most} was sent {most_sent / total:.0%} of {count(total, 'dispatch', 'dispatches')}, the most of "
        f"{count(len(sent), 'consumer')}; {'idle or nearly so' if idle else 'least'}: {named}{more}",
    )


def _by_label(context: FindingContext) -> dict[str, list[tuple[int, Stay]]]:
    """The stays of each consumer by its name, or by its number too where two of the name were connected at once."""
    now_us = context.found.membership.released.ts_us
    until_us: dict[str, int] = {}
    shared: set[str] = set()
    joined = [(number, stay) for number, stay in context.stays.items() if stay.joined is not None]
    for _, stay in joined:
        name = stay.row.name
        if stay.joined is not None and stay.joined.ts_us < until_us.get(name, 0):
            shared.add(name)
        until_us[name] = max(now_us if stay.left is None else stay.left.ts_us, until_us.get(name, 0))
    index_of, by_label = context.found.dispatcher.consumers.of, dict[str, list[tuple[int, Stay]]]()
    for number, stay in joined:
        name = stay.row.name
        label = context.names.spoken(index_of[number]) if name in shared and number in index_of else name
        by_label.setdefault(label, []).append((number, stay))
    return by_label


def _connected_us(stay: Stay, now_us: int) -> int:
    until_us = now_us if stay.left is None else stay.left.ts_us
    return 0 if stay.joined is None else max(until_us - stay.joined.ts_us, 0)
