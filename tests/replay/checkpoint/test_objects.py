"""What `dumps` writes, `loads` builds again: equal, of the same types, shared where it was shared, and nothing else."""

import os
import pickle
import subprocess
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from dispatch_audit.pipeline.checkpoint_objects import dumps, loads, version_of
from dispatch_audit.pipeline.checkpointed import KINDS, RECORDS, CheckpointKind, checkpointed, checkpointed_record
from dispatch_audit.pipeline.replay.state.kinds import ENTRY
from dispatch_audit.pipeline.replay.subscription.completeness import RowsSeen


class Point(NamedTuple):
    seq: int
    about: object


@dataclass(frozen=True)
class Range:
    first: object
    last: object

    @cached_property
    def both(self) -> tuple[object, object]:
        return self.first, self.last


class Node:
    __slots__ = ("following",)

    def __init__(self, following: object) -> None:
        self.following = following


class Stranger:
    pass


class Colour(IntEnum):
    RED = 1


RECORD = ENTRY.dtype
KINDS_HERE = (CheckpointKind("point", Point), CheckpointKind("range", Range), CheckpointKind("node", Node))


@pytest.fixture(scope="module", autouse=True)
def kinds_of_this_module() -> Iterator[None]:
    """The kinds are declared for as long as its tests run: whoever adds one changes the version of checkpoints."""
    KINDS.update({kind.name: kind for kind in KINDS_HERE})
    yield
    for kind in KINDS_HERE:
        del KINDS[kind.name]


def again(root: object, **given_objects: object) -> Any:
    return loads(dumps(root, given_objects), given_objects)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, and of the same types all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and bool(np.array_equal(one, other))
    if isinstance(one, (list, tuple, deque)):
        longest = getattr(one, "maxlen", None) == getattr(other, "maxlen", None)
        return longest and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        factory = getattr(one, "default_factory", None) is getattr(other, "default_factory", None)
        return factory and same(list(one), list(other)) and same(list(one.values()), list(other.values()))
    if isinstance(one, Range | Node):
        return same(CheckpointKind("", type(one)).values(one), CheckpointKind("", type(other)).values(other))
    return bool(one == other)


_HASHED = st.one_of(
    st.integers(), st.text(), st.none(), st.tuples(st.integers(), st.text()), st.builds(Point, st.integers(), st.none())
)
_VALUES = st.recursive(
    st.one_of(
        _HASHED,
        st.booleans(),
        st.floats(allow_nan=False),
        st.lists(st.builds(Point, st.integers(), st.tuples(st.integers(), st.booleans())), max_size=40),
        st.frozensets(st.integers(), max_size=40),
        st.sets(st.tuples(st.integers(), st.integers()), max_size=40),
        st.lists(st.integers(-128, 127), max_size=20).map(lambda v: np.array(v, dtype=np.int8)),
        st.integers(0, 20).map(lambda n: np.arange(n, dtype=np.int32)),
        st.integers(0, 20).map(lambda n: np.zeros(n, dtype=RECORD).view(np.recarray)),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=20),
        st.lists(inner, max_size=4).map(tuple),
        st.lists(inner, max_size=4).map(lambda items: deque(items, maxlen=4)),
        st.dictionaries(_HASHED, inner, max_size=20),
        st.dictionaries(st.text(), inner, max_size=4).map(lambda found: defaultdict(list, found)),
        st.dictionaries(st.text(), st.integers(), max_size=20).map(lambda found: defaultdict(int, found)),
        st.dictionaries(st.text(), st.integers(), max_size=20).map(Counter),
        st.builds(Point, inner, inner),
        st.builds(Range, inner, inner),
        st.builds(Node, inner),
    ),
    max_leaves=30,
)


@examples(300)
@given(_VALUES)
def test_what_is_written_is_built_again(value: object) -> None:
    assert same(again(value), value)


def test_what_is_shared_stays_shared_and_what_is_a_circle_stays_one() -> None:
    shared: dict[str, Any] = {"a": [1]}
    array = np.arange(3, dtype=np.int64)
    first = Node([shared, array])
    first.following = [first, shared, array, Node(shared)]
    built = again(first).following
    assert built[0].following is built
    assert built[1] is built[3].following
    twice = again([array, array])
    assert twice[0] is twice[1]


