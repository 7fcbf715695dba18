"""The recorded traces, and which of them `make unit` replays."""

import gzip
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from dispatch_audit.pipeline.contract.profile import profile_for

RECORDINGS: Final = Path(__file__).resolve().parent / "data" / "traces"
"""Recordings of real brokers, a folder each; its README says what happened in which."""

ALL: Final = sorted(path.name for path in RECORDINGS.iterdir() if path.is_dir())


def of_each(names: Iterable[str], one_in: int = 1) -> pytest.MarkDecorator:
    """Runs a test once for each recording as its `name`; `make unit` runs it for the smallest of each dispatcher.

    Args:
        names: the recordings.
        one_in: the gate takes the smallest and one in so many of the others, `make test-slow` those that it leaves out.
    """

    def marks(at: int, name: str) -> list[pytest.MarkDecorator]:
        if name in smallest():
            return []
        return [pytest.mark.recordings, *([pytest.mark.slow] if at % one_in else [])]

    return pytest.mark.parametrize("name", [pytest.param(name, marks=marks(at, name)) for at, name in enumerate(names)])


def rows_in(log: Path) -> list[dict[str, Any]]:
    """The rows of a compressed log, in its order."""
    # One text for all: a call for each line takes as long as the line itself.
    text = gzip.decompress(log.read_bytes()).decode().rstrip("\n")
    rows: list[dict[str, Any]] = json.loads("[" + text.replace("\n", ",") + "]")
    return rows


@cache
def smallest() -> frozenset[str]:
    """Of each kind of dispatcher (of 3.x, classic of 4.x, draining) the recording with the smallest logs."""
    of_kind: dict[tuple[str, bool], tuple[int, str]] = {}
    for name in ALL:
        manifest = json.loads((RECORDINGS / name / "trace.json").read_text())
        profile = profile_for(manifest["pulsar_version"], manifest["settings"])
        size = sum(log.stat().st_size for log in (RECORDINGS / name).glob("*.jsonl.gz") if "oracle" not in log.name)
        kind = profile.dispatcher, profile.classic
        of_kind[kind] = min((size, name), of_kind.get(kind, (size, name)))
    return frozenset(name for _, name in of_kind.values())
