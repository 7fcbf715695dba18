"""A checkpoint gives back what was known, and nothing but what classes declare, whatever its bytes are."""

import json
import pickle
import subprocess
import sys
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from local_replay import AUTO_SPLIT, HIGH, LOW, LOWEST, SKEW_US, Log, chunks_of, named_in

from dispatch_audit.pipeline.assignment.selectors.factory import make_selector
from dispatch_audit.pipeline.contract.profile import SelectorKind, profile_for
from dispatch_audit.pipeline.errors import StateError
from dispatch_audit.pipeline.replay.checkpoint.checkpoint import (
    SCHEMA,
    STATE_VERSION,
    GroupState,
    read_checkpoint,
    write_checkpoint,
)
from dispatch_audit.pipeline.replay.checkpoint.codec import decode, encode
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.replay_group import replay_group
from dispatch_audit.pipeline.replay.subscription.completeness import RowsSeen
from dispatch_audit.pipeline.replay.subscription.range_ownership import RangeOwnership
from dispatch_audit.pipeline.replay.subscription.subscription import Subscription
from dispatch_audit.pipeline.replay.traffic.producers import Producers

HEAD = len(b"dispatch-audit checkpoint\n")
REFUSED = "audit the log from its beginning"


@cache
def config_of(version: str = "4.0.8") -> ReplayConfig:
    return ReplayConfig(
        profile_for(version, AUTO_SPLIT), version, AUTO_SPLIT, SKEW_US, 1_000_000, unsettled_us=2_000_000
    )


@cache
def payload_of() -> bytes:
    """The state of a subscription of which much is open: held rows, brackets, a snapshot, draining, findings."""
    log = Log()
    log.join(1)
    for entry, key in enumerate([LOW, LOWEST, HIGH] * 20):
        log.publish(entry, key)
        log.dispatch(1, entry, key)
    log.join(2)
    for entry in range(60, 80):
        log.publish(entry, LOWEST)
        log.dispatch(1, entry, LOWEST)
    consumers = [{"consumer": 1, "key_hash_ranges": [[0, 65536]], "unacked_messages": 3, "available_permits": 0}]
    log.write("stats", snapshot=json.dumps({"msg_in_replay": 1, "consumers": consumers}))
    log.ack(1, 0)
    log.now_us += 5_000_000
    log.join(3, phases="start")
    log.leave(1, phases="start")
    log.publish(80, LOW)
    (group,) = named_in([log.rows])
    chunks = chunks_of([log.rows], config_of())[group]
    found = dict(replay_group(group, chunks, config_of(), 0, keep_state=True))
    payload: bytes = found["state"]["payload"][0]
    return payload


def raw_of(payload: bytes) -> bytes:
    return zlib.decompress(payload[HEAD:])


def document_of(payload: bytes) -> tuple[dict[str, Any], bytes]:
    raw = raw_of(payload)
    end = 8 + int.from_bytes(raw[:8], "little")
    return json.loads(raw[8:end]), raw[end:]


def payload_with(document: Any, arrays: bytes) -> bytes:
    text = json.dumps(document).encode()
    return payload_of()[:HEAD] + zlib.compress(len(text).to_bytes(8, "little") + text + arrays, 1)


def read_or_refused(payload: bytes) -> GroupState | None:
    """What was read; None: it was refused as it has to be."""
    try:
        return read_checkpoint(payload, config_of())
    except StateError as error:
        if error.way_out != REFUSED:
            raise
        return None


def is_as_in(known: GroupState, payload: bytes, config: ReplayConfig) -> bool:
    """Whether that is known which a checkpoint holds, to the last attribute and byte."""
    document, arrays = encode(tuple(known), SCHEMA, {"config": config, "profile": config.profile})
    written, rest = document_of(payload)
    of_now = {"version": STATE_VERSION, "selector": None, **json.loads(json.dumps(document))}
    return bool(of_now == written) and b"".join(array.tobytes() for array in arrays) == rest


def test_what_is_read_is_what_was_written() -> None:
    known = read_checkpoint(payload_of(), config_of())
    assert is_as_in(known, payload_of(), config_of())


def test_equal_states_have_equal_bytes_and_writing_changes_none() -> None:
    known, other = (read_checkpoint(payload_of(), config_of()) for _ in range(2))
    payload = write_checkpoint(known, config_of())
    assert write_checkpoint(known, config_of()) == payload == write_checkpoint(other, config_of())
    assert is_as_in(known, payload_of(), config_of())


