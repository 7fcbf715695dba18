"""Finds the compiled code of a function: in the wheel, else in what this user has compiled before.

numba's own cache checks the file of a function, not the files of the functions that it calls, and refuses code that was
compiled for another processor. Here the folder has its name from all sources (`files_of_wheel.version_of`), and the
code of the wheel runs on any processor of the machine's kind.
"""

import contextlib
import functools
import logging
import os
from pathlib import Path
from typing import Any, Final

from numba.core.caching import IndexDataCacheFile, _Cache
from numba.core.compiler import CompileResult

from dispatch_audit.pipeline.cache_folder import cache_folder
from dispatch_audit.pipeline.compilation.files_of_wheel import COMPILED, why_none_fits

_log = logging.getLogger(__name__)
# What numba calls the processor whose instructions all of its kind have, and the features that it names then.
_ANY_PROCESSOR: Final = ("generic", "")


class CodeCache(_Cache):
    """The compiled code of a function that Python calls, for each signature.

    Args:
        version: names the sources and the environment, as `version_of` does.
        name: of the function, different for each function of the sources.
    """

    def __init__(self, version: str, name: str) -> None:
        self._version = version
        self._name = name

    @property
    def cache_path(self) -> str:
        """The folder of what this user has compiled; it is made where there is none."""
        base = os.environ.get("NUMBA_CACHE_DIR")
        if not base:
            return str(cache_folder(self._version))
        folder = Path(base, self._version)
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Returns the code for a signature; None: it has to be compiled."""
        target_context.refresh()
        machine, *processor = target_context.codegen().magic_tuple()
        of_wheel = COMPILED / self._version
        data = self._files(of_wheel).load((sig, machine, *_ANY_PROCESSOR))
        if data is None:
            data = self._files(self.cache_path).load((sig, machine, *processor))
        if data is not None:
            return CompileResult._rebuild(target_context, *data)
        if not of_wheel.is_dir():
            _say_why()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keeps compiled code for later processes, if there is a place for it."""
        with contextlib.suppress(OSError):
            self._files(self.cache_path).save((sig, *data.codegen.magic_tuple()), data._reduce())

    def enable(self) -> None:
        """Does nothing: the cache is always in use."""

    def disable(self) -> None:
        """Does nothing: the cache is always in use."""

    def flush(self) -> None:
        """Forgets what this user has compiled of the function."""
        self._files(self.cache_path).flush()

    def _files(self, folder: Path | str) -> IndexDataCacheFile:
        # The folder names the sources, so the files need no stamp.
        return IndexDataCacheFile(str(folder), self._name, source_stamp=None)


@functools.cache
def _say_why() -> None:
    """Says once in a process why it compiles."""
    _log.warning("compiling what has not run on this machine yet, at first for up to a minute: %s", why_none_fits())
