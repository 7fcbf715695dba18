"""A checkpoint gives back what was known, and nothing but what classes declare, whatever its bytes are."""

import json
import pickle
import subprocess
import sys
import zlib
from functools import cache
from typing import Any

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from local_replay import AUTO_SPLIT, HIGH, LOW, LOWEST, SKEW_US, Log, chunks_of, named_in

from dispatch_audit.pipeline.assignment.selectors.factory import make_selector
from dispatch_audit.pipeline.checkpoint_objects import dumps, loads
from dispatch_audit.pipeline.contract.profile import SelectorKind, profile_for
from dispatch_audit.pipeline.errors import StateError
from dispatch_audit.pipeline.groups.replay_group import replay_group
from dispatch_audit.pipeline.packing.producer_summary import Producers
from dispatch_audit.pipeline.replay.checkpoint import (
    STATE_VERSION,
    GroupState,
    read_checkpoint,
    write_checkpoint,
)
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.subscription.completeness import RowsSeen
from dispatch_audit.pipeline.replay.subscription.range_ownership import RangeOwnership
from dispatch_audit.pipeline.replay.subscription.subscription import Subscription

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


def parts_of(payload: bytes) -> tuple[dict[str, Any], bytes]:
    """The head of a checkpoint, and its objects."""
    text, _, objects = zlib.decompress(payload[HEAD:]).partition(b"\n")
    return json.loads(text), objects


def payload_with(head: object, objects: bytes) -> bytes:
    return payload_of()[:HEAD] + zlib.compress(json.dumps(head).encode() + b"\n" + objects, 1)


def again(payload: bytes) -> bytes:
    """What is written of what was read."""
    return write_checkpoint(read_checkpoint(payload, config_of()), config_of())


def read_or_refused(payload: bytes) -> GroupState | None:
    """What was read; None: it was refused as it has to be."""
    try:
        return read_checkpoint(payload, config_of())
    except StateError as error:
        if error.way_out != REFUSED:
            raise
        return None


def test_what_is_read_is_what_was_written_and_writing_changes_nothing() -> None:
    known, other = (read_checkpoint(payload_of(), config_of()) for _ in range(2))
    payload = write_checkpoint(known, config_of())
    assert write_checkpoint(known, config_of()) == payload == write_checkpoint(other, config_of())
    assert write_checkpoint(read_checkpoint(payload, config_of()), config_of()) == payload


def test_a_group_of_which_nothing_is_known_has_a_checkpoint() -> None:
    config = config_of("3.0.7")
    known = GroupState(Subscription(config), RangeOwnership(), Producers(), RowsSeen(SKEW_US))
    payload = write_checkpoint(known, config)
    assert write_checkpoint(read_checkpoint(payload, config), config) == payload


@pytest.mark.parametrize("version", ["3.0.7", "4.0.0", "4.2.4"])
@pytest.mark.parametrize("kind", ["consistent_hashing", "auto_split", "exclusive"])
def test_every_selector_is_built_again(kind: SelectorKind, version: str) -> None:
    profile = profile_for(version, AUTO_SPLIT)
    selector = make_selector(kind, 100, profile)
    for consumer in range(30):
        selector.add(consumer, f"c{consumer % 20}", [(1000 * consumer, 1000 * consumer + 499)])
    selector.leave_open([(1, 2), (3, 4)])
    selector.remove(5)
    built = loads(dumps(selector, {}), {})
    for each in (selector, built):
        each.remove(7)
        each.add(40, "c7", [(500, 999)])
    assert type(built) is type(selector)
    assert built.ranges() == selector.ranges()
    assert built.state() == selector.state()
    assert built.disputed() == selector.disputed()


def test_the_configuration_is_not_part_of_a_checkpoint() -> None:
    head, objects = parts_of(payload_of())
    assert head == {"version": STATE_VERSION, "selector": None}
    assert b"skew_ms" not in objects, "the profile is said anew each time"


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
    assert known is None or write_checkpoint(known, config_of()) == again(payload_of())


@examples(100)
@given(st.data())
def test_a_part_of_a_checkpoint_or_more_than_one_is_refused(data: st.DataObject) -> None:
    payload = payload_of()
    assert read_or_refused(payload[: data.draw(st.integers(0, len(payload) - 1))]) is None
    assert read_or_refused(payload + data.draw(st.binary(min_size=1, max_size=20))) is None


@examples(150)
@given(st.integers(0, 1 << 30), st.binary(min_size=1, max_size=8))
def test_bytes_that_were_exchanged_on_purpose_build_nothing_else(at: int, instead: bytes) -> None:
    """After a valid checksum, so it may be another state."""
    head, objects = parts_of(payload_of())
    at %= len(objects)
    known = read_or_refused(payload_with(head, objects[:at] + instead + objects[at + len(instead) :]))
    assert known is None or type(known.subscription) is Subscription


def test_reading_knows_every_kind_without_another_import() -> None:
    """The classes that a replay is made of are imported with those that it begins with."""
    every = (
        "import pkgutil, importlib; import dispatch_audit.pipeline.replay as replay;"
        "[importlib.import_module(m.name) for m in pkgutil.walk_packages(replay.__path__, replay.__name__ + '.')];"
    )
    count = "from dispatch_audit.pipeline.replay.checkpoint import KINDS; print(*sorted(KINDS))"
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
    head, objects = parts_of(payload_of())
    with pytest.raises(StateError, match=f"of version {STATE_VERSION + 1}, not {STATE_VERSION}; {REFUSED}"):
        read_checkpoint(payload_with({**head, "version": STATE_VERSION + 1}, objects), config_of())


@pytest.mark.parametrize("objects", [b"", pickle.dumps(None), pickle.dumps((1, 2, 3, 4)), pickle.dumps(_Harmful())])
def test_other_objects_are_refused(objects: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    head, _ = parts_of(payload_of())
    assert read_or_refused(payload_with(head, objects)) is None
    assert capsys.readouterr().out == ""
