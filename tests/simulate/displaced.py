"""Simulated rows in the order in which a recorder's hooks would have written them.

A simulation writes each row at the moment of its event. The hooks of a broker do not (contract 10): a command is seen
before the broker acts on it and its end later, `messageProduced` runs on another thread, and a dispatch ends when it is
written to the connection. So rows move, by less than a message travels between broker and client: an acknowledgement
stays after what it acknowledges.
"""

import json
from collections.abc import Mapping
from random import Random
from typing import Any, Final

import pyarrow as pa

_BEGINS_EARLY: Final = ("ack", "join", "leave")
_ENDS_LATE: Final = ("ack", "join", "leave", "dispatch")
_OF_CLIENTS: Final = ("ack", "join", "leave", "redeliver")


def displaced(simulated: pa.Table, rng: Random, most_us: float, flows: bool = False) -> pa.RecordBatch:
    """The rows of a simulation as recorded, renumbered and without those that no hook sees.

    Args:
        simulated: all rows, in their order.
        rng: decides which rows move, and how far.
        most_us: none moves as far as that.
        flows: whether the recorder sees the commands that grant permits.
    """
    rows = [row for row in simulated.to_pylist() if flows or row["event"] != "flow"]
    moments: list[float] = []
    latest: dict[int, float] = {}
    for number, row in enumerate(rows):
        moment = row["ts_us"] + number * 1e-6 + rng.choice((0, rng.uniform(0, most_us))) * _direction(row)
        client, begins = row["consumer"], row["phase"] != "end"
        if client is not None and begins:
            # The commands of a client come in their order, and none before what it answers.
            if row["event"] in _OF_CLIENTS:
                moment = max(moment, latest.get(client, 0) + 1e-7)
            latest[client] = max(moment, latest.get(client, 0))
        moments.append(moment)
    order = sorted(range(len(rows)), key=moments.__getitem__)
    moved = {rows[at]["seq"]: seq for seq, at in enumerate(order, 1)}
    recorded = [_recorded(rows[at], seq, int(max(moments[at], 0)), moved) for seq, at in enumerate(order, 1)]
    return pa.RecordBatch.from_pylist(recorded, schema=simulated.schema)


def _direction(row: Mapping[str, Any]) -> int:
    if row["phase"] == "end":
        return int(row["event"] in _ENDS_LATE)
    if row["event"] == "publish":
        return 1
    return -int(row["event"] in _BEGINS_EARLY and row["phase"] == "start")


def _recorded(row: Mapping[str, Any], seq: int, ts_us: int, moved: Mapping[int, int]) -> dict[str, Any]:
    recorded: dict[str, Any] = {**row, "seq": seq, "ts_us": ts_us}
    if row["seq_begin"] is not None:
        # A row that moved to an earlier place has moved past others that were there when the recorder looked.
        known = (moved[number] for number in range(row["seq_begin"], 0, -1) if number in moved)
        recorded["seq_begin"] = min(next(known, 0), seq - 1)
    if row.get("snapshot") is not None:
        recorded["snapshot"] = json.dumps({**json.loads(row["snapshot"]), "seq_begin": seq, "seq_end": seq})
    return recorded
