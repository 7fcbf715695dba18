"""Functions of the embedded engine in processes of their own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from dispatch_audit.pipeline.engine.worker_pool import WorkerError, in_process
from dispatch_audit.pipeline.engine.worker_process import Batches
from dispatch_audit.pipeline.spark_errors import reason_of, worker_died


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers, pa.int64())], names=["n"])


def numbers_in(batches: Batches) -> list[int]:
    return [number for found in batches for number in found["n"].to_pylist()]


def test_batches_pass_through_another_process_one_by_one() -> None:
    given: list[int] = []

    def several() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            given.append(number)
            yield batch(number, number)

    def doubled(batches: Batches) -> Batches:
        for found in batches:
            yield batch(os.getpid(), *(2 * number for number in found["n"].to_pylist()))

    results = in_process(doubled)(several())
    first = next(results)["n"].to_pylist()
    assert given == [0], "the next batch is asked for when it is needed"
    (process, *numbers) = first
    assert process != os.getpid()
    assert (numbers, numbers_in(results)) == ([0, 0], [process, 2, 2, process, 4, 4])


def test_a_function_may_leave_input_and_give_more_than_it_got() -> None:
    def some(batches: Batches) -> Batches:
        (first,) = next(batches)["n"].to_pylist()
        yield from (batch(first + more) for more in range(3))

    assert numbers_in(in_process(some)(iter([batch(7), batch(8)]))) == [7, 8, 9]
    assert numbers_in(in_process(some)(iter([batch(1)]))) == [1, 2, 3]


def test_a_large_batch_and_an_empty_one_pass() -> None:
    def same(batches: Batches) -> Batches:
        return batches

    large = batch(*range(1 << 20))
    assert [found.num_rows for found in in_process(same)(iter([large, batch(), large.slice(5, 1)]))] == [1 << 20, 0, 1]


def test_an_error_in_a_function_has_its_text_and_ends_nothing_else() -> None:
    def fail(batches: Batches) -> Batches:
        raise EOFError("a file ended early")

    def processes(batches: Batches) -> Batches:
        yield batch(os.getpid())

    (before,) = numbers_in(in_process(processes)(iter([])))
    with pytest.raises(WorkerError, match=r"Traceback(.|\n)*EOFError: a file ended early") as raised:
        list(in_process(fail)(iter([])))
    assert not worker_died(raised.value)
    assert reason_of(raised.value) == "EOFError: a file ended early"
    assert numbers_in(in_process(processes)(iter([]))) == [before]


def test_a_process_that_ends_is_reported_as_spark_does() -> None:
    def die(batches: Batches) -> Batches:
        os.kill(os.getpid(), signal.SIGKILL)
        yield from batches

    with pytest.raises(WorkerError, match="exit code -9") as raised:
        list(in_process(die)(iter([])))
    assert worker_died(raised.value)


def test_a_process_whose_results_nobody_wants_is_not_used_again() -> None:
    def endless(batches: Batches) -> Batches:
        while True:
            yield batch(os.getpid())

    results = in_process(endless)(iter([]))
    (process,) = next(results)["n"].to_pylist()
    assert isinstance(results, Generator)
    results.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


_BUSY = """
import os
from test_worker_pool import batch
from dispatch_audit.pipeline.engine.worker_pool import in_process

def busy(batches):
    yield batch(os.getpid())
    while True:
        pass

results = in_process(busy)(iter([]))
print(next(results)["n"][0].as_py(), flush=True)
next(results)
"""


def test_a_busy_process_ends_with_the_one_that_started_it() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    with subprocess.Popen([sys.executable, "-c", _BUSY], stdout=subprocess.PIPE, env=environment) as started:
        assert started.stdout is not None
        worker = Path("/proc", started.stdout.readline().decode().strip())
        assert is_running(worker)
        started.kill()
    latest = time.monotonic() + 60
    while is_running(worker):
        assert time.monotonic() < latest, "it still runs"
        time.sleep(0.1)


def is_running(process: Path) -> bool:
    """Whether a process runs; one that has ended may stay as a zombie where nobody asks for its exit code."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_functions_run_at_one_time_and_one_may_wait_for_another() -> None:
    def slow(batches: Batches) -> Batches:
        for found in batches:
            time.sleep(0.2)
            yield found

    def through_both(number: int) -> list[int]:
        def outer(batches: Batches) -> Batches:
            return batches

        return numbers_in(in_process(outer)(in_process(slow)(iter([batch(number)]))))

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(through_both, range(8))) == [[number] for number in range(8)]
