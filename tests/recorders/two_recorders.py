"""A recorded trace as two brokers would have recorded it, had the topic moved between them at its unloads."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from local_replay import Columns

BROKERS: Final = ("broker-a", "broker-b")

_SEQS: Final = ("seq", "from_seq", "to_seq", "returned_seq")
_CONSUMERS: Final = ("consumer", "other_consumer", "blocking_consumer", "holder", "new_owner")


@dataclass(frozen=True)
class Divided:
    """The logs of two brokers.

    Attributes:
        logs: each with its own seqs, consumer numbers and clock.
        seqs: what the one recorder called a row, by broker and seq.
        consumers: what it called a consumer, by broker and number.
    """

    logs: list[list[Columns]]
    seqs: Mapping[tuple[str, int], int]
    consumers: Mapping[tuple[str, int], int]

    def as_one(self, row: Mapping[str, Any]) -> Columns:
        """A row of a table as the audit of the undivided trace would have it."""
        own = dict(row)
        broker = own.pop("broker", None)
        for names, was in ((_SEQS, self.seqs), (_CONSUMERS, self.consumers)):
            own |= {name: was[broker, own[name]] for name in names if broker and own.get(name) is not None}
        return own


def divided(logs: Sequence[Sequence[Columns]], shift_us: int) -> Divided:
    """The logs of two brokers between which a topic moves at the end of each of its unloads.

    Args:
        logs: of one recorder.
        shift_us: by how much the clock of the second broker is ahead.
    """
    rows = sorted((row for log in logs for row in log), key=lambda row: row["seq"])
    moves = [row["seq"] for row in rows if row["event"] == "reset" and row["phase"] == "end"]
    assert moves, "the topic was never unloaded"
    owner = {row["seq"]: sum(row["seq"] > move for move in moves) % 2 for row in rows}
    next_seq, next_number = [count(1), count(1)], [count(1), count(1)]
    own = {row["seq"]: next(next_seq[owner[row["seq"]]]) for row in rows}
    by = {
        row["consumer"]: owner[row["seq"]] for row in rows if row["event"] == "join" and row.get("consumer") is not None
    }
    number = {consumer: next(next_number[by[consumer]]) for consumer in sorted(by)}

    def snapshot(text: str, at: int) -> str:
        values = json.loads(text)
        for name in ("seq_begin", "seq_end"):
            values[name] = own[max(seq for seq in own if seq <= values[name] and owner[seq] == at)]
        for consumer in values["consumers"]:
            consumer["consumer"] = number[consumer["consumer"]]
        return json.dumps(values)

    made: list[list[Columns]] = []
    for log in logs:
        parts: tuple[list[Columns], list[Columns]] = ([], [])
        for row in log:
            at = owner[row["seq"]]
            new = {**row, "seq": own[row["seq"]], "broker": BROKERS[at], "ts_us": row["ts_us"] + at * shift_us}
            if row.get("consumer") is not None:
                assert by[row["consumer"]] == at, "no consumer outlives an unload"
                new["consumer"] = number[row["consumer"]]
            if row.get("snapshot") is not None:
                new["snapshot"] = snapshot(row["snapshot"], at)
            parts[at].append(new)
        made += parts
    return Divided(
        made,
        {(BROKERS[owner[seq]], new): seq for seq, new in own.items()},
        {(BROKERS[by[consumer]], new): consumer for consumer, new in number.items()},
    )
