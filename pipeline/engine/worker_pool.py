"""Runs functions of the embedded engine in processes of their own.

Sail calls Python functions in threads of its own process, which share one interpreter: the replay would use one core,
and a Parquet file that makes pyarrow end its process would end the audit. So a function hands its batches to a process,
as Spark does.
"""

import atexit
import os
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from multiprocessing.connection import Connection
from threading import BoundedSemaphore, Lock
from typing import Any, Final

from pyspark import cloudpickle

from dispatch_audit.pipeline.engine.thread_tasks import noted
from dispatch_audit.pipeline.engine.worker_environment import WORKER_ENVIRONMENT
from dispatch_audit.pipeline.engine.worker_process import (
    BATCH,
    CALL,
    END,
    FAILED,
    FUNCTION,
    NEXT,
    Batches,
    Function,
    batch_in,
    send_batch,
)
from dispatch_audit.pipeline.spark_errors import WORKER_DIED, worker_died


class WorkerError(Exception):
    """Raised in the engine's thread when a function failed in its process; the text is that of the error there."""


class _Worker:
    """A process, and the function that it was sent last."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        # The modules of this process, however it found them.
        path = {"PYTHONPATH": os.pathsep.join(sys.path)}
        module = "dispatch_audit.pipeline.engine.worker_process"
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                # Only the report goes to stdout.
                stdout=subprocess.DEVNULL,
                env=WORKER_ENVIRONMENT | os.environ | path,
                # Ctrl-C is for the command line, with which its workers end.
                start_new_session=True,
            )
        self.connection = Connection(ours.detach())
        self.holds = b""

    def call(self, function: bytes, digest: bytes, batches: Batches) -> Batches:
        """Yields the batches of a pickled function."""
        try:
            if self.holds != digest:
                self.connection.send_bytes(FUNCTION + function)
                self.holds = digest
            self.connection.send_bytes(CALL)
            while (message := self.connection.recv_bytes())[:1] != END:
                if message[:1] == BATCH:
                    yield batch_in(message)
                elif message == NEXT:
                    batch = next(batches, None)
                    self.connection.send_bytes(END) if batch is None else send_batch(self.connection, batch)
                elif message[:1] == FAILED:
                    raise WorkerError(message[1:].decode())
        except (EOFError, ConnectionError) as error:
            raise WorkerError(f"{WORKER_DIED} (exit code {self.process.wait()})") from error

    def end(self) -> None:
        """Ends the process."""
        self.connection.close()
        self.process.kill()
        self.process.wait()


class _Pool:
    """The processes of this process: at most one for each core and function."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._idle: list[_Worker] = []
        self._busy = set[_Worker]()
        # A limit for each function, not for all: a function may wait for the batches of another one.
        self._places: defaultdict[bytes, BoundedSemaphore] = defaultdict(lambda: BoundedSemaphore(os.cpu_count() or 1))

    @contextmanager
    def borrowed(self, digest: bytes) -> Iterator[_Worker]:
        """Lends a process, and ends it if its body fails."""
        with self._lock:
            places = self._places[digest]
        with places:
            worker = self._take(digest)
            self._busy.add(worker)
            try:
                yield worker
            except BaseException as error:
                if isinstance(error, WorkerError) and not worker_died(error):
                    self._idle.append(worker)
                else:
                    # It waits for batches that never come.
                    worker.end()
                raise
            finally:
                self._busy.discard(worker)
            self._idle.append(worker)

    def _take(self, digest: bytes) -> _Worker:
        with self._lock:
            # One that holds the function, else the one that was used last.
            at = next((at for at, worker in enumerate(self._idle) if worker.holds == digest), -1)
            return self._idle.pop(at) if self._idle else _Worker()

    def end(self) -> None:
        """Ends the processes: where a task has failed, the engine leaves the others at work."""
        for worker in list(self._busy):
            worker.process.kill()
        with self._lock:
            while self._idle:
                with suppress(OSError):
                    self._idle.pop().end()


# PySpark's copy of cloudpickle has no types.
_dumps: Any = cloudpickle.dumps
_POOL: Final = _Pool()
atexit.register(_POOL.end)


def start_worker() -> None:
    """Starts a process if there is none, which takes a second that the caller can use."""
    with _POOL.borrowed(b""):
        pass


def in_process(function: Function) -> Function:
    """Returns a function that runs `function` in a process of its own."""
    pickled: bytes = _dumps(function)
    digest = blake2b(pickled).digest()

    def run(batches: Batches) -> Batches:
        return run_pickled(pickled, digest, batches)

    return run


def run_pickled(function: bytes, digest: bytes, batches: Batches) -> Batches:
    """Yields the batches of a pickled function, which runs in a process of its own.

    A function of this module, because the engine pickles functions, and those of modules only by their name.
    """
    with noted(), _POOL.borrowed(digest) as worker:
        yield from worker.call(function, digest, batches)
