"""CPU time and memory of a process and all that it starts, looked at from outside every 50 milliseconds or so.

Memory is resident memory (RSS). Spark forks its Python workers from one process, so what they share is in the sum once
for each of them: the sum is an upper bound, the largest worker by itself is exact. A JVM gives back little of its
heap: its peak contains what was taken before the measurement began.
"""

from dataclasses import dataclass
from pathlib import Path

import psutil

_MB = 1_000_000


@dataclass(frozen=True)
class Used:
    """What a process tree used between `begin` and the last `sample`.

    Attributes:
        cpu_jvm_s: CPU seconds, user and system, of Java.
        cpu_python_s: of everything else: the driver, and the workers and who forks them.
        peak_memory_mb: the most that the whole tree had at one time, in megabytes of 10^6 bytes.
        peak_jvm_mb: the most that Java had.
        peak_python_mb: the most that everything else had together.
        peak_worker_mb: the most that one process had, other than Java and the root of the tree.
    """

    cpu_jvm_s: float
    cpu_python_s: float
    peak_memory_mb: float
    peak_jvm_mb: float
    peak_python_mb: float
    peak_worker_mb: float


@dataclass
class _Seen:
    """The last that was seen of a process."""

    jvm: bool
    cpu_s: float
    cpu_at_begin_s: float


class ProcessTree:
    """A process with its descendants; call `sample` often.

    A process that ends keeps the CPU time that was last seen of it, so up to one interval of each is lost.
    """

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        # By process, not by pid: psutil distinguishes two processes that had one pid after another.
        self._seen: dict[psutil.Process, _Seen] = {}
        self._peaks = dict.fromkeys(("all", "jvm", "python", "worker"), 0)

    def begin(self) -> None:
        """Starts the measurement: earlier CPU time and peaks do not count."""
        self.sample()
        for seen in self._seen.values():
            seen.cpu_at_begin_s = seen.cpu_s
        self._peaks = dict.fromkeys(self._peaks, 0)
        self.sample()

    def sample(self) -> None:
        """Reads CPU time and memory of all processes."""
        jvm = python = worker = 0
        for process in self._processes():
            try:
                # A launcher becomes Java without a change of pid, so the program is read each time. Not the name: a
                # process that Java forks has the name of a thread, and all of Java's memory, until it runs a program.
                with process.oneshot():
                    is_jvm = Path(process.exe()).name == "java"
                    times, rss = process.cpu_times(), process.memory_info().rss
            except psutil.Error:
                continue  # it has ended meanwhile
            seen = self._seen.setdefault(process, _Seen(is_jvm, 0.0, 0.0))
            seen.jvm, seen.cpu_s = is_jvm, times.user + times.system
            jvm += rss if is_jvm else 0
            python += 0 if is_jvm else rss
            if not is_jvm and process != self._root:
                worker = max(worker, rss)
        now = {"all": jvm + python, "jvm": jvm, "python": python, "worker": worker}
        self._peaks = {name: max(peak, now[name]) for name, peak in self._peaks.items()}

    def used(self) -> Used:
        """Returns what was used since `begin`, by the samples taken."""
        return Used(
            cpu_jvm_s=self._cpu_s(jvm=True),
            cpu_python_s=self._cpu_s(jvm=False),
            peak_memory_mb=self._peaks["all"] / _MB,
            peak_jvm_mb=self._peaks["jvm"] / _MB,
            peak_python_mb=self._peaks["python"] / _MB,
            peak_worker_mb=self._peaks["worker"] / _MB,
        )

    def _processes(self) -> list[psutil.Process]:
        try:
            return [self._root, *self._root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _cpu_s(self, *, jvm: bool) -> float:
        return sum(seen.cpu_s - seen.cpu_at_begin_s for seen in self._seen.values() if seen.jvm is jvm)
