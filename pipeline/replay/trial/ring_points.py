"""The number of ring points of a consumer, as the ends of reported hash ranges show it (contract 2.1)."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from dispatch_audit.pipeline.assignment import make_selector
from dispatch_audit.pipeline.contract.profile import Profile
from dispatch_audit.pipeline.replay.evidence.reported_assignments import ReportedAssignment
from dispatch_audit.udfs.sticky_key_hash import Int64Array

_POINTS_MAX: Final = 1_000
_REPORTS_MAX: Final = 5
# Operators set round numbers, and the last points of a consumer may not show because its ranges are fused.
_ROUND: Final = (100, 50, 10, 5, 1)


def points_in(profile: Profile, reported: Sequence[ReportedAssignment], names: Mapping[int, str]) -> list[int]:
    """The numbers of points of a consumer that explain where the reported ranges end, the roundest first; perhaps none.

    Args:
        profile: the profile whose ring it is.
        reported: the reported assignments, of which those of most consumers are looked at.
        names: of the consumers in them.
    """
    least = 0
    for seen in sorted(reported, key=lambda seen: -seen.consumers)[:_REPORTS_MAX]:
        if seen.consumers < 2:
            break
        top = max(end for consumer in seen.snapshot.consumers for _, end in consumer.ranges or ())
        named = Counter(names.get(consumer.consumer) for consumer in seen.snapshot.consumers)
        for consumer in seen.snapshot.consumers:
            name = names.get(consumer.consumer)
            # The index of a namesake depends on joins and leaves before.
            if name is not None and named[name] == 1:
                least = max(least, _least_points(profile, name, {end for _, end in consumer.ranges or ()} - {top}))
    return list(dict.fromkeys(-(-least // step) * step for step in _ROUND)) if least else []


def _least_points(profile: Profile, name: str, ends: Iterable[int]) -> int:
    """The lowest number of points of a consumer among which are all ends of its ranges; 0: there is none."""
    wanted = np.array(sorted(ends), dtype=np.int64)
    numbers = range(1, _POINTS_MAX + 1)
    least = bisect_left(numbers, True, key=lambda points: bool(np.isin(wanted, _ring(profile, name, points)).all()))
    return numbers[least] if wanted.size and least < _POINTS_MAX else 0


def _ring(profile: Profile, name: str, points: int) -> Int64Array:
    selector = make_selector("consistent_hashing", points, profile)
    selector.add(0, name)
    return selector.routing().uppers
