"""A process that runs functions for the embedded engine; `dispatch_audit.pipeline.engine.worker_pool` starts it.

    python -m dispatch_audit.pipeline.engine.worker_process SOCKET

The two processes take turns, so that neither can wait for the other: the pool answers each `NEXT` with one batch or
`END`, and everything else that the process sends needs no answer.
"""

import os
import select
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Final

import pyarrow as pa
from pyspark import cloudpickle

FUNCTION: Final = b"f"
"""From the pool: the pickled function of the calls that follow."""
CALL: Final = b"c"
"""From the pool: call the function."""
NEXT: Final = b"n"
"""To the pool: send the next batch of the input."""
BATCH: Final = b"b"
"""Both ways: a batch, as an Arrow IPC stream."""
END: Final = b"e"
"""Both ways: the input, or the output, has no more batches."""
FAILED: Final = b"x"
"""To the pool: the function raised an error; its traceback as text."""

Batches = Iterator[pa.RecordBatch]
Function = Callable[[Batches], Batches]


def send_batch(connection: Connection, batch: pa.RecordBatch) -> None:
    """Sends a batch."""
    sink = pa.BufferOutputStream()
    sink.write(BATCH)
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    connection.send_bytes(memoryview(sink.getvalue()))


def batch_in(message: bytes) -> pa.RecordBatch:
    """Returns the batch in a message that begins with `BATCH`."""
    return pa.ipc.open_stream(pa.py_buffer(message).slice(1)).read_next_batch()


class _ClosedError(BaseException):
    """Raised when the pool has closed the connection. No `Exception`: functions must not take it for their own."""


@contextmanager
def _connected() -> Iterator[None]:
    try:
        yield
    except (EOFError, ConnectionError):
        raise _ClosedError from None


def _input(connection: Connection) -> Batches:
    while True:
        with _connected():
            connection.send_bytes(NEXT)
            message = connection.recv_bytes()
        if message[:1] == END:
            return
        yield batch_in(message)


def _serve(connection: Connection) -> None:
    """Runs functions until the pool closes the connection."""
    function: Function | None = None
    while True:
        with _connected():
            message = connection.recv_bytes()
        if message[:1] == FUNCTION:
            function = cloudpickle.loads(message[1:])
            continue
        assert function is not None, "the pool sends the function first"
        try:
            for batch in function(_input(connection)):
                with _connected():
                    send_batch(connection, batch)
            answer = END
        except Exception:
            answer = FAILED + traceback.format_exc().encode(errors="replace")
        with _connected():
            connection.send_bytes(answer)
        # The process is used again: give the memory of this call back.
        pa.default_memory_pool().release_unused()


def _end_with_the_pool(descriptor: int) -> None:
    """Ends the process when the other one has closed the connection, also in the midst of a function."""
    poll = select.poll()
    # Nothing but the end of the connection.
    poll.register(descriptor, 0)
    poll.poll()
    os._exit(0)


if __name__ == "__main__":
    socket = int(sys.argv[1])
    threading.Thread(target=_end_with_the_pool, args=(socket,), daemon=True).start()
    with suppress(_ClosedError):
        _serve(Connection(socket))
