"""Ctrl-C while the admin API keeps `record-stats` waiting: it ends, and what was recorded is whole."""

import os
import signal
import subprocess
import threading
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from admin_server import Answer, admin_server
from command_line import PROGRAM

pytestmark = pytest.mark.heavy

NAMESPACE = "/admin/v2/persistent/public/default"
WAIT_S_MAX = 120
"""Shorter than the command waits for an answer."""


class Stopped(NamedTuple):
    """How the command ended: its exit code, stdout, and the last line of stderr."""

    code: int
    out: str
    err: str


def stopped_at(ending: str, time: int, folder: Path) -> Stopped:
    """Interrupts `record-stats` while it waits for an answer that comes after its end only.

    Args:
        ending: of the path that it asks for.
        time: which of these requests is not answered.
        folder: of the trace.
    """
    what = ("--namespace", "public/default") if ending == NAMESPACE else ("--topic", "t")
    asked, ended = threading.Event(), threading.Event()

    def answer(path: str, _: dict[str, str]) -> Answer | None:
        if path.endswith(ending) and server.times_asked(ending) == time:
            asked.set()
            ended.wait(WAIT_S_MAX)
        return (200, {}, b'["persistent://public/default/t"]') if path == NAMESPACE else None

    with admin_server(answer) as server:
        options = ("--admin-url", server.url, "--out", str(folder), "--interval", "0.05", "--timeout", "600")
        with subprocess.Popen(
            [PROGRAM, "record-stats", *options, *what],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A test that a script runs in the background ignores SIGINT, and so would its children.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no lock is held
        ) as process:
            try:
                assert asked.wait(WAIT_S_MAX)
                os.kill(process.pid, signal.SIGINT)
                out, err = process.communicate(timeout=WAIT_S_MAX)
            finally:
                process.kill()
                ended.set()
    return Stopped(process.returncode, out, err.splitlines()[-1])


@pytest.mark.parametrize(
    ("ending", "time"),
    [
        ("/partitions", 1),
        ("/version", 1),
        # The first request asks whether there is such a subscription.
        ("/stats", 2),
        ("/internalStats", 1),
        (NAMESPACE, 2),
    ],
)
def test_one_that_waits_for_its_first_answer_has_recorded_nothing(ending: str, time: int, tmp_path: Path) -> None:
    found = stopped_at(ending, time, tmp_path / "trace")
    assert (found.code, found.out) == (130, "")
    assert found.err == "dispatch-audit: error: interrupted before the first answer; nothing was recorded"
    assert not list(tmp_path.glob("trace/*.gz"))


@pytest.mark.parametrize(
    ("ending", "time"),
    [
        ("/stats", 3),
        ("/internalStats", 2),
        (NAMESPACE, 3),
    ],
)
def test_one_that_waits_for_a_later_answer_has_what_was_answered(ending: str, time: int, tmp_path: Path) -> None:
    found = stopped_at(ending, time, tmp_path / "trace")
    assert found.code == 0
    assert found.out.startswith("Recorded 1 snapshot in ")
    assert [log.name for log in (tmp_path / "trace").iterdir() if log.suffix == ".gz"] == ["stats-00001.jsonl.gz"]
