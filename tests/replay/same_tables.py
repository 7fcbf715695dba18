"""Compares the tables of all recordings row by row with those of an earlier commit, names, sentences and ids aside.

    python tests/replay/same_tables.py write FILE      # before a change that must change no finding
    python tests/replay/same_tables.py compare FILE    # after it; exit code 1 where a row differs

The file holds a digest of each row: `NAMES` says which tables, columns and values have got other names since it was
written, so that a renaming is no difference. Of sentences only their number is compared.
"""

import hashlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

sys.path[:0] = [str(Path(__file__).resolve().parents[up]) for up in (2, 1, 0)]

from local_replay import Columns, recorded_tables  # noqa: E402  (the path comes first)
from recorded import RECORDINGS  # noqa: E402  (the path comes first)

NAMES: Final[dict[str, str]] = {}
"""Today's names of tables, columns and values, by which the file knows them under another."""

_SENTENCES: Final = {"explanation": bool, "evidence": len, "undecided": bool, "what": bool, "why": len}
"""Columns of sentences, which may be worded anew, and what is compared of each."""

_ANSWERS: Final = (
    "dispatches",
    "dispatches_judged",
    "order_verdict",
    "progress",
    "held_up_seconds",
    "held_up_cause",
    "held_up_by",
    "expected_wait_seconds",
    "expected_wait_cause",
    "missing",
    "order_held_back",
    "progress_held_back",
)
_ASIDE: Final = (
    "finding_id",
    "against",
    "remedy",
    "gaps",
    "rows_dropped",
    "rows_censored_by_gaps",
    "first_gap_ts_us",
    *_ANSWERS,
)
"""Columns that follow from others of their row or from other rows, and those that say that a recording has no gaps."""

Digests = npt.NDArray[np.uint32]


def digests(name: str) -> dict[str, Digests]:
    """The sorted digests of all rows of a recording, by the file's name of the table."""
    return {
        f"{name}/{NAMES.get(table, table)}": np.sort(np.array([_digest(row) for row in rows], dtype=np.uint32))
        for table, rows in recorded_tables(name).items()
    }


def _digest(row: Columns) -> int:
    """The digest of a row; a column that is NULL is as none, so that a new one changes nothing before it has values."""
    compared = {
        name: _SENTENCES[name](value) if name in _SENTENCES and value else value
        for name, value in row.items()
        if name not in _ASIDE and value is not None
    }
    columns = _under_old_names(compared)
    text = json.dumps(columns, sort_keys=True, default=str)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little")


def _under_old_names(value: object) -> object:
    if isinstance(value, dict):
        return {NAMES.get(name, name): _under_old_names(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_under_old_names(part) for part in value]
    if isinstance(value, str):
        return NAMES.get(value, value)
    return value.item() if isinstance(value, np.generic) else value


def main(command: str, file: Path, *only: str) -> int:
    """Writes the file, or compares with it; returns the exit code."""
    names = only or sorted(folder.name for folder in RECORDINGS.iterdir() if folder.is_dir())
    now: dict[str, Digests] = {}
    for name in names:
        now.update(digests(name))
        print(name, flush=True)
    if command == "write":
        np.savez_compressed(file, **now)  # type: ignore[arg-type]  # its stub takes the arrays for allow_pickle
        return 0
    before = np.load(file)
    wanted = {key for key in before.files if key.split("/")[0] in names}
    differing = 0
    for key in sorted(wanted | set(now)):
        none = np.zeros(0, dtype=np.uint32)
        then, today = Counter(before[key] if key in before.files else none), Counter(now.get(key, none))
        gone, new = (then - today).total(), (today - then).total()
        differing += gone + new
        if gone or new:
            print(f"{key}: {gone} rows are gone, {new} are new")
    print(f"{sum(rows.size for rows in now.values())} rows in {len(now)} tables compared: {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("write", "compare"):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]))
