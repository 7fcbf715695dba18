"""The core is the same in the interpreter as compiled."""

import os
import subprocess
import sys
from pathlib import Path

from local_replay import AUTO_SPLIT, replayed
from test_core_against_simple import random_schedule

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]


def _replayed() -> bytes:
    # Findings of every rule, episodes with every end but a reset, ack sets, repeated sends and strangers.
    schedule = random_schedule(seed=3, length=250)
    return replayed(schedule.log.rows, settings=AUTO_SPLIT, rows_per_batch=40).bytes


def test_the_interpreter_gives_the_same_bytes_and_no_warnings() -> None:
    result = subprocess.run(
        [sys.executable, "-W", "error", __file__],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join((str(_ROOT), str(_HERE)))},
        capture_output=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr.decode()
    assert result.stdout == _replayed()


if __name__ == "__main__":
    import numba
    import numpy as np

    assert vars(numba.config)["DISABLE_JIT"]
    # An integer that overflows wraps in compiled code and warns here.
    np.seterr(all="raise")
    sys.stdout.buffer.write(_replayed())
