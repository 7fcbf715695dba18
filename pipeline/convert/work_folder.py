"""The hidden folder beside a target in which a conversion is made until it is whole.

What a killed conversion leaves there is dropped by the next one to the same target. A lock, which ends with its
process, shows whether one is running.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dispatch_audit.pipeline.errors import UsageError

_MADE: Final = "made"
_LOCK: Final = "lock"
_EARLIER: Final = "earlier"


@contextmanager
def work_folder(target: Path) -> Iterator[Path]:
    """Yields an empty folder for what becomes `target`, and drops everything that was not moved there.

    Raises:
        UsageError: another conversion to the target is running, or nothing can be written beside it.
    """
    work = target.parent / f".{target.name}.converting"
    try:
        work.mkdir(parents=True, exist_ok=True)
        lock = os.open(work / _LOCK, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise UsageError(f"cannot write beside {target}: {error.strerror}", "choose another --to") from None
    try:
        _take(lock, work, target)
        if (work / _EARLIER).exists() and not target.exists():
            # One that was killed between the two steps of `put_in_place`.
            (work / _EARLIER).rename(target)
        for left in work.iterdir():
            if left.name != _LOCK:
                shutil.rmtree(left)
        made = work / _MADE
        made.mkdir()
        try:
            yield made
        finally:
            shutil.rmtree(work, ignore_errors=True)
    finally:
        os.close(lock)


def _take(lock: int, work: Path, target: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The one that held it may have ended and dropped the folder in between.
        is_there = os.path.samestat(os.fstat(lock), (work / _LOCK).stat())
    except OSError:
        is_there = False
    if not is_there:
        raise UsageError(f"another conversion to {target} is running", "wait for its end")


def put_in_place(made: Path, target: Path) -> None:
    """Moves what was made to the target; an earlier one is dropped.

    Args:
        made: the folder that `work_folder` yielded.
        target: absent, empty, or the folder that is replaced.
    """
    if target.exists() and any(target.iterdir()):
        target.rename(made.with_name(_EARLIER))
    # One step, so that a target that is there is whole.
    made.rename(target)
