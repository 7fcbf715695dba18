"""The sticky key hash against Pulsar's own classes (golden data) and contract 1.6."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.udfs.sticky_key_hash import (
    HASH_RANGES,
    NONE_KEY,
    hash_keys,
    hash_range,
    key_ids,
    keyless_keys,
    murmur31,
    sticky_from_murmur,
    sticky_hash_udf,
    sticky_hashes,
)

DATA = Path(__file__).resolve().parents[1] / "data"

# contract 1.6: key, murmur, hash under consistent hashing, hash under auto-split and exclusive.
VECTORS = [
    ("", 0, 1, 1),
    ("a", 1009084850, 42456, 27058),
    ("key-0", 1664612543, 23544, 63679),
    ("key-1", 414258592, 11858, 5536),
    ("key-2", 1945654540, 51461, 21772),
    ("key-3", 2034982562, 55278, 24226),
    ("order-42", 1259446670, 60576, 41358),
    ("NONE_KEY", 504741539, 56505, 48803),
    ("producer-1-0", 664740111, 18607, 8463),
    ("äö", 1825177928, 28179, 328),
]


@pytest.fixture(scope="module")
def golden() -> pd.DataFrame:
    with (DATA / "golden" / "hashes.csv").open(newline="") as file:
        rows = pd.DataFrame(list(csv.DictReader(file)))
    rows["key"] = [bytes.fromhex(text) for text in rows["key_hex"]]
    return rows


@pytest.mark.parametrize(
    ("column", "selector"),
    [
        ("murmur3_31bit", "raw"),
        ("consistent_hash_sticky", "consistent_hashing"),
        ("auto_split_sticky", "auto_split"),
        ("exclusive_sticky", "exclusive"),
        ("classic_consistent_hash_sticky", "classic"),
    ],
)
def test_every_golden_key_hashes_as_the_broker_does(golden: pd.DataFrame, column: str, selector: str) -> None:
    assert len(golden) > 5_000
    np.testing.assert_array_equal(sticky_hashes(list(golden["key"]), selector), golden[column].astype("int64"))


def test_semantics_vectors() -> None:
    keys = [text.encode() for text, *_ in VECTORS]
    assert murmur31(keys).tolist() == [vector[1] for vector in VECTORS]
    assert sticky_hashes(keys, "consistent_hashing").tolist() == [vector[2] for vector in VECTORS]
    assert sticky_hashes(keys, "auto_split").tolist() == [vector[3] for vector in VECTORS]


def _keyless_cases() -> list[dict[str, object]]:
    cases: list[dict[str, object]] = json.loads((DATA / "golden" / "keyless.json").read_text())
    return cases


@pytest.mark.parametrize("case", _keyless_cases(), ids=lambda case: str(case["case"]))
def test_golden_sticky_keys(case: dict[str, object]) -> None:
    key = bytes.fromhex(str(case["sticky_key_hex"]))
    assert murmur31([key]).tolist() == [case["murmur3_31bit"]]
    assert sticky_hashes([key], "consistent_hashing").tolist() == [case["consistent_hash_sticky"]]
    assert sticky_hashes([key], "auto_split").tolist() == [case["auto_split_sticky"]]


def test_no_key_at_all_is_the_none_key_as_for_unreadable_metadata() -> None:
    unreadable = next(case for case in _keyless_cases() if "unparsable" in str(case["case"]))
    assert sticky_hashes([None], "consistent_hashing").tolist() == [unreadable["consistent_hash_sticky"]]
    murmur, key_id = hash_keys([None, NONE_KEY])
    assert murmur[0] == murmur[1]
    assert key_id[0] == key_id[1]


def test_keyless_messages_by_rule() -> None:
    keys = keyless_keys(["my-producer", None, "p"], [17, 1, None], "producer_sequence").to_pylist()
    assert keys == [b"my-producer-17", NONE_KEY, NONE_KEY]
    assert keyless_keys(["my-producer"], [17], "none_key").to_pylist() == [NONE_KEY]
    assert keyless_keys([], [], "producer_sequence").to_pylist() == []
    with pytest.raises(UsageError, match="keyless rule 'random'"):
        keyless_keys(["p"], [1], "random")


def test_every_kind_of_input_gives_the_same() -> None:
    keys = [b"a", None, b"", b"a", bytes(range(256))]
    expected = murmur31(keys).tolist()
    array = pa.array(keys, pa.binary())
    shapes = [
        array,
        array.cast(pa.large_binary()),
        array.dictionary_encode(),
        array.slice(0, 5),
        pa.chunked_array([array.slice(0, 2), array.slice(2)]),
        pd.Series(keys),
    ]
    for shape in shapes:
        assert murmur31(shape).tolist() == expected
    assert murmur31(array.slice(3)).tolist() == expected[3:]
    assert murmur31([]).tolist() == []
    assert murmur31(pa.chunked_array([], pa.binary())).tolist() == []


def test_keys_on_one_murmur_value_have_different_ids() -> None:
    keys = [f"key-{number}".encode() for number in range(200_000)]
    murmur, key_id = hash_keys(keys)
    assert len(np.unique(murmur)) < len(keys)
    assert len(np.unique(key_id)) == len(keys)


@given(st.lists(st.none() | st.binary(max_size=40), max_size=30))
def test_a_batch_hashes_as_its_keys_one_by_one(keys: list[bytes | None]) -> None:
    murmur, key_id = hash_keys(keys)
    assert murmur.tolist() == [int(murmur31([key])[0]) for key in keys] == murmur31(keys).tolist()
    assert key_id.tolist() == [int(key_ids([key])[0]) for key in keys] == key_ids(keys).tolist()


@given(st.lists(st.integers(0, 2**31 - 1), max_size=30), st.sampled_from(sorted(HASH_RANGES)))
def test_hashes_stay_inside_the_range(murmur: list[int], selector: str) -> None:
    hashes = sticky_from_murmur(np.array(murmur, dtype=np.int32), selector)
    target = hash_range(selector)
    assert all(target.first <= value <= target.last for value in hashes)
    if target.zero_means_unset:
        assert 0 not in hashes


def test_an_unknown_selector_is_a_usage_error() -> None:
    for refused in (
        lambda: sticky_hashes([b"a"], "jump"),
        lambda: sticky_from_murmur([1], "jump"),
        lambda: sticky_hash_udf("jump"),
    ):
        with pytest.raises(UsageError, match="no selector 'jump'"):
            refused()
