"""The different keys of rows, as workers pass them on."""

import pyarrow as pa
import pytest

from dispatch_audit.pipeline.packing import distinct_keys
from dispatch_audit.pipeline.packing.distinct_keys import DistinctKeys, keys_by_id
from dispatch_audit.udfs.sticky_key_hash import key_ids

KEYS = [b"a", b"", b"\xff", b"a", None]


@pytest.mark.parametrize("encoded", [False, True])
def test_each_key_is_passed_on_once_and_found_by_its_id(encoded: bool) -> None:
    column = pa.array(KEYS, pa.binary())
    column = column.dictionary_encode() if encoded else column
    keys = DistinctKeys()
    keys.add(column)
    keys.add(column)
    first = keys.take()
    assert first is not None
    assert keys.take() is None, "nothing is new"
    keys.add(pa.array([b"a", b"b"], pa.binary()))
    second = keys.take()
    assert second is not None
    ids = dict(zip((b"a", b"", b"\xff", b"b"), key_ids([b"a", b"", b"\xff", b"b"]).tolist(), strict=True))
    assert keys_by_id([first], set(ids.values())) == {ids[key]: key for key in (b"a", b"", b"\xff")}
    assert keys_by_id([first, second], {ids[b"b"], 17}) == {ids[b"b"]: b"b"}


def test_a_key_that_only_the_dictionary_has_is_not_passed_on() -> None:
    keys = DistinctKeys()
    keys.add(pa.DictionaryArray.from_arrays(pa.array([1, 1]), pa.array([b"unused", b"used"])))
    payload = keys.take()
    assert payload is not None
    assert list(keys_by_id([payload], set(key_ids([b"unused", b"used"]).tolist())).values()) == [b"used"]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distinct_keys, "_BYTES_MAX", 1_000)
    keys = DistinctKeys()
    keys.add(pa.array([b"%d" % number for number in range(20)], pa.binary()))
    assert keys.is_full
    assert keys.take() is not None
    assert not keys.is_full
    keys.add(pa.array([b"1"], pa.binary()))
    assert keys.take() is not None, "a forgotten key comes again"
