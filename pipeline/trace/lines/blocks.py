"""Cuts files of lines into blocks of whole lines."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import pyarrow as pa

BLOCK_BYTES: Final = 8 << 20
"""How much of a file is parsed at a time; a longer line is a block by itself."""
# Of many very short lines the arrays of rows would be larger than the text.
_LINES_MAX: Final = 1 << 16
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class Block(NamedTuple):
    """Some whole lines of a file.

    Attributes:
        text: the lines; the last line of a file may lack its newline.
        newlines: how many newlines the text has.
    """

    text: bytes
    newlines: int


def blocks_of(path: str, begin: int, end: int | None) -> Iterator[Block]:
    """Yields the lines of a part of a file in blocks.

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
        text = block.removeprefix(_BYTE_ORDER_MARK) if marked else block
        yield from _cut(Block(text, text.count(b"\n")))


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


def _cut(block: Block) -> Iterator[Block]:
    text = block.text
    half = len(text) // 2
    middle = text.find(b"\n", half) + 1
    if block.newlines <= _LINES_MAX or middle in (0, len(text)):
        yield block
        return
    first = text.count(b"\n", 0, middle)
    yield from _cut(Block(text[:middle], first))
    yield from _cut(Block(text[middle:], block.newlines - first))