def test_arrays_are_copies_that_can_be_written_to() -> None:
    array = np.arange(10, dtype=np.int64)[::2]
    built = again(array)
    built[0] = 7
    assert array[0] == 0
    assert built.flags.c_contiguous


def test_records_are_read_by_name() -> None:
    (built,) = again([np.ones(2, dtype=RECORD)])
    assert built.ledger.tolist() == [1, 1]


def test_numbers_of_numpy_become_plain_ones() -> None:
    assert same(again([np.int64(3), np.bool_(True)]), [3, True])


def test_what_is_given_is_not_written() -> None:
    settings_of_now = Stranger()
    built = again([settings_of_now, [settings_of_now]], config=settings_of_now)
    assert built[0] is built[1][0] is settings_of_now


def test_cached_properties_are_not_written() -> None:
    looked_at = Range(1, 2)
    assert looked_at.both == (1, 2)
    assert "both" not in vars(again(looked_at))


def test_what_no_kind_names_is_not_written() -> None:
    matrix = np.zeros((2, 2), dtype=np.int64)
    strangers: list[object] = [Stranger(), Stranger, len, Colour.RED, 1j, OrderedDict(), defaultdict(dict)]
    for stranger in (*strangers, matrix, np.zeros(1), np.array([None]), np.zeros(1, dtype=[("a", np.int64)])):
        with pytest.raises(TypeError, match="a checkpoint holds no"):
            dumps([stranger], {})


def test_an_object_has_exactly_the_attributes_that_its_class_declares() -> None:
    more, fewer = Range(1, 2), Node(1)
    vars(more)["weight"] = 1
    del fewer.following
    for thing, named in ((more, "weight"), (fewer, "following")):
        with pytest.raises(TypeError, match=f"differ from those that its class declares: {named}"):
            dumps(thing, {})


class _Harmful:
    """Built again, it would run what it names."""

    def __init__(self, *call: object) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        function, *arguments = self.call
        return function, tuple(arguments)


@pytest.mark.parametrize(
    "call",
    [
        (print, "harm"),
        (os.system, "echo harm"),
        (subprocess.run, ["echo", "harm"]),
        (eval, "print('harm')"),
        (getattr, [], "append"),
        (__import__, "this"),
    ],
)
def test_reading_runs_nothing_that_bytes_name(call: tuple[Any, ...], capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(pickle.UnpicklingError, match="is no part of a checkpoint"):
        loads(pickle.dumps([_Harmful(*call)], protocol=5), {})
    assert capfd.readouterr().out == ""


def test_a_class_declares_the_fields_of_its_bases_too() -> None:
    class Leaf(Node):
        __slots__ = ("__dict__", "weight")

    assert CheckpointKind("leaf", Leaf).attributes == ("following", "weight")


def test_two_classes_have_no_kind_of_one_name() -> None:
    with pytest.raises(ValueError, match="RowsSeen is the kind rows_seen already"):
        checkpointed("rows_seen")(Node)
    assert KINDS["rows_seen"].of is RowsSeen


def test_two_kinds_of_records_have_no_one_name() -> None:
    with pytest.raises(ValueError, match="there are records entry already"):
        checkpointed_record("entry", RECORD)
    assert RECORDS["entry"] is ENTRY.dtype


def test_the_version_says_whether_the_same_is_declared() -> None:
    """In whichever order: engines import modules in different ones."""
    kinds = {kind.name: kind for kind in KINDS_HERE}
    version = version_of(kinds, {"entry": RECORD})
    assert version == version_of(dict(reversed(kinds.items())), {"entry": RECORD})
    others = [
        version_of({**kinds, "node": CheckpointKind("node", Point)}, {"entry": RECORD}),
        version_of({"range": kinds["range"]}, {"entry": RECORD}),
        version_of(kinds, {"entry": np.dtype([("ledger", np.int32)])}),
        version_of(kinds, {}),
    ]
    assert len({version, *others}) == 5
