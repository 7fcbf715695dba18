"""Shows progress on stderr: a line for each stage with its time, on a terminal; or one line that is renewed."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

# Stages that are shown: an audit of many traces has more than a terminal has lines.
_LINES = 10
LINE_S: Final = 60.0
"""Seconds between two copies of the renewed line in a log."""


@contextmanager
def shown_stages(wanted: bool) -> Iterator[Callable[[str], None]]:
    """Yields a function to call with the name of each stage as it begins.

    Args:
        wanted: whether to show the stages. They are shown on a terminal only, never in a log.
    """
    if not wanted:
        yield lambda stage: None
        return
    # A copy of stderr, because the session redirects the common one while it starts the JVM.
    with os.fdopen(os.dup(2), "w", encoding="utf-8") as stderr:
        console = Console(file=stderr)
        if not console.is_terminal:
            yield lambda stage: None
            return
        columns = (SpinnerColumn(finished_text=" "), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as progress:

            def begin(stage: str) -> None:
                for task in progress.tasks:
                    if not task.finished:
                        progress.update(task.id, total=1, completed=1)
                for task in progress.tasks[: 1 - _LINES]:
                    progress.remove_task(task.id)
                progress.add_task(stage, total=None)

            yield begin


@contextmanager
def renewed_line(wanted: bool, log: Callable[[str], None]) -> Iterator[Callable[[str], None]]:
    """Yields a function to call with each new text of one line.

    Args:
        wanted: whether to show it at all.
        log: writes a line where there is no terminal: the first one, and then one every `LINE_S`.
    """
    if not wanted:
        yield lambda text: None
        return
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status("") as status:
            yield status.update
        return
    due = time.monotonic()

    def write(text: str) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + LINE_S
            log(text)

    yield write
