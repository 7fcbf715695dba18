"""Writes a time line in the Trace Event Format, which the viewers of Perfetto and Chrome read.

A process is a subscription, a thread one of its tracks. The complete events of a thread must nest, because viewers
stack them like calls: slices that only overlap get threads of their own, with the name of the track and a number.
Source: "Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

from collections.abc import Iterator, Sequence
from itertools import count, groupby
from operator import attrgetter
from typing import Any

from dispatch_audit.pipeline.report.perfetto.tracks import Event, Process, Track

_Json = dict[str, Any]


def trace_events(events: Sequence[Event], left_out: Sequence[str]) -> Iterator[_Json]:
    """Yields the events of the file: the names of all processes and threads, and what lies on them.

    Args:
        events: in any order.
        left_out: what the limits left out of each run, in words; empty: nothing.
    """
    # One sequence of numbers for both: a thread with the number of its process counts as its main thread.
    numbers = count(1)
    for process, of_process in groupby(sorted(events, key=_order), key=lambda event: event.track.process):
        pid = next(numbers)
        yield from _process(process, pid, left_out[process.run])
        for track, of_track in groupby(of_process, key=attrgetter("track")):
            for place, lane in enumerate(_lanes(list(of_track)), start=1):
                tid = next(numbers)
                yield from _thread(track, place, pid, tid)
                yield from (_written(event, pid, tid) for event in lane)


def _order(event: Event) -> tuple[Track, int, int, str]:
    """By track and time; of slices that begin together, the longest first, in which the others nest."""
    return event.track, event.ts, -(event.dur or 0), event.name


def _lanes(events: Sequence[Event]) -> list[list[Event]]:
    """Returns the events of a track in lanes, in each of which the slices nest; instants are in the first."""
    lanes: list[list[Event]] = [[]]
    # The ends of the slices that are open in a lane, the innermost last.
    open_ends: list[list[int]] = [[]]
    for event in events:
        if event.dur is None:
            lanes[0].append(event)
            continue
        end = event.ts + event.dur
        for lane, ends in zip(lanes, open_ends, strict=True):
            while ends and ends[-1] <= event.ts:
                ends.pop()
            if not ends or end <= ends[-1]:
                lane.append(event)
                ends.append(end)
                break
        else:
            lanes.append([event])
            open_ends.append([end])
    return lanes


def _process(process: Process, pid: int, left_out: str) -> Iterator[_Json]:
    # The name of a process is no thread's, but each event of the file has a thread.
    yield _metadata("process_name", {"name": process.label}, pid, pid)
    yield _metadata("process_sort_index", {"sort_index": pid}, pid, pid)
    if left_out:
        yield _metadata("process_labels", {"labels": left_out}, pid, pid)


def _thread(track: Track, place: int, pid: int, tid: int) -> Iterator[_Json]:
    yield _metadata("thread_name", {"name": track.label if place == 1 else f"{track.label} ({place})"}, pid, tid)
    yield _metadata("thread_sort_index", {"sort_index": tid}, pid, tid)


def _metadata(name: str, args: _Json, pid: int, tid: int) -> _Json:
    return {"ph": "M", "name": name, "ts": 0, "pid": pid, "tid": tid, "args": args}


def _written(event: Event, pid: int, tid: int) -> _Json:
    args = {name: value for name, value in event.args.items() if value is not None}
    shape = {"ph": "i", "s": "t"} if event.dur is None else {"ph": "X", "dur": event.dur}
    of = {"name": event.name, "cat": event.category, "ts": event.ts, "pid": pid, "tid": tid, "args": args}
    return {**shape, **of}
