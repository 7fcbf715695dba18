"""Opens files of lines, compressed or not."""

import gzip
import sys
import zlib
from io import BufferedIOBase
from pathlib import Path
from typing import Final, cast

from dispatch_audit.pipeline.storage.store_path import AnyPath

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

DAMAGED: Final = (OSError, EOFError, zlib.error, zstd.ZstdError)
"""The errors of a file that cannot be read; `EOFError`: it is compressed and ends too early."""


def open_lines(path: AnyPath) -> BufferedIOBase:
    """Returns a stream of the text of a file, from its beginning.

    Args:
        path: the file; compressed if it ends in `.gz` or `.zst`.

    Raises:
        OSError: it cannot be opened.
    """
    # What unpacks a file of this machine opens and closes it itself.
    packed = path if isinstance(path, Path) else path.open()
    if path.suffix == ".gz":
        return gzip.open(packed)
    if path.suffix == ".zst":
        return cast("BufferedIOBase", zstd.open(packed))
    return cast("BufferedIOBase", path.open("rb"))
