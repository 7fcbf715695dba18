"""A broker of Pulsar's artifacts in a process of its own, with the recorder's NAR (`make recorder-broker`)."""

import contextlib
import gzip
import json
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from real_broker import NEWEST, running_broker

TRIES = 3


@dataclass(frozen=True)
class RecordingBroker:
    """A running broker.

    Attributes:
        service_url: for clients.
        admin_url: of the admin API and of the metrics.
        folder: gets the folder of the recorder.
        process: its JVM.
    """

    service_url: str
    admin_url: str
    folder: Path
    process: "subprocess.Popen[str]"

    @property
    def trace(self) -> Path:
        """The folder of this recorder, which is a trace."""
        (found,) = self.folder.iterdir()
        return found

    def ask(self, method: str, path: str, body: object = None) -> None:
        """Sends a request to the admin API.

        Args:
            method: of HTTP.
            path: below `/admin/v2/`.
            body: sent as JSON; None: there is none.
        """
        data = None if body is None else json.dumps(body).encode()
        json_type = {"Content-Type": "application/json"}
        request = Request(f"{self.admin_url}/admin/v2/{path}", data, json_type, method=method)
        with urlopen(request, timeout=30) as response:
            assert response.status < 300

    def answer(self, path: str) -> Any:
        """Returns what the admin API says.

        Args:
            path: below `/admin/v2/`.
        """
        for left in reversed(range(TRIES)):
            try:
                with urlopen(f"{self.admin_url}/admin/v2/{path}", timeout=30) as response:
                    return json.load(response)
            except HTTPError as error:
                # A broker of 3.0 fails now and then while it counts what consumers change.
                if error.code != HTTPStatus.INTERNAL_SERVER_ERROR or left == 0:
                    raise
                time.sleep(0.2)
        raise AssertionError("the last try returns or raises")

    def print_statistics(self, command: str, topic: str, file: Path) -> None:
        """Writes what `pulsar-admin topics COMMAND TOPIC` prints: `stats` or `stats-internal`."""
        assert self._command(f"{command} {topic} {file}") == str(file)

    def block(self, topic: str, milliseconds: int) -> None:
        """Lets the broker keep the locks of the dispatchers of a topic for some time; returns when it has them."""
        assert self._command(f"block {topic} {milliseconds}") == str(milliseconds)

    def abort_transactions(self, topic: str) -> None:
        """Lets a client in Java abort transactions, and commit one (`Transactions.java`)."""
        assert self._command(f"abort {topic}") == topic

    def restart(self) -> "RecordingBroker":
        """Stops the broker in order and starts it on the same storage; returns it with its new addresses."""
        return replace(self, **json.loads(self._command("restart")))

    def _command(self, line: str) -> str:
        """What the process answers to a line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().removesuffix("\n")

    def metric(self, name: str) -> int:
        """A metric of the recorder, as the broker's Prometheus endpoint has it."""
        with urlopen(f"{self.admin_url}/metrics/", timeout=30) as response:
            lines = response.read().decode().splitlines()
        (value,) = [line.split()[1] for line in lines if line.startswith(f"dispatch_audit_recorder_{name} ")]
        return int(value)


RELEASES = ("3.0.7", "3.3.2", "4.0.8", NEWEST, "5.0.0-M1")


def each_release(*gate: str) -> list[Any]:
    """Parameters of a test, the releases of Pulsar that the recorder is tested on.

    Args:
        gate: those that take part in `make test`; the others do in `make test-slow`.
    """
    return [name if name in gate else pytest.param(name, marks=pytest.mark.slow) for name in RELEASES]


@contextlib.contextmanager
def recording_broker(
    folder: Path, release: str = NEWEST, witness: Path | None = None, /, **settings: object
) -> Iterator[RecordingBroker]:
    """A broker that records into `folder`.

    Args:
        folder: an empty folder.
        release: of Pulsar.
        witness: file that a second observer in the broker writes (`Witness.java`); None: there is none.
        settings: those of broker.conf; names of the recorder without their common beginning.
    """
    named = [f"{'dispatchAuditRecorder' + name if name[0].isupper() else name}={settings[name]}" for name in settings]
    if witness is not None:
        named += ["--witness", str(witness)]
    with running_broker(folder, *named, release=release) as broker:
        yield RecordingBroker(*broker[:2], folder, broker.process)


def rows_of(log: Path) -> list[dict[str, Any]]:
    """The rows of a file, also of one that is not whole: everything up to its torn line."""
    inflated = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    text = inflated.decompress(log.read_bytes())
    return [json.loads(line) for line in text.split(b"\n")[:-1]]


def complete_rows(trace: Path) -> list[dict[str, Any]]:
    """The rows of all complete files of a trace."""
    return [
        json.loads(line)
        for log in sorted((trace / "events").glob("*.jsonl.gz"))
        for line in gzip.decompress(log.read_bytes()).splitlines()
    ]


def rows_so_far(trace: Path, event: str) -> list[dict[str, Any]]:
    """The rows of one event in a trace that a broker still writes to, in the order of their numbers."""
    begins = f'{{"event":"{event}",'.encode()
    rows = []
    for log in {path.name.removesuffix(".open") for path in (trace / "events").iterdir()}:
        text = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(_bytes_of(trace / "events" / log))
        rows += [json.loads(line) for line in text.split(b"\n")[:-1] if line.startswith(begins)]
    return sorted(rows, key=lambda row: int(row["seq"]))


def _bytes_of(log: Path) -> bytes:
    """What a file has, which may become complete at any moment, and loses the ending of its name then."""
    with contextlib.suppress(FileNotFoundError):
        return log.with_name(log.name + ".open").read_bytes()
    return log.read_bytes()


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Waits until `condition` holds, and fails after some time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.05)
