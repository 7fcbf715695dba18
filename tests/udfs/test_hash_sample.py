"""A sample has its share of the hashes, whichever they are, and the same ones in every process and language."""

from pathlib import Path

import numpy as np
import pytest

from dispatch_audit.udfs.hash_sample import EVERY_HASH, HashSample

HASHES = np.arange(65_536)
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("one_in", [2, 8, 64, 1000])
@pytest.mark.parametrize("salt", ["", "a", "2026-11"])
def test_a_sample_has_its_share_of_every_range(one_in: int, salt: str) -> None:
    chosen = HashSample(one_in, salt).has(HASHES)
    for quarter in np.split(chosen, 4):
        expected = quarter.size / one_in
        # Five standard deviations of a count of independent hashes.
        assert abs(np.count_nonzero(quarter) - expected) < 5 * expected**0.5


def test_two_salts_choose_hashes_that_have_nothing_to_do_with_each_other() -> None:
    both = HashSample(8, "a").has(HASHES) & HashSample(8, "b").has(HASHES)
    assert abs(np.count_nonzero(both) - HASHES.size / 64) < 5 * (HASHES.size / 64) ** 0.5


def test_a_smaller_sample_with_the_salt_is_a_part_of_the_larger() -> None:
    larger, smaller = HashSample(8, "a"), HashSample(64, "a")
    assert not (smaller.has(HASHES) & ~larger.has(HASHES)).any()
    assert larger.covers(smaller)
    assert EVERY_HASH.covers(smaller)
    assert not smaller.covers(larger)
    assert not larger.covers(HashSample(64, "b"))


def test_all_hashes_are_a_sample_of_one_in_one() -> None:
    assert EVERY_HASH.is_all
    assert EVERY_HASH.has(HASHES).all()


def test_the_hashes_of_a_salt_never_change() -> None:
    """Recorders in other languages choose the same: `docs/TRACE_FORMAT.md` has these numbers."""
    assert np.flatnonzero(HashSample(64, "orders").has(HASHES))[:5].tolist() == [19, 46, 127, 138, 160]


def test_the_recorder_chooses_the_same_hashes() -> None:
    """The recorder's `HashSampleTest` reads the same file."""
    lines = (ROOT / "recorder/src/test/resources/hash-samples.csv").read_text(encoding="utf-8").splitlines()
    for one_in, salt, sticky_hash, chosen in (line.split(",") for line in lines[1:]):
        assert HashSample(int(one_in), salt).has(np.array([int(sticky_hash)])).all() == (chosen == "true")


@pytest.mark.parametrize(("hit", "one_in", "found"), [(1, 8, 0.13), (10, 8, 0.74), (10, 64, 0.15), (100, 64, 0.79)])
def test_a_share_finds_a_fault_as_often_as_docs_say(hit: int, one_in: int, found: float) -> None:
    """docs/WHERE_TO_RUN.md, "A sample of the hashes"; over 1,000 salts."""
    hashes = np.random.default_rng(7).choice(HASHES, hit, replace=False)
    shown = np.mean([HashSample(one_in, f"day {day}").has(hashes).any() for day in range(1_000)])
    assert shown == pytest.approx(found, abs=0.05)
