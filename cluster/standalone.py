"""A standalone Spark cluster of processes on this machine: a master, and workers with an executor each.

It works like a cluster of machines, but for the shared file system: audits are submitted, tasks and their functions are
sent to workers, packed batches are exchanged, and a worker can be lost. The programs come with the package of PySpark.

Source: https://spark.apache.org/docs/4.2.0/spark-standalone.html.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import psutil
import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
_HOST = "127.0.0.1"
_START_SECONDS = 120
_STOP_SECONDS = 20


class StandaloneCluster:
    """A master and its workers, for the time of a `with`.

    Attributes:
        url: of the master, for `spark-submit --master`.
        workers: the processes of the workers, in the order in which they were started.
    """

    def __init__(
        self, folder: Path, workers: int = 2, cores: int = 1, memory: str = "1g", *, spark_home: Path = SPARK_HOME
    ) -> None:
        """Chooses the ports; nothing is started yet.

        Args:
            folder: for logs and files of the workers; created if it is missing.
            workers: how many.
            cores: of each worker.
            memory: that each worker may give to executors, as Spark writes it.
            spark_home: the folder of Spark.
        """
        port, self._page = _free_port(), _free_port()
        self.url = f"spark://{_HOST}:{port}"
        self.workers: list[subprocess.Popen[bytes]] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        # An absolute path, because executors run in other folders and get it too.
        self._folder = folder.absolute()
        self._wanted = workers
        self._spark_home = spark_home
        self._master = ["--host", _HOST, "--port", str(port), "--webui-port", str(self._page)]
        self._worker = ["--host", _HOST, "--cores", str(cores), "--memory", memory, "--webui-port", "0", self.url]

    def __enter__(self) -> "StandaloneCluster":
        """Starts the processes and waits until all workers are registered.

        Raises:
            RuntimeError: they did not register within two minutes; the folder has the logs.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start("master.Master", "master", self._master)
            for number in range(self._wanted):
                name = f"worker-{number}"
                work = ["--work-dir", str(self._folder / name)]
                self.workers.append(self._start("worker.Worker", name, [*work, *self._worker]))
            self._wait()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops the remaining processes, workers first."""
        self._stop()

    def kill_worker(self, number: int) -> None:
        """Ends a worker, its executors and their Python workers at once, like the loss of a machine."""
        worker = psutil.Process(self.workers[number].pid)
        for process in [worker, *worker.children(recursive=True)]:
            process.send_signal(signal.SIGKILL)
        self.workers[number].wait()

    def alive_workers(self) -> int:
        """Returns the number of workers by the master, which notices a lost one after a minute."""
        return int(self._status().get("aliveworkers", 0))

    def _start(self, program: str, name: str, arguments: list[str]) -> "subprocess.Popen[bytes]":
        variables = {
            "SPARK_HOME": str(self._spark_home),
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(self._folder / "local"),
        }
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [self._spark_home / "bin" / "spark-class", f"org.apache.spark.deploy.{program}", *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **variables},
            )
        self._processes.append(process)
        return process

    def _wait(self) -> None:
        end = time.monotonic() + _START_SECONDS
        while self.alive_workers() < self._wanted:
            ended = any(process.poll() is not None for process in self._processes)
            if ended or time.monotonic() > end:
                what = "a process of the cluster ended" if ended else "the workers did not register"
                raise RuntimeError(f"{what}; see the logs in {self._folder}")
            time.sleep(0.2)

    def _status(self) -> Mapping[str, Any]:
        """Returns the status that the master reports; empty as long as it does not answer."""
        try:
            with urlopen(f"http://{_HOST}:{self._page}/json/", timeout=10) as answer:
                status: Mapping[str, Any] = json.load(answer)
        except (URLError, ConnectionError, TimeoutError, json.JSONDecodeError):
            return {}  # a starting master may answer with HTML
        return status

    def _stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((_HOST, 0))
        return int(found.getsockname()[1])


def main() -> None:
    """Runs a cluster until it is interrupted."""
    parser = argparse.ArgumentParser(prog="python -m cluster.standalone", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="folder for logs and files of the workers")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1, help="cores of each worker")
    parser.add_argument("--memory", default="1g", help="memory that each worker may give to executors")
    arguments = parser.parse_args()
    # SIGTERM is handled like Ctrl-C, so that `kill` stops the workers too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with StandaloneCluster(arguments.folder, arguments.workers, arguments.cores, arguments.memory) as cluster:
            sys.stdout.write(f"{cluster.url}\n")
            sys.stdout.flush()
            signal.pause()
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
