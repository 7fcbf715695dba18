"""Recordings that lie side by side: what the recorder in the broker wrote at each start, of one broker or of several.

A recorder makes a folder for each start of its broker in one directory, and each is a trace. A topic goes on after a
restart, or at another broker, so that the folders together are one trace (TRACE_FORMAT, "Several recorders"), as far as
their brokers had one release, the same settings and the same storage.
"""

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any, Final, NamedTuple

from dispatch_audit.pipeline.storage.store_path import any_path
from dispatch_audit.pipeline.trace.manifest import FILE_NAME, Manifest
from dispatch_audit.pipeline.trace.sources import SEPARATOR, Trace, files_of

_RECORDER: Final = "dispatch-audit-recorder"
# The name of a recorder: its broker's, and when that started.
_OF_START: Final = re.compile(r".+-\d{8}T\d{6}\.\d{3}Z")
# Topics that are in use show within so many rows.
_ROWS_LOOKED_AT: Final = 2_000


class _Published(NamedTuple):
    """The first publish of a topic in a recording."""

    ts_us: int
    ledger: int


def put_together(traces: Sequence[Trace]) -> list[Trace]:
    """Returns the traces, of which those that lie side by side and belong together are one, at the place of the first.

    Digests of keys may differ from start to start, so recordings that have them stay apart.
    """
    groups: dict[object, list[Trace]] = {}
    for number, trace in enumerate(traces):
        groups.setdefault(_belongs_to(trace) or number, []).append(trace)
    return [found for group in groups.values() for found in _of_one_storage(group)]


def _belongs_to(trace: Trace) -> object:
    """What recordings have in common that may be one trace; None: it is no recording of one start."""
    manifest, folder = trace.manifest, any_path(trace.path)
    is_start = manifest.recorder.name == _RECORDER and _OF_START.fullmatch(folder.name)
    if not is_start or manifest.keys_digested or not all(log.place and log.kind == "json" for log in trace.logs):
        return None
    claims = {"settings": dict(manifest.settings), "events": sorted(manifest.recorder.events)}
    return str(folder.parent), manifest.pulsar_version, json.dumps(claims, sort_keys=True)


def _of_one_storage(group: Sequence[Trace]) -> Iterable[Trace]:
    if len(group) == 1 or not _share_storage([_first_published(trace) for trace in group]):
        return group
    return [_one(group)]


def _one(group: Sequence[Trace]) -> Trace:
    folders = [any_path(trace.path) for trace in group]
    parent = folders[0].parent
    whole = {child for child in parent.iterdir() if (child / FILE_NAME).is_file()} == set(folders)
    path = str(parent) if whole else SEPARATOR.join(map(str, folders))
    logs = tuple(log for trace in group for log in trace.logs)
    return replace(group[0], manifest=_manifest_of(group), path=path, logs=logs)


def _manifest_of(group: Sequence[Trace]) -> Manifest:
    complete = all(trace.manifest.complete_from_start for trace in group)
    return group[0].manifest.model_copy(update={"complete_from_start": complete})


def _share_storage(recordings: Sequence[Mapping[str, _Published]]) -> bool:
    """Whether the brokers may have had one storage: a topic gets a higher ledger whenever a broker loads it again."""
    by_topic: dict[str, list[_Published]] = {}
    for topic, first in (found for of_recording in recordings for found in of_recording.items()):
        by_topic.setdefault(topic, []).append(first)
    return all(before.ledger < after.ledger for of in by_topic.values() for before, after in pairwise(sorted(of)))


def _first_published(trace: Trace) -> dict[str, _Published]:
    """The first publish of each topic among the first rows of a recording."""
    found: dict[str, _Published] = {}
    for row in _first_rows(trace):
        if row.get("event") == "publish":
            topic, ledger, ts_us = row.get("topic"), row.get("ledger_id"), row.get("ts_us")
            if isinstance(topic, str) and isinstance(ledger, int) and isinstance(ts_us, int):
                found.setdefault(topic, _Published(ts_us, ledger))
    return found


def _first_rows(trace: Trace) -> Iterator[dict[str, Any]]:
    """The first rows of a recording, as far as they can be read; whoever reads all of it says what is wrong."""
    for file in islice((file for log in trace.logs for file in files_of(log)), 1):
        try:
            with file.open("rb") as packed, gzip.open(packed) as lines:
                for line in islice(lines, _ROWS_LOOKED_AT):
                    row = json.loads(line)
                    if isinstance(row, dict):
                        yield row
        except (OSError, EOFError, zlib.error, ValueError):
            return
