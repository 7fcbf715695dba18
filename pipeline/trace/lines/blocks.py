"""Cuts files of lines into blocks of whole lines."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa

BLOCK_BYTES: Final = 8 << 20
"""How much of a file is parsed at a time; a longer line is a block by itself."""
# Of many very short lines the arrays of rows would be larger than the text.
_LINES_MAX: Final = 1 << 16
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def blocks_of(path: str, begin: int, end: int | None) -> Iterator[bytes]:
    """Yields the lines of a part of a file in blocks; all of them but the last of a file end with a newline.

    Args:
        path: the file; compressed if it ends in `.gz` or `.zst`.
        begin: first byte of the part; lines that begin from there on belong to it.
        end: lines that begin from there on do not belong to it; None: the part is the whole file.

    Raises:
        OSError: the file cannot be read, or is damaged.
        EOFError: a compressed file ends too early.
    """
    chunks = _whole_file(path) if end is None else _part(path, begin, end)
    for number, block in enumerate(_blocks(chunks)):
        marked = number == 0 and begin == 0
        yield from _cut(block.removeprefix(_BYTE_ORDER_MARK) if marked else block)


def _whole_file(path: str) -> Iterator[bytes]:
    with _opened(path) as stream:
        while chunk := stream.read(BLOCK_BYTES):
            yield chunk


def _opened(path: str) -> Any:
    if path.endswith(".zst"):
        return pa.CompressedInputStream(pa.OSFile(path), "zstd")
    return gzip.open(path) if path.endswith(".gz") else Path(path).open("rb")


def _part(path: str, begin: int, end: int) -> Iterator[bytes]:
    with Path(path).open("rb") as stream:
        # The line that holds the byte before the part began in the part before.
        at = 0 if begin == 0 else _behind_newline(stream, begin - 1)
        last = _behind_newline(stream, end - 1)
        stream.seek(at)
        while at < last:
            chunk = stream.read(min(BLOCK_BYTES, last - at))
            if not chunk:
                return  # the file has become shorter
            at += len(chunk)
            yield chunk


def _behind_newline(stream: BinaryIO, at: int) -> int:
    """Returns the index behind the first newline from `at` on, or the size of the file."""
    stream.seek(at)
    while chunk := stream.read(1 << 16):
        found = chunk.find(b"\n")
        if found >= 0:
            return at + found + 1
        at += len(chunk)
    return at


def _blocks(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yields the same bytes cut behind newlines."""
    pending: list[bytes] = []
    for chunk in chunks:
        end = chunk.rfind(b"\n") + 1
        if end:
            yield b"".join((*pending, chunk[:end]))
            pending = []
        if end < len(chunk):
            pending.append(chunk[end:])
    if pending:
        yield b"".join(pending)


def _cut(block: bytes) -> Iterator[bytes]:
    if block.count(b"\n") <= _LINES_MAX:
        yield block
        return
    middle = block.index(b"\n", len(block) // 2) + 1 if b"\n" in block[len(block) // 2 :] else 0
    if middle in (0, len(block)):
        yield block
        return
    yield from _cut(block[:middle])
    yield from _cut(block[middle:])
