"""What a replay knows at the end of a window, as bytes from which the next window goes on.

It is a pickle, the only form in which everything that is open travels whole, and it is read as data: nothing is built
from it but classes of the replay and of numpy, so that whoever can write to the table of states can run nothing. What
the caller says anew each time, the rules, is not in it.
"""

import io
import pickle
import zlib
from typing import Any, Final, NamedTuple

from pipeline.errors import StateError
from pipeline.replay.subscription.completeness import RowsSeen
from pipeline.replay.subscription.config import ReplayConfig
from pipeline.replay.subscription.range_ownership import RangeOwnership
from pipeline.replay.subscription.subscription import Subscription
from pipeline.replay.traffic.producers import Producers

STATE_VERSION: Final = 3
"""Of the classes of the replay: raised with every change of what they keep."""

_WAY_OUT: Final = "audit the log from its beginning"
# Room that is free is most of a state, and all zeros or ones.
_LEVEL: Final = 1
_OWN: Final = ("pipeline.replay.", "pipeline.assignment.", "pipeline.contract.profile", "udfs.sticky_key_hash")
_OTHERS: Final = frozenset(
    {
        ("builtins", "int"),
        ("builtins", "list"),
        ("builtins", "set"),
        ("builtins", "frozenset"),
        ("collections", "Counter"),
        ("collections", "defaultdict"),
        ("collections", "deque"),
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy", "recarray"),
        ("numpy", "record"),
        ("numpy.rec", "recarray"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "scalar"),
        ("numpy._core.numeric", "_frombuffer"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy.core.multiarray", "scalar"),
        ("numpy.core.numeric", "_frombuffer"),
    }
)


class Known(NamedTuple):
    """What is known of one group.

    Attributes:
        replay: of its rows.
        range_ownership: of its ranges of hashes.
        senders: what was published.
        counted: the rows.
    """

    replay: Subscription
    range_ownership: RangeOwnership
    senders: Producers
    counted: RowsSeen


def saved(known: Known, rules: ReplayConfig) -> bytes:
    """What is known, without what it has told; `known` stays as it is."""
    of_now = _pickled(known, rules)
    copy: Known = _Unpickler(io.BytesIO(of_now), rules).load()
    copy.replay.forget()
    copy.senders.forget()
    copy.counted.forget()
    return zlib.compress(_pickled(copy, rules), _LEVEL)


def restored(payload: bytes, rules: ReplayConfig) -> Known:
    """What `saved` wrote.

    Args:
        payload: the bytes.
        rules: of the replay that goes on.

    Raises:
        StateError: it is something else, or was damaged.
    """
    try:
        known = _Unpickler(io.BytesIO(zlib.decompress(payload)), rules).load()
    # A damaged pickle raises whatever its bytes happen to ask for.
    except Exception as error:
        raise StateError(f"the state of the window before cannot be read: {error}", _WAY_OUT) from error
    if not isinstance(known, Known):
        raise StateError("the state of the window before is none", _WAY_OUT)
    return known


def _pickled(known: Known, rules: ReplayConfig) -> bytes:
    sink = io.BytesIO()
    _Pickler(sink, rules).dump(known)
    return sink.getvalue()


class _Pickler(pickle.Pickler):
    def __init__(self, sink: io.BytesIO, rules: ReplayConfig) -> None:
        super().__init__(sink, protocol=5)
        self._names = {id(rules): "rules", id(rules.profile): "profile"}

    def persistent_id(self, obj: Any) -> str | None:
        return self._names.get(id(obj))


class _Unpickler(pickle.Unpickler):
    def __init__(self, source: io.BytesIO, rules: ReplayConfig) -> None:
        super().__init__(source)
        self._named = {"rules": rules, "profile": rules.profile}

    def persistent_load(self, pid: str) -> Any:
        return self._named[pid]

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _OTHERS:
            return super().find_class(module, name)
        found = super().find_class(module, name) if module.startswith(_OWN) else None
        if isinstance(found, type):
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is nothing that a state is made of")
