"""The sizes that replay had in stalls: the same one again and again shows a look-ahead limit that no row names."""

from collections import deque
from typing import Final, NamedTuple

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked
from dispatch_audit.pipeline.replay.blocking.stalls.symptoms import NO_READ_PENDING, NOTHING_IS_READ

_UNREAD: Final = (NOTHING_IS_READ, NO_READ_PENDING)

ALIKE: Final = 0.2
"""A read may exceed the limit of replay by this share."""
_LEVELS_MAX: Final = 64


@checkpointed("replay_level")
class _Level(NamedTuple):
    """The size of replay in a stall in which nothing was read, and the first entry that could have been."""

    in_replay: int
    first_unread: tuple[int, int]


@checkpointed("replay_levels")
class ReplayLevels:
    """The sizes that replay had in stalls, which show a look-ahead limit that no row names."""

    __slots__ = ("_levels",)

    def __init__(self) -> None:
        self._levels: deque[_Level] = deque(maxlen=_LEVELS_MAX)

    def note(self, stall: Blocked) -> None:
        """Takes an unexplained stall."""
        level = _level(stall)
        if level is not None:
            self._levels.append(level)

    def is_usual(self, stall: Blocked) -> bool:
        """Whether replay was about as large in another stall, and the broker has read on in between."""
        level = _level(stall)
        return level is not None and any(
            other.first_unread != level.first_unread
            and abs(level.in_replay - other.in_replay) <= ALIKE * max(level.in_replay, other.in_replay)
            for other in self._levels
        )


def _level(stall: Blocked) -> _Level | None:
    size, roots = stall.detail["replay_size_reported"], stall.roots
    if not isinstance(size, int) or size <= 0 or not roots or stall.detail["symptom"] not in _UNREAD:
        return None
    return _Level(size, roots[0])
