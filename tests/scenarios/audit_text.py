"""What an audit found, in a few lines that a script can hold: the rows of its tables in the field's words."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Row: TypeAlias = Mapping[str, Any]
Tables: TypeAlias = dict[str, list[dict[str, Any]]]

_FINDING = (
    *("sticky_hash", "ledger_id", "entry_id", "consumer", "other_consumer", "epoch", "known_bug", "permitted_by"),
    "detail",
)


def audit(tables: Tables, hashes: Mapping[int, str]) -> list[str]:
    """Findings, refused rows, draining and blocking.

    Args:
        tables: rows by the name of their table.
        hashes: what the script calls a sticky hash.
    """
    # Findings of one rule leave out columns that only those of another fill.
    found = [{**dict.fromkeys(_FINDING), **row} for row in tables.get("violations", ())]
    findings = sorted(found, key=lambda row: (row["seq"], row["rule"]))
    refused = sorted(tables.get("refused", ()), key=lambda row: int(row["seq"]))
    lines = [
        *(line for row in findings for line in _finding(row, hashes.get(row["sticky_hash"], "no key"))),
        *(f"refused seq {row['seq']}: {row['reason']}, {row['detail']}" for row in refused),
        *(_draining(row, hashes[row["sticky_hash"]]) for row in tables.get("draining", ())),
        *(line for row in tables.get("blocking", ()) for line in _blocking(row, hashes)),
    ]
    return lines or ["nothing found"]


def _finding(row: Row, sticky_hash: str) -> Iterator[str]:
    by = row["permitted_by"] and f"by {row['permitted_by']}"
    severity = " ".join(filter(None, (row["severity"], row["known_bug"], by)))
    detail = json.loads(row["detail"] or "{}")
    against = _label(row["other_consumer"])
    if "other_position" in detail:
        against += f" with {detail['other_position']}"
        against += f" (seq {detail['other_seq']})" if detail["other_seq"] is not None else ""
    marks = [word for word in ("draining", "same_key") if detail.get(word)] + [f"epoch {row['epoch']}"]
    if row["epoch"] is None:
        # Found by a snapshot, or by nothing being sent.
        entry = "" if row["ledger_id"] is None else f"{row['ledger_id']}:{row['entry_id']} "
        whose = "" if row["sticky_hash"] is None else f"of {sticky_hash} "
        yield f"{severity} {row['rule']}: {entry}{whose}to {_label(row['consumer'])} (seq {row['seq']})"
        yield f"  {row['explanation']}"
        return
    yield (
        f"{severity} {row['rule']}: {row['ledger_id']}:{row['entry_id']} of {sticky_hash} to "
        f"{_label(row['consumer'])} (seq {row['seq']}), against {against}; {', '.join(marks)}"
    )
    yield f"  {row['explanation']}"


def _draining(row: Row, sticky_hash: str) -> str:
    returned = "" if row["returned_seq"] is None else f", returned at seq {row['returned_seq']}"
    return (
        f"draining {sticky_hash}: {_label(row['holder'])} to {_label(row['new_owner'])}, "
        f"{row['entries_at_start']} held, {_lasted(row)}{returned}"
    )


def _blocking(row: Row, hashes: Mapping[int, str]) -> Iterator[str]:
    whose = hashes[row["sticky_hash"]] if row["scope"] == "hash" else row["scope"]
    waits = f"{_label(row['consumer'])} waits for {_label(row['blocking_consumer'])} ({row['cause']})"
    yield f"blocking {whose}: {waits}, {_lasted(row)}"
    yield f"  {row['explanation']}"


def epochs(tables: Tables) -> list[str]:
    """Each epoch with the number of hashes that its consumers own."""
    lines = []
    for number, first, to_seq, rows in _by_epoch(tables["assignments"]):
        owned = {_label(row["consumer"]): 0 for row in sorted(rows, key=lambda row: int(row["consumer"]))}
        for row in rows:
            owned[_label(row["consumer"])] += row["range_end"] - row["range_start"] + 1
        shares = ", ".join(f"{label} owns {hashes}" for label, hashes in owned.items())
        lasted = _lasted({"from_seq": first["from_seq"], "to_seq": to_seq})
        lines.append(f"epoch {number}: {first['change']}, {lasted}, {first['hashes_moved']} hashes moved; {shares}")
    return lines


def ranges(tables: Tables) -> list[str]:
    """Each range of each epoch; both ends are inclusive."""
    return [
        f"epoch {number}: {_label(row['consumer'])} {row['range_start']}-{row['range_end']}"
        for number, _, _, rows in _by_epoch(tables["assignments"])
        for row in sorted(rows, key=lambda row: int(row["range_start"]))
    ]


def _by_epoch(range_ownership: Sequence[Row]) -> Iterator[tuple[int, Row, int | None, list[Row]]]:
    """Each epoch that a range begins with: its number, such a row, after which seq it ended, and all of its rows."""
    for number in sorted({row["epoch"] for row in range_ownership}):
        going_on = (row for row in range_ownership if row["last_epoch"] is None or number <= row["last_epoch"])
        rows = [row for row in going_on if row["epoch"] <= number]
        ends = [row["to_seq"] for row in rows if row["last_epoch"] == number]
        ends += [row["from_seq"] for row in range_ownership if row["epoch"] == number + 1]
        yield number, next(row for row in rows if row["epoch"] == number), ends[0] if ends else None, rows


def consumers(tables: Tables) -> list[str]:
    """Each consumer with what it was sent and what its acknowledgements settled."""
    return [
        f"{_label(row['consumer'])} called {row['consumer_name']}: {row['dispatched']} dispatched, {row['acked']} acked"
        for row in tables["consumers"]
    ]


def capacity(tables: Tables) -> list[str]:
    """Each look at the replay queue with how far it is from the limit of look-ahead."""
    lines = []
    for row in tables.get("capacity", ()):
        size = f"{row['replay_size']} in replay" + ("" if row["replay_size_reported"] else " at least")
        left = "" if row["seconds_left"] is None else f", {row['seconds_left']:.3f} s left at this rate"
        lines.append(
            f"{row['consumers']} consumers, {size} of {row['look_ahead_limit']}, {row['headroom']} to go{left}; "
            f"{row['waiting']} wait"
        )
    return lines


def metrics(tables: Tables) -> list[str]:
    """Each rule with how often it was asked and what it found."""
    return [
        f"{row['rule']}: " + ", ".join(f"{row[name]} {name}" for name in ("checked", "violations", "permitted"))
        for row in tables["metrics"]
    ]


def _label(number: int | None) -> str:
    return "nobody" if number is None else f"c{number}"


def _lasted(row: Row) -> str:
    until = "on" if row["to_seq"] is None else f"to {row['to_seq']}"
    return f"seq {row['from_seq']} {until}" + (f" by {row['ended_by']}" if row.get("ended_by") else "")
