"""A real Pulsar broker with one bookie, on the loopback interface, as a process of the tests.

`make recorder-broker` builds it. DISPATCH_AUDIT_TEST_BROKERS names another folder that has a folder for each release.
"""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from dispatch_audit.jobs.engines.java import has_java

ROOT = Path(__file__).resolve().parents[2]
RELEASES = Path(os.environ.get("DISPATCH_AUDIT_TEST_BROKERS", ROOT / "recorder" / "target"))
NEWEST = "4.2.4"
"""The release of the broker that a test takes if it names none."""
NO_BROKER = "there is no test broker of Pulsar"
# Ten times what they take on a quiet machine, and more.
_START_S, _STOP_S = 300.0, 120.0


class Broker(NamedTuple):
    """A running broker: its addresses and its JVM."""

    service_url: str
    admin_url: str
    process: "subprocess.Popen[str]"


def has_broker(release: str = NEWEST) -> bool:
    """Whether a broker of a release can be started."""
    return _arguments(release).is_file() and has_java()


def _arguments(release: str) -> Path:
    return RELEASES / release / "test-broker.args"


@contextmanager
def running_broker(folder: Path, *settings: str, release: str = NEWEST) -> Iterator[Broker]:
    """Starts a broker, and stops it after its body. Skips the test if the broker is not built.

    Args:
        folder: for what its recorder writes; its log is written beside it.
        settings: `name=value` of broker.conf, or `--no-recorder`.
        release: of Pulsar.
    """
    if not has_broker(release):
        pytest.skip(f"{NO_BROKER} {release}; make recorder-broker PULSAR={release} builds it")
    command = ["java", f"@{_arguments(release)}", "--trace-dir", str(folder), *settings]
    log = folder.with_suffix(".log")
    with (
        log.open("w") as stderr,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
    ):
        assert process.stdout is not None
        assert process.stdin is not None
        # A broker that does not start must not hold the tests up.
        timer = threading.Timer(_START_S, process.kill)
        timer.start()
        line = process.stdout.readline()
        timer.cancel()
        assert line, f"the broker did not start: {log.read_text()[-2000:]}"
        try:
            yield Broker(**json.loads(line), process=process)
            process.stdin.close()
            process.wait(_STOP_S)
        finally:
            process.kill()