def test_a_group_of_which_nothing_is_known_has_a_checkpoint() -> None:
    config = config_of("3.0.7")
    known = GroupState(Subscription(config), RangeOwnership(), Producers(), RowsSeen(SKEW_US))
    payload = write_checkpoint(known, config)
    assert is_as_in(read_checkpoint(payload, config), payload, config)


@pytest.mark.parametrize("version", ["3.0.7", "4.0.0", "4.2.4"])
@pytest.mark.parametrize("kind", ["consistent_hashing", "auto_split", "exclusive"])
def test_every_selector_is_built_again(kind: SelectorKind, version: str) -> None:
    profile = profile_for(version, AUTO_SPLIT)
    selector = make_selector(kind, 100, profile)
    for consumer in range(30):
        selector.add(consumer, f"c{consumer % 20}", [(1000 * consumer, 1000 * consumer + 499)])
    selector.leave_open([(1, 2), (3, 4)])
    selector.remove(5)
    built = decode(encode(selector, SCHEMA, {}), SCHEMA, {})
    for each in (selector, built):
        each.remove(7)
        each.add(40, "c7", [(500, 999)])
    assert type(built) is type(selector)
    assert built.ranges() == selector.ranges()
    assert built.state() == selector.state()
    assert built.disputed() == selector.disputed()


def test_a_checkpoint_names_kinds_and_fields_and_no_module() -> None:
    document, _ = document_of(payload_of())
    assert document["version"] == STATE_VERSION
    assert document["kinds"]["trace_point"] == ["seq", "ts_us"]
    assert ["ledger", "<i8"] in document["records"]["entry"]
    assert b"pipeline" not in raw_of(payload_of())
    assert b"skew_ms" not in raw_of(payload_of()), "the profile is said anew each time"


def test_objects_that_belong_together_still_do() -> None:
    known: Any = read_checkpoint(payload_of(), config_of())
    replay = known.subscription
    assert replay.loop.membership._changes._held is replay.loop.membership._held
    assert replay.config is config_of()
    leave = next(bracket for bracket in replay.loop.membership._changes.brackets.open if bracket.row.kind == "leave")
    assert leave.join.leave is leave
    assert replay.loop.dispatcher._state.entries.flags.writeable


