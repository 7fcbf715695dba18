"""The environment of worker processes.

A replay takes and gives back arrays of a megabyte all the time. By default glibc hands many of them back to the kernel,
which clears them when they are taken again: 6 to 8 % of the CPU time of a large audit (docs/TRIED.md). Other libraries
of C ignore these names.
"""

from typing import Final

WORKER_ENVIRONMENT: Final = {
    # Blocks of fewer bytes come from the heap,
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    # which keeps so many free bytes at its end.
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
}
"""Variables of the processes that run Python functions, by name."""
