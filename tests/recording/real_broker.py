"""A real Pulsar broker with one bookie, on the loopback interface, as a process of the tests.

`make recorder-broker` builds it. The variable DISPATCH_AUDIT_TEST_BROKER names another file with its arguments.
"""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from dispatch_audit.jobs.engines.java import has_java

ROOT = Path(__file__).resolve().parents[2]
ARGUMENTS = Path(os.environ.get("DISPATCH_AUDIT_TEST_BROKER", ROOT / "recorder" / "target" / "test-broker.args"))
NO_BROKER = "there is no test broker; make recorder-broker builds it"
_START_S = 120.0


class Broker(NamedTuple):
    """The addresses of a running broker."""

    service_url: str
    admin_url: str


def has_broker() -> bool:
    """Whether a broker can be started."""
    return ARGUMENTS.is_file() and has_java()


@contextmanager
def running_broker(folder: Path, *settings: str) -> Iterator[Broker]:
    """Starts a broker, and stops it behind its body.

    Args:
        folder: for its log, and for what its recorder writes.
        settings: `name=value` of broker.conf.
    """
    command = ["java", f"@{ARGUMENTS}", "--trace-dir", str(folder), "--no-recorder", *settings]
    with (
        (folder / "broker.log").open("w") as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        assert process.stdout is not None
        assert process.stdin is not None
        # A broker that does not start must not hold the tests up.
        timer = threading.Timer(_START_S, process.kill)
        timer.start()
        line = process.stdout.readline()
        timer.cancel()
        assert line, f"the broker did not start: {(folder / 'broker.log').read_text()[-2000:]}"
        try:
            yield Broker(**json.loads(line))
        finally:
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
