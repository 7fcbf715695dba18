"""What the Trace Event Format asks of a file, as far as the viewers of Perfetto and Chrome depend on it.

Source: "Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
Perfetto's own reader is no package of a registry.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

_FIELDS = ("ph", "name", "ts", "pid", "tid")
_PHASES = {"X", "i", "M"}
_NAMES = ("process_name", "thread_name")


def broken_rules(document: Mapping[str, Any]) -> set[str]:
    """Returns the rules that a file breaks, a sentence each."""
    return set(_broken(document["traceEvents"]))


def _broken(events: list[Mapping[str, Any]]) -> Iterator[str]:
    if any(name not in event for event in events for name in _FIELDS):
        yield "an event lacks a field"
        return
    if any(event["ph"] not in _PHASES for event in events):
        yield "a phase is unknown"
    if any(type(event[name]) is not int or event[name] < 0 for event in events for name in ("ts", "pid", "tid")):
        yield "a number is none or below 0"
    if any(event["ph"] == "X" and (type(event.get("dur")) is not int or event["dur"] < 0) for event in events):
        yield "a complete event has no duration"
        return
    if any(event["ph"] == "i" and event.get("s") not in ("t", "p", "g") for event in events):
        yield "an instant has no scope"
    yield from _names(events)
    by_thread: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            by_thread[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    if not all(_nest(slices) for slices in by_thread.values()):
        yield "slices of a thread overlap without nesting"


def _names(events: list[Mapping[str, Any]]) -> Iterator[str]:
    given = Counter((e["name"], e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] in _NAMES)
    if any(times > 1 for times in given.values()):
        yield "a track has two names"
    if any(not e["args"].get("name") for e in events if e["ph"] == "M" and e["name"] in _NAMES):
        yield "a name is empty"
    used = [event for event in events if event["ph"] != "M"]
    processes = {pid for name, pid, _ in given if name == "process_name"}
    if any(e["pid"] not in processes or ("thread_name", e["pid"], e["tid"]) not in given for e in used):
        yield "a track has no name"


def _nest(slices: list[tuple[int, int]]) -> bool:
    open_ends: list[int] = []
    for begin, end in sorted(slices, key=lambda times: (times[0], -times[1])):
        while open_ends and open_ends[-1] <= begin:
            open_ends.pop()
        if open_ends and end > open_ends[-1]:
            return False
        open_ends.append(end)
    return True
