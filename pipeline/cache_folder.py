"""The folder in which this program keeps what it can make again, such as compiled code."""

import os
import tempfile
from pathlib import Path

_NAME = "pulsar-dispatch-audit"


def cache_folder(name: str) -> Path:
    """Returns a folder below the user's cache, and makes it."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / _NAME / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        # A worker without a writable home uses the temporary folder of the machine.
        folder = Path(tempfile.gettempdir()) / f"{_NAME}-{os.getuid()}" / name
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
