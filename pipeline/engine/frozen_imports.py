"""Spares workers of Spark the search for garbage among what imports created.

A worker looks at each object of its process after each task (`gc.collect` in `pyspark/daemon.py`). Nearly all of them
are modules, classes and functions, which live as long as the process.
"""

import gc
import sys
from typing import Final

from dispatch_audit.pipeline.engine.worker_process import Batches, Function


class _Imports:
    """The imports whose objects are out of the collector's sight."""

    def __init__(self) -> None:
        self._modules = 0

    def freeze(self) -> None:
        """Takes all objects out of the collector's sight if modules were imported since.

        So what a function leaves behind is found as before, but for what is there at the few calls that follow imports.
        """
        if len(sys.modules) > self._modules:
            self._modules = len(sys.modules)
            gc.freeze()


_IMPORTS: Final = _Imports()


def with_frozen_imports(function: Function) -> Function:
    """Returns a function that does the same, in a worker whose imports are frozen."""

    def run(batches: Batches) -> Batches:
        _freeze()
        yield from function(batches)

    return run


def _freeze() -> None:
    # A function of this module travels to the worker by its name, and finds the imports of that process there.
    _IMPORTS.freeze()
