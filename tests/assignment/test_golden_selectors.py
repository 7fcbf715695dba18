"""Every recorded step of Pulsar's own selector classes (4.0.8), and the executed vectors of contract 2."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dispatch_audit.pipeline.assignment import NOBODY, Selector, make_selector
from dispatch_audit.pipeline.contract.profile import SelectorKind
from dispatch_audit.pipeline.errors import AssignmentError
from dispatch_audit.udfs.sticky_key_hash import sticky_hashes

DATA = Path(__file__).resolve().parents[1] / "data"
KINDS: dict[str, SelectorKind] = {
    "consistent_hash": "consistent_hashing",
    "auto_split": "auto_split",
    "exclusive": "exclusive",
}


def _histories() -> list[dict[str, Any]]:
    with gzip.open(DATA / "golden" / "selectors.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def _by_consumer(ranges: dict[str, list[list[int]]]) -> dict[int, list[tuple[int, int]]]:
    return {int(consumer): [(start, end) for start, end in rows] for consumer, rows in ranges.items()}


@pytest.mark.parametrize("history", _histories(), ids=lambda history: f"{history['selector']}-{history['id']}")
def test_golden_history(history: dict[str, Any]) -> None:
    selector = make_selector(KINDS[history["selector"]], history["points"] or 100, "pulsar-4.0.7")
    for step in history["steps"]:
        if step["op"] == "remove":
            assert selector.remove(step["c"])
        else:
            wanted = [(start, end) for start, end in step["want"]] if "want" in step else None
            refused = False
            try:
                selector.add(step["c"], step["name"], wanted)
            except AssignmentError:
                refused = True
            assert refused == bool(step.get("error"))
        after = selector.ranges().rows
        assert after == tuple(tuple(row) for row in step["ranges"])
        for sticky_hash, consumer in step.get("select", []):
            assert selector.select(sticky_hash) == (None if consumer == NOBODY else consumer)
        selected = np.array(step.get("select", []), dtype=np.int64).reshape(-1, 2)
        np.testing.assert_array_equal(selector.routing().owners_of(selected[:, 0]), selected[:, 1])


def _ranges_of(selector: Selector, consumer: int) -> list[tuple[int, int]]:
    return [(start, end) for start, end, owner in selector.ranges().rows if owner == consumer]


def _summary(selector: Selector, consumer: int) -> tuple[int, int]:
    ranges = _ranges_of(selector, consumer)
    return len(ranges), sum(end - start + 1 for start, end in ranges)


def test_consistent_hashing_vectors() -> None:
    """contract 2.6, with numbers 1..3 for c1..c3 and 4 for the second c1."""
    ring = make_selector("consistent_hashing", 100, "pulsar-4.0.3")
    ring.add(1, "c1")
    assert ring.ranges().rows == ((1, 65535, 1),)
    ring.add(2, "c2")
    assert _summary(ring, 1) == (52, 30966)
    assert _ranges_of(ring, 1)[:3] == [(1, 1031), (1425, 1870), (2083, 2409)]
    assert _ranges_of(ring, 1)[-1] == (64400, 65535)
    assert _summary(ring, 2) == (51, 34569)
    assert _ranges_of(ring, 2)[:3] == [(1032, 1424), (1871, 2082), (2410, 2959)]
    assert _ranges_of(ring, 2)[-1] == (63541, 64399)
    ring.add(3, "c3")
    assert [_summary(ring, consumer) for consumer in (1, 2, 3)] == [(72, 20340), (59, 21396), (66, 23799)]
    assert _ranges_of(ring, 1)[-1] == (65132, 65535)
    assert _ranges_of(ring, 3)[:3] == [(1425, 1478), (1871, 1997), (2138, 2184)]
    assert _ranges_of(ring, 3)[-1] == (64839, 65131)
    ring.add(4, "c1")
    assert [_summary(ring, consumer) for consumer in (4, 1, 2, 3)] == [
        (81, 15642),
        (76, 15804),
        (69, 18123),
        (77, 15966),
    ]
    assert _ranges_of(ring, 4)[:3] == [(1, 996), (1727, 1841), (2664, 2769)]
    assert _ranges_of(ring, 4)[-1] == (65132, 65535)
    assert _ranges_of(ring, 1)[:3] == [(997, 1031), (1479, 1726), (1842, 1870)]
    assert _ranges_of(ring, 1)[-1] == (64477, 64838)
    hashes = sticky_hashes([b"key-0", b"key-1", b"key-2", b"key-3"], "consistent_hashing")
    owners = ring.routing().owners_of(hashes).tolist()
    assert owners[1:] == [2, 3, 2]
    assert owners[0] in (1, 4)
    ring.remove(1)
    assert _summary(ring, 4) == (73, 22367)
    assert _ranges_of(ring, 4)[:2] == [(1, 996), (1479, 1841)]


def test_eight_consumers_on_the_ring() -> None:
    ring = make_selector("consistent_hashing", 100, "pulsar-4.0.3")
    for consumer in range(8):
        ring.add(consumer, f"consumer-{consumer}")
    assert [_summary(ring, consumer)[1] for consumer in range(8)] == [
        8711,
        7483,
        6953,
        8146,
        8663,
        7817,
        8652,
        9110,
    ]
    hashes = sticky_hashes([f"k{number}".encode() for number in range(12)], "consistent_hashing")
    slots = [30776, 56817, 55295, 11677, 27176, 5050, 36144, 55992, 47285, 63725, 48638, 19813]
    assert hashes.tolist() == slots
    assert ring.routing().owners_of(hashes).tolist() == [6, 0, 3, 3, 5, 7, 3, 4, 2, 4, 4, 4]
    assert len(_ranges_of(ring, 3)) == 88
    ring.remove(3)
    assert _ranges_of(ring, 3) == []


def test_auto_split_vectors() -> None:
    """contract 2.6, a0..a5 by their numbers."""
    split = make_selector("auto_split")
    for consumer in range(6):
        split.add(consumer, f"a{consumer}")
    assert [*split.ranges().rows] == [
        (0, 8192, 4),
        (8193, 16384, 2),
        (16385, 24576, 5),
        (24577, 32768, 1),
        (32769, 49152, 3),
        (49153, 65536, 0),
    ]
    split.remove(0)
    assert _ranges_of(split, 3) == [(32769, 65536)]
    split.remove(3)
    assert _ranges_of(split, 1) == [(24577, 65536)]


@pytest.mark.parametrize("profile", ["pulsar-3.0.7", "pulsar-3.0.14", "pulsar-3.3.9"])
def test_exclusive_ranges_of_3x_take_a_hash_modulo_65536(profile: str) -> None:
    """contract 1.3, 2.4; no jar of 3.0.14 or 3.3.9 was read or executed."""
    sticky = make_selector("exclusive", profile=profile)
    sticky.add(1, "c1", [(10, 20)])
    hashes = [3 * 65_536 + 9, 3 * 65_536 + 10, 65_536 + 20, 65_536 + 21]
    assert [sticky.select(sticky_hash) for sticky_hash in hashes] == [None, 1, 1, None]
    assert sticky.routing().owners_of(hashes).tolist() == [NOBODY, 1, 1, NOBODY]


@pytest.mark.parametrize(
    ("profile", "gap_owner", "reports_one_slot"), [("pulsar-4.0.3", 1, False), ("pulsar-4.0.7", None, True)]
)
def test_exclusive_vectors(profile: str, gap_owner: int | None, reports_one_slot: bool) -> None:
    """contract 2.4, executed; S11 of section 11 is its beginning."""
    sticky = make_selector("exclusive", profile=profile)
    sticky.add(1, "c1", [(0, 10), (20, 30)])
    assert sticky.select(15) == gap_owner
    assert sticky.select(31) is None
    sticky.add(2, "c2", [(12, 18)])
    assert sticky.select(15) == 2
    assert sticky.select(11) is None
    for refused in ([(30, 40)], [(40, 35)], [(5, 6)], []):
        with pytest.raises(AssignmentError):
            sticky.add(3, "c3", refused)
    sticky.add(3, "c3", [(31, 31)])
    assert sticky.select(31) == 3
    assert sticky.routing().owners_of([11, 15, 31, 32]).tolist() == [NOBODY, 2, 3, NOBODY]
    assert ((31, 31, 3) in sticky.ranges().rows) == reports_one_slot
