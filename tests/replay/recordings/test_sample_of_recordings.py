"""A sample of the hashes has the findings of these hashes, and none else.

What rests on entries of other hashes is not provable there: what a consumer or a whole subscription waits for, limits,
and a finding that a bug of the broker may explain by what it did with other hashes.
"""

from typing import Any, Final

import numpy as np
import pytest
from local_replay import Columns, recorded_tables, tables_of_batches
from recorded import of_each
from recorded_batches import recorded_batches

from dispatch_audit.udfs.hash_sample import HashSample

# With findings about order on 3.x and the classic dispatcher, with piecewise acknowledgements, with draining hashes.
QUICK: Final = ["heavy-churn-1-3.0.7", "batch-index-ack-4.0.8", "double-registration-4.0.1"]
WITH_FINDINGS: Final = [
    "crash-1-3.3.2",
    "crash-1-4.2.4",
    "crash-3-4.0.8-classic",
    "delayed-4.0.8",
    "expire-skip-clear-churn-4.0.8",
    "hash-unblock-1-4.0.1",
    "hash-unblock-12-4.0.1",
    "heavy-churn-1-4.0.8-classic",
    "max-unacked-consumer-3.0.7",
    "mixed-batch-4.0.8",
    "rolling-restart-heavy-1-3.0.7",
    "rolling-restart-heavy-1-4.0.8-classic",
]
# What entries of other hashes count for, or may have been in the way of.
OF_ALL_HASHES: Final = {"stalled", "draining_stuck", "unacked_limit"}
# Of a whole trace only: of few hashes the shares of consumers are uneven by chance.
NOT_OF_SAMPLES: Final = {"uneven_share"}
# About the first of the batches of a producer, or of the entries that nobody was sent: a sample has another first one.
OF_THE_FIRST: Final = {"mixed_key_batch", "never_sent"}

Found = dict[tuple[Any, ...], Columns]


def _by_row(rows: list[Columns]) -> Found:
    names = ("topic", "subscription", "rule", "seq", "sticky_hash", "consumer", "ledger_id", "entry_id")
    return {tuple(row.get(name) for name in names): row for row in rows if row["rule"] not in OF_THE_FIRST}


def _check(name: str, one_in: int, salt: str) -> int:
    """Compares a sample of a recording with the whole of it; returns the number of findings of sampled hashes."""
    sample = HashSample(one_in, salt)
    whole = _by_row(recorded_tables(name)["violations"])
    found = _by_row(tables_of_batches(name, recorded_batches(name), sample=sample)["violations"])
    of_hashes = {
        at: row
        for at, row in whole.items()
        if row.get("sticky_hash") is not None and sample.has(np.array([row["sticky_hash"]])).all()
    }
    waits = {at for at, row in (whole | found).items() if row["rule"] in OF_ALL_HASHES}
    assert {row["severity"] for at, row in found.items() if at in waits} <= {"not_provable"}
    assert not any(row["rule"] == "stalled" and row.get("sticky_hash") is None for row in found.values())
    by_hash = {at for at, row in found.items() if row.get("sticky_hash") is not None}
    assert by_hash - waits == of_hashes.keys() - waits
    assert found.keys() - waits - by_hash <= whole.keys()
    assert not any(row["rule"] in NOT_OF_SAMPLES for row in found.values())
    for at in found.keys() - waits:
        others_may = any("entries of the others" in reason for reason in found[at]["why"])
        assert found[at]["severity"] == whole[at]["severity"] or (
            found[at]["severity"] == "not_provable" and (others_may or at not in by_hash)
        )
    return len(of_hashes)


@of_each(QUICK)
def test_a_sample_has_the_findings_of_its_hashes_and_no_other(name: str) -> None:
    _check(name, 8, "c")


@pytest.mark.slow
@of_each([*QUICK, *WITH_FINDINGS])
def test_every_sample_has_the_findings_of_its_hashes_and_no_other(name: str) -> None:
    for one_in in (8, 64):
        for salt in ("a", "b", "c"):
            _check(name, one_in, salt)


def test_what_is_compared_has_findings() -> None:
    assert _check("heavy-churn-1-3.0.7", 8, "c") > 0


def test_nothing_is_said_of_a_sample_that_was_sent_nothing() -> None:
    tables = tables_of_batches(QUICK[0], recorded_batches(QUICK[0]), sample=HashSample(64, "a"))
    (coverage,) = tables["coverage"]
    assert coverage["dispatches"] == 0
    assert (coverage["order_verdict"], coverage["progress"]) == ("not_provable", "not_provable")
    assert coverage["missing"] == ["other_hashes"]


def test_a_sample_counts_its_own_dispatches_and_shows_no_capacity() -> None:
    whole = recorded_tables(QUICK[0])
    tables = tables_of_batches(QUICK[0], recorded_batches(QUICK[0]), sample=HashSample(8, "c"))
    (coverage,), (of_all,) = tables["coverage"], whole["coverage"]
    assert 0 < coverage["dispatches"] < of_all["dispatches"] / 4
    assert whole["capacity"]
    assert not tables["capacity"]
    assert {row["scope"] for row in tables["blocking"]} <= {"hash"}
