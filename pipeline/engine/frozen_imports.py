"""Spares workers the search for garbage among what imports created.

Nearly all objects of a worker are modules, classes and functions, which live as long as the process. Python looks at
each of them from time to time, and a worker of Spark after each task (`gc.collect` in `pyspark/daemon.py`).
"""

import gc
import sys
from functools import cache

from dispatch_audit.pipeline.engine.worker_process import Batches, Function


def with_frozen_imports(function: Function) -> Function:
    """Returns a function that does the same, in a worker whose imports are frozen."""

    def run(batches: Batches) -> Batches:
        # A function of this module travels to the worker by its name, and has the cache of that process there.
        _freeze(len(sys.modules))
        yield from function(batches)

    return run


@cache
def _freeze(_modules: int) -> None:
    """Takes all objects out of the collector's sight, once for each number of imported modules.

    So what a function leaves behind is found as before, but for what is there at the few calls that follow imports.
    """
    gc.freeze()
