"""Contested ring points against deliberately simple models, on a ring so small that they are the rule.

No recorded 3.x trace has a collision: 31 bits are too many for some dozen consumers.
"""

from typing import TypeAlias

import numpy as np
import pytest
from examples import examples
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from dispatch_audit.pipeline.assignment import make_selector
from dispatch_audit.pipeline.assignment.selectors import ring_selector
from dispatch_audit.udfs.sticky_key_hash import Int64Array, murmur31

POINTS = 4
RING = 12

Operations: TypeAlias = list[tuple[str, int, str]]
histories = st.lists(
    st.tuples(st.sampled_from(["add", "add", "remove"]), st.integers(0, 6), st.sampled_from("ab")),
    max_size=30,
)


def _points(name: str, index: int) -> list[int]:
    texts = (f"{name}/{index}/{point}".encode() for point in range(POINTS))
    return [int(murmur) % RING + 1 for murmur in murmur31(list(texts))]


def _small_ring_points(name: str, index: int, points: int, hash_rule: str) -> Int64Array:
    return np.unique(np.array(_points(name, index), dtype=np.int64))


class _Model:
    """Reads as contract 2.1 and 2.2 do: one point after the other, one index count for each."""

    def __init__(self, *, incumbent_keeps: bool) -> None:
        self.incumbent_keeps = incumbent_keeps
        self.points: dict[int, list[int]] = {}
        self.known: dict[int, tuple[str, int]] = {}
        self.references: dict[int, int] = {}

    def add(self, consumer: int, name: str) -> None:
        taken = {index for known, index in self.known.values() if known == name}
        index = min(set(range(len(taken) + 1)) - taken)
        self.known[consumer], self.references[consumer] = (name, index), 0
        for point in _points(name, index):
            self.references[consumer] += 1
            standing = self.points.setdefault(point, [])
            if self.incumbent_keeps:
                standing.append(consumer)
            else:
                for loser in standing:
                    self._forget_one(loser)
                self.points[point] = [consumer]

    def remove(self, consumer: int) -> None:
        if consumer not in self.known:
            return
        for point in _points(*self.known[consumer]):
            if consumer in self.points.get(point, []):
                self.points[point].remove(consumer)
                self._forget_one(consumer)
                if not self.points[point]:
                    del self.points[point]

    def _forget_one(self, consumer: int) -> None:
        self.references[consumer] -= 1
        if not self.references[consumer]:
            del self.known[consumer]

    def select(self, sticky_hash: int) -> int | None:
        above = [point for point in self.points if point >= sticky_hash] or list(self.points)
        return self.points[min(above)][0] if above else None


@pytest.mark.parametrize(("profile", "incumbent_keeps"), [("pulsar-4.2.4", True), ("pulsar-3.3.2", False)])
@examples(300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(history=histories)
def test_the_ring_equals_the_simple_model(
    profile: str, incumbent_keeps: bool, history: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ring_selector, "ring_points", _small_ring_points)
    ring, model = (
        make_selector("consistent_hashing", POINTS, profile),
        _Model(incumbent_keeps=incumbent_keeps),
    )
    for action, consumer, name in history:
        if action == "remove":
            if ring.remove(consumer):
                model.remove(consumer)
        elif consumer not in ring:
            ring.add(consumer, name)
            model.add(consumer, name)
        for sticky_hash in range(RING + 2):
            assert ring.select(sticky_hash) == model.select(sticky_hash)
