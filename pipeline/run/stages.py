"""The stages of an audit with their times, for the table `runs`."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

Progress = Callable[[str], None]

_log = logging.getLogger(__name__)


def of_several(progress: Progress, number: int, whole: int) -> Progress:
    """Returns a `Progress` that adds the number of the trace to each stage: `trace 3 of 8: replay`.

    Args:
        progress: is called with the result.
        number: of the trace, counted from 1.
        whole: how many traces there are; a single one is not numbered.
    """
    return progress if whole == 1 else lambda stage: progress(f"trace {number:,} of {whole:,}: {stage}")


@dataclass
class Stages:
    """Collects name, time and number of rows of each stage, and reports each one as it begins."""

    progress: Progress
    run_key: str
    done: list[dict[str, object]] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, object]]:
        """Times its body, which may set `rows` in the record that it gets."""
        self.progress(name)
        record: dict[str, object] = {"stage": name, "seconds": 0.0, "rows": None}
        start = time.monotonic()
        yield record
        record["seconds"] = time.monotonic() - start
        self.done.append(record)
        _log.info("stage", extra={"run_key": self.run_key, **record})
