"""Keeps compiled functions on disk, in a folder for each version of the sources that they are made of.

numba checks only the file of a function, not the files of the functions that it calls. With one folder it would use
code that was compiled with an older callee.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


def cache_folder(sources: Iterable[Path], constants: str = "") -> Path:
    """Returns the folder for code compiled from these sources, and makes it.

    Args:
        sources: every file that the compiled functions come from.
        constants: other values that are compiled in.
    """
    texts = [path.read_bytes() for path in sources]
    digest = hashlib.sha256(b"\0".join([*texts, constants.encode()])).hexdigest()[:16]
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "pulsar-dispatch-audit" / digest
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        # A worker without a writable home uses the temporary folder of the machine.
        folder = Path(tempfile.gettempdir()) / f"pulsar-dispatch-audit-{os.getuid()}" / digest
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
