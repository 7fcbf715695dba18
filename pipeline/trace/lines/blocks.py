"""Cuts files of lines into blocks of whole lines."""

from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from dispatch_audit.pipeline.storage.store_path import AnyPath
from dispatch_audit.pipeline.trace.lines.open_lines import open_lines

BLOCK_BYTES: Final = 8 << 20
"""How much of a file is parsed at a time; a longer line is a block by itself."""
# With more lines, all of them very short, the arrays of rows would be larger than the text.
_LINES_MAX: Final = 1 << 16
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class TornFileError(EOFError):
    """A compressed file ends too early; all whole lines before that point have been read.

    Attributes:
        text: the beginning of the line in which the file ends; empty if it ends between lines.
    """

    def __init__(self, text: bytes) -> None:
        super().__init__("the compressed file ends too early")
        self.text = text


class LineBlock(NamedTuple):
    """Some whole lines of a file.

    Attributes:
        text: the lines; the last line of a file may lack its newline.
        newlines: how many newlines the text has.
    """

    text: bytes
    newlines: int


def blocks_of(path: AnyPath, begin: int, end: int | None) -> Iterator[LineBlock]:
    """Yields the lines of a part of a file in blocks.

    Args:
        path: the file; compressed if it ends in `.gz` or `.zst`.
        begin: first byte of the part; lines that begin from there on belong to it.
        end: lines that begin from there on do not belong to it; None: the part is the whole file.

    Raises:
        TornFileError: a compressed file ends too early; raised after its last whole line.
        OSError: the file cannot be read, or is damaged; `zlib.error` and `ZstdError` say the latter too.
    """
    chunks = _whole_file(path) if end is None else _part(path, begin, end)
    for number, block in enumerate(_blocks(chunks)):
        marked = number == 0 and begin == 0
        text = block.removeprefix(_BYTE_ORDER_MARK) if marked else block
        yield from _cut(LineBlock(text, text.count(b"\n")))


def _whole_file(path: AnyPath) -> Iterator[bytes]:
    """Yields the content of a file; if it is compressed and ends too early, all of it up to there.

    Raises:
        EOFError: it ends too early.
    """
    with open_lines(path) as stream:
        read, size = list[bytes](), 0
        while True:
            # Where a file ends too early, `read` would drop what it has read so far.
            try:
                chunk = stream.read1(BLOCK_BYTES)
            except EOFError:
                yield b"".join(read)
                raise
            if not chunk:
                break
            read.append(chunk)
            size += len(chunk)
            if size >= BLOCK_BYTES:
                yield b"".join(read)
                read, size = [], 0
        yield b"".join(read)


def _part(path: AnyPath, begin: int, end: int) -> Iterator[bytes]:
    with path.open("rb") as stream:
        # The line that holds the byte before the part began in the part before.
        at = 0 if begin == 0 else _after_newline(stream, begin - 1)
        last = _after_newline(stream, end - 1)
        stream.seek(at)
        while at < last:
            chunk = stream.read(min(BLOCK_BYTES, last - at))
            if not chunk:
                return  # the file has become shorter
            at += len(chunk)
            yield chunk


def _after_newline(stream: BinaryIO, at: int) -> int:
    """Returns the index after the first newline from `at` on, or the size of the file."""
    stream.seek(at)
    while chunk := stream.read(1 << 16):
        found = chunk.find(b"\n")
        if found >= 0:
            return at + found + 1
        at += len(chunk)
    return at


def _blocks(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yields the same bytes cut after newlines."""
    pending: list[bytes] = []
    try:
        for chunk in chunks:
            end = chunk.rfind(b"\n") + 1
            if end:
                yield b"".join((*pending, chunk[:end]))
                pending = []
            if end < len(chunk):
                pending.append(chunk[end:])
    except EOFError as error:
        raise TornFileError(b"".join(pending)) from error
    if pending:
        yield b"".join(pending)


def _cut(block: LineBlock) -> Iterator[LineBlock]:
    text = block.text
    half = len(text) // 2
    middle = text.find(b"\n", half) + 1
    if block.newlines <= _LINES_MAX or middle in (0, len(text)):
        yield block
        return
    first = text.count(b"\n", 0, middle)
    yield from _cut(LineBlock(text[:middle], first))
    yield from _cut(LineBlock(text[middle:], block.newlines - first))
