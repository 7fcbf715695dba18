"""A recorded trace as two brokers would have recorded it, had the topic moved between them at its resets."""

from collections.abc import Sequence
from itertools import count

import json
from typing import Final

from local_replay import Columns

BROKERS: Final = ("broker-a", "broker-b")


def divided(
    logs: Sequence[Sequence[Columns]], moments: Sequence[int], shift_us: int
) -> tuple[list[list[Columns]], dict[tuple[str, int], int], dict[tuple[str, int], int]]:
    """The logs of two brokers, each with its own seqs, consumer numbers and clock.

    Args:
        logs: of one recorder.
        moments: seqs of the rows with which the topic comes to the other broker.
        shift_us: by how much the clock of the second broker is ahead.

    Returns:
        The logs, and by broker and number the seqs and consumers as the one recorder numbered them.
    """
    rows = sorted((row for log in logs for row in log), key=lambda row: row["seq"])
    owner = {row["seq"]: sum(row["seq"] >= moment for moment in moments) % 2 for row in rows}
    next_seq = [count(1), count(1)]
    own = {row["seq"]: next(next_seq[owner[row["seq"]]]) for row in rows}
    joins = {
        row["consumer"]: owner[row["seq"]]
        for row in reversed(rows)
        if row["event"] == "join" and row.get("consumer") is not None
    }
    numbers: dict[int, int] = {}
    next_number = [count(1), count(1)]
    for consumer in sorted(joins):
        numbers[consumer] = next(next_number[joins[consumer]])
    seqs = sorted(own)
    made = []
    for log in logs:
        parts: tuple[list[Columns], list[Columns]] = ([], [])
        for row in log:
            # What is about a consumer comes from the broker that it was connected to, however late.
            by = joins.get(row.get("consumer"), owner[row["seq"]])
            new = {**row, "seq": own[row["seq"]], "broker": BROKERS[by], "ts_us": row["ts_us"] + by * shift_us}
            assert by == owner[row["seq"]], row
            if row.get("consumer") is not None:
                new["consumer"] = numbers[row["consumer"]]
            if row.get("snapshot") is not None:
                told = json.loads(row["snapshot"])
                for name in ("seq_begin", "seq_end"):
                    near = max((seq for seq in seqs if seq <= told[name] and owner[seq] == by), default=0)
                    told[name] = own.get(near, 0)
                for consumer in told["consumers"]:
                    consumer["consumer"] = numbers[consumer["consumer"]]
                new["snapshot"] = json.dumps(told)
            parts[by].append(new)
        made += parts
    was_seq = {(BROKERS[owner[seq]], new): seq for seq, new in own.items()}
    was_number = {(BROKERS[joins[number]], new): number for number, new in numbers.items()}
    return made, was_seq, was_number
