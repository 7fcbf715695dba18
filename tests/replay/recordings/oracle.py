"""What the broker itself knew, from a recording's oracle log: the truth that draining and epochs are held against."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from recorded import rows_in

Row = dict[str, Any]


@dataclass
class Drained:
    """A hash that began to drain.

    Attributes:
        topic: of the partition.
        hash: the broker's sticky hash.
        holder: consumer that still held entries of it.
        entries: how many.
        change: the membership change, as (operation, consumer).
        seq: when it happened.
        ended: seq at which the holder's last entry of the hash was given up; None while some are held.
    """

    topic: str
    hash: int
    holder: int
    entries: int
    change: tuple[str, int]
    seq: int
    ended: int | None = None


# Tests of one recording run one after the other (conftest).
@lru_cache(maxsize=1)
def oracle_rows(folder: Path) -> list[Row]:
    """The oracle log in the order of seq; nobody may change it."""
    return sorted(rows_in(folder / "oracle.jsonl.gz"), key=lambda row: row["seq"])


def membership_changes(rows: list[Row]) -> list[Row]:
    """Every change of the assignment; after an unload the new dispatcher is seen first by a snapshot of it."""
    return [row for row in rows if row["ev"] == "assign"]


def drained(rows: list[Row]) -> list[Drained]:
    """The draining hashes, from the exact pending acks: what `expect.json` counts."""
    pending: dict[tuple[str, int], dict[tuple[int, int], int]] = defaultdict(dict)
    open_: dict[tuple[str, int, int], Drained] = {}
    found: list[Drained] = []
    for row in rows:
        of_consumer = (row.get("topic", ""), row.get("ci", -1))
        if row["ev"] == "pending_add":
            pending[of_consumer][row["ledger_id"], row["entry_id"]] = row["hash"]
        elif row["ev"] == "pending_remove":
            sticky_hash = pending[of_consumer].pop((row["ledger_id"], row["entry_id"]), -1)
            key = (*of_consumer, sticky_hash)
            if key in open_ and sticky_hash not in pending[of_consumer].values():
                open_.pop(key).ended = row["seq"]
        elif row["ev"] == "assign":
            for impacted in row.get("impacted_removed") or []:
                if impacted["ci"] == row["ci"] and row["op"] == "remove":
                    continue  # the leaver's entries go to replay
                holder = (row["topic"], impacted["ci"])
                moved = Counter(h for h in pending[holder].values() if any(a <= h <= b for a, b in impacted["r"]))
                for sticky_hash, entries in moved.items():
                    key = (*holder, sticky_hash)
                    if key not in open_:
                        change = (row["op"], row["ci"])
                        open_[key] = Drained(row["topic"], sticky_hash, impacted["ci"], entries, change, row["seq"])
                        found.append(open_[key])
    return found