@examples(150)
@given(st.data())
def test_a_flipped_bit_is_refused_or_changes_nothing(data: st.DataObject) -> None:
    payload = bytearray(payload_of())
    payload[data.draw(st.integers(0, len(payload) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    known = read_or_refused(bytes(payload))
    assert known is None or is_as_in(known, payload_of(), config_of())


@examples(100)
@given(st.data())
def test_a_part_of_a_checkpoint_or_more_than_one_is_refused(data: st.DataObject) -> None:
    payload = payload_of()
    assert read_or_refused(payload[: data.draw(st.integers(0, len(payload) - 1))]) is None
    assert read_or_refused(payload + data.draw(st.binary(min_size=1, max_size=20))) is None


@examples(100)
@given(st.integers(0, 1 << 30), st.binary(min_size=1, max_size=8))
def test_bytes_that_were_exchanged_on_purpose_build_nothing_else(at: int, instead: bytes) -> None:
    """After a valid checksum, so it may be another state."""
    raw = bytearray(raw_of(payload_of()))
    end = 8 + int.from_bytes(raw[:8], "little")
    at %= end
    raw[at : at + len(instead)] = instead
    known = read_or_refused(payload_of()[:HEAD] + zlib.compress(bytes(raw), 1))
    assert known is None or type(known.subscription) is Subscription


VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        -1,
        2**70,
        0.5,
        "text",
        [],
        {},
        ["list", []],
        {"list": []},
        {"list": [[[]]]},
        {"list": 3},
        {"tuple": {"ints": 0}},
        {"array": 10**9},
        {"array": 0},
        {"same": 0},
        {"same": -1},
        {"same": 10**6},
        {"given": "config"},
        {"given": "nothing"},
        {"deque": [[], -1]},
        {"dict": [[{"list": []}], [1]]},
        {"dict": [[1, 2], [1]]},
        {"set": [{"set": []}]},
        {"subscription": []},
        {"trace_point": [1]},
        {"rows": "tuple", "columns": [[1], [1, 2]]},
        {"rows": "subscription", "columns": []},
        {"os.system": ["true"]},
        {"list": [], "tuple": []},
    ]
)


def _places_in(value: Any) -> list[Callable[[Any], None]]:
    """For each value within a document what puts another one there."""
    found: list[Callable[[Any], None]] = []
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        found.append(lambda new, key=key: value.__setitem__(key, new))  # type: ignore[misc]  # mypy infers no type of a lambda with a default
        found += _places_in(value[key])
    return found


@examples(150)
@given(st.data(), VALUES)
def test_a_document_with_another_value_builds_nothing_else(data: st.DataObject, value: Any) -> None:
    document, arrays = document_of(payload_of())
    places = _places_in(document)
    places[data.draw(st.integers(0, len(places) - 1))](value)
    known = read_or_refused(payload_with(document, arrays))
    assert known is None or type(known.subscription) is Subscription


def test_values_within_each_other_without_end_are_refused() -> None:
    document, arrays = document_of(payload_of())
    for _ in range(400):
        document["root"] = {"list": [document["root"]]}
    assert read_or_refused(payload_with(document, arrays)) is None
    text = b'{"version":%d,"root":' % STATE_VERSION + b"[" * 200_000
    assert read_or_refused(payload_of()[:HEAD] + zlib.compress(len(text).to_bytes(8, "little") + text)) is None


def test_reading_knows_every_kind_without_another_import() -> None:
    """The classes that a replay is made of are imported with those that it begins with."""
    every = (
        "import pkgutil, importlib; import dispatch_audit.pipeline.replay as replay;"
        "[importlib.import_module(m.name) for m in pkgutil.walk_packages(replay.__path__, replay.__name__ + '.')];"
    )
    count = "from dispatch_audit.pipeline.replay.checkpoint.checkpoint import SCHEMA; print(*sorted(SCHEMA.kinds))"
    few, all_of_them = (
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
        for code in (count, every + count)
    )
    assert few == all_of_them


class _Harmful:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (print, ("harm",))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"nothing",
        b"dispatch-audit checkpoint\n",
        zlib.compress(b"nothing"),
        zlib.compress(pickle.dumps([1])),
        pickle.dumps(_Harmful()),
        b"dispatch-audit checkpoint\n" + zlib.compress(pickle.dumps(_Harmful())),
    ],
)
def test_what_is_no_checkpoint_is_refused(payload: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(StateError, match=REFUSED):
        read_checkpoint(payload, config_of())
    assert capsys.readouterr().out == ""


def test_a_pickle_of_the_version_before_is_refused() -> None:
    with pytest.raises(StateError, match=f"no checkpoint, or one of an older version; {REFUSED}"):
        read_checkpoint(zlib.compress(pickle.dumps(_Harmful(), protocol=5), 1), config_of())


def test_a_checkpoint_of_another_version_is_refused() -> None:
    document, arrays = document_of(payload_of())
    with pytest.raises(StateError, match=f"of version {STATE_VERSION + 1}, not {STATE_VERSION}; {REFUSED}"):
        read_checkpoint(payload_with({**document, "version": STATE_VERSION + 1}, arrays), config_of())


@pytest.mark.heavy
@pytest.mark.parametrize("part", ["kinds", "records"])
def test_a_checkpoint_of_other_attributes_or_fields_is_refused(part: str) -> None:
    document, arrays = document_of(payload_of())
    for name in document[part]:
        others, _ = document_of(payload_of())
        others[part][name].pop()
        with pytest.raises(StateError, match=f"{name} has other"):
            read_checkpoint(payload_with(others, arrays), config_of())


@pytest.mark.heavy
def test_arrays_that_are_shorter_or_longer_than_they_should_be_are_refused() -> None:
    document, arrays = document_of(payload_of())
    document["arrays"][0][1] = 10**15
    assert read_or_refused(payload_with(document, arrays)) is None
    document, _ = document_of(payload_of())
    for number, (name, size) in enumerate(document["arrays"][:20]):
        for other in (size + 1, -1, True):
            document["arrays"][number] = [name, other]
            assert read_or_refused(payload_with(document, arrays)) is None
        document["arrays"][number] = [name, size]
    assert read_or_refused(payload_with(document, arrays + b"\0")) is None
    assert read_or_refused(payload_with(document, arrays)) is not None
