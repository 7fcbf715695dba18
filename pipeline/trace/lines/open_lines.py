"""Opens files of lines, compressed or not."""

import gzip
import sys
import zlib
from io import BufferedIOBase
from pathlib import Path
from typing import Final, cast

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

DAMAGED: Final = (OSError, EOFError, zlib.error, zstd.ZstdError)
"""The errors of a file that cannot be read; `EOFError`: it is compressed and ends too early."""


def open_lines(path: str) -> BufferedIOBase:
    """Returns a stream of the text of a file, from its beginning.

    Args:
        path: the file; compressed if it ends in `.gz` or `.zst`.

    Raises:
        OSError: it cannot be opened.
    """
    if path.endswith(".gz"):
        return gzip.open(path)
    if path.endswith(".zst"):
        return cast("BufferedIOBase", zstd.open(path))
    return Path(path).open("rb")
