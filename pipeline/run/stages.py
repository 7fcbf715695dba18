"""The stages of an audit, with what each took; `runs` keeps them."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

Progress = Callable[[str], None]

_log = logging.getLogger(__name__)


@dataclass
class Stages:
    """What was done, how long it took and how many rows came of it; the caller is told as it happens."""

    progress: Progress
    run_key: str
    done: list[dict[str, object]] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, object]]:
        """Times what happens inside; the body may put `rows` into what it is given."""
        self.progress(name)
        record: dict[str, object] = {"stage": name, "seconds": 0.0, "rows": None}
        start = time.monotonic()
        yield record
        record["seconds"] = time.monotonic() - start
        self.done.append(record)
        _log.info("stage", extra={"run_key": self.run_key, **record})
