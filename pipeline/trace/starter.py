"""A small trace to start from when one writes traces by hand, or a recorder: it can be audited as it is."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.trace.manifest import FILE_NAME, TRACE_FORMAT

LOG_NAME: Final = "events.jsonl"
README_NAME: Final = "README.md"
_TOPIC: Final = "persistent://public/default/orders-partition-0"
_SUBSCRIPTION: Final = "billing"
# 2026-01-01 00:00:00 UTC.
_BEGIN_US: Final = 1_767_225_600_000_000
# Much longer than `recorder_skew_ms`, so that the audit knows who was connected at each row.
_STEP_US: Final = 100_000

_README: Final = """\
# A trace to start from

Three messages of two keys go to one consumer, which acknowledges them and leaves. Change the rows, and look at what an
audit makes of them:

    dispatch-audit validate . --show-rows 10
    dispatch-audit audit . --out ../tables

## trace.json

- `trace_format`: always 1.
- `pulsar_version`: of the recorded broker; it decides by which rules the trace is judged.
- `settings`: names of broker.conf and their values, where they differ from the defaults of the version.
- `complete_from_start`: whether the join of the first consumer is in the trace. If it is not, write `false`: else rows
  of consumers without a join are refused.

## events.jsonl

One JSON object a line. Each row has a `seq` of its own, which gives the order of the rows, and `ts_us`: microseconds
since 1970 UTC.

- `join`: a consumer connected. `consumer` is its number; a consumer that connects again gets another number.
- `publish`: an entry was stored at `ledger_id`, `entry_id`. `key_b64` is the key in base64; a row of a message without
  a key has `"key_source": "none"` instead. The row has no subscription.
- `dispatch`: the entry was sent to a consumer. If the recorder sees both, the decision has `"phase": "start"`, and the
  write to the connection `"phase": "end"`, each in a row of its own.
- `ack`: a consumer acknowledged `positions`.
- `redeliver`: a consumer gave `positions` back; an empty list is all that it held.
- `leave`: the consumer is gone.
- `stats`, `flow`, `reset`, `gap`, `settings`: docs/TRACE_FORMAT.md describes them, and every field.

docs/schema/ has JSON Schemas of both files: trace-1.schema.json and row-1.schema.json.

What goes wrong first: times in milliseconds; one `seq` for several rows; a consumer that never joined; keys that are
not in base64; several rows in one line. `validate` names file, line and reason of each.
"""


def write_starter(folder: Path, version: str) -> None:
    """Writes a trace with its explanation into a new folder.

    Args:
        folder: absent or empty.
        version: of the broker, for `trace.json`.

    Raises:
        UsageError: the folder has something in it, or cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty", "name a new folder")
        (folder / FILE_NAME).write_text(json.dumps(_manifest(version), indent=1) + "\n", encoding="utf-8")
        (folder / LOG_NAME).write_text("".join(json.dumps(row) + "\n" for row in _rows()), encoding="utf-8")
        (folder / README_NAME).write_text(_README, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}", "name another folder") from None


def _manifest(version: str) -> dict[str, Any]:
    return {
        "trace_format": TRACE_FORMAT,
        "pulsar_version": version,
        "settings": {},
        "complete_from_start": True,
        "note": f"written by hand; {README_NAME} explains it",
    }


def _rows() -> Iterator[dict[str, Any]]:
    """Yields the rows; each has the next seq and a time 0.1 s later."""
    for number, (event, columns) in enumerate(_events()):
        subscription = {} if event == "publish" else {"subscription": _SUBSCRIPTION}
        common = {"event": event, "seq": number + 1, "ts_us": _BEGIN_US + number * _STEP_US, "topic": _TOPIC}
        yield {**common, **subscription, **columns}


def _events() -> Iterator[tuple[str, dict[str, Any]]]:
    consumer = {"consumer": 1}
    yield "join", {**consumer, "consumer_name": "c1", "key_shared_mode": "AUTO_SPLIT"}
    for entry, key in enumerate(("order-42", "order-43", "order-42")):
        at = {"ledger_id": 7, "entry_id": entry}
        described = {**at, "batch_size": 1, "key_b64": base64.b64encode(key.encode()).decode()}
        yield "publish", described
        yield "dispatch", {**consumer, **described, "redelivery_count": 0}
        yield "ack", {**consumer, "ack_type": "individual", "positions": [at]}
    yield "leave", {**consumer, "reason": "close_consumer"}
