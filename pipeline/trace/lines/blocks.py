"""Cuts files of lines into blocks of whole lines."""

from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from dispatch_audit.pipeline.storage.store_path import AnyPath
from dispatch_audit.pipeline.trace.line_limit import LINE_BYTES_MAX
from dispatch_audit.pipeline.trace.lines.open_lines import open_lines

BLOCK_BYTES: Final = 8 << 20
"""How much of a file is parsed at a time; a longer line is a block by itself."""
_BLANK_BYTES_MAX: Final = 256 << 20
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


class UnboundedFileError(ValueError):
    """A file has more text than a row can have, and no row in it: reading on would take memory or time without end."""


class LineBlock(NamedTuple):
    """Some whole lines of a file.

    Attributes:
        text: the lines; the last line of a file may lack its newline. Empty: all of them are blank.
        newlines: how many newlines the text has.
    """

    text: bytes
    newlines: int


def blocks_of(path: AnyPath, begin: int, end: int | None, line_bytes_max: int = LINE_BYTES_MAX) -> Iterator[LineBlock]:
    """Yields the lines of a part of a file in blocks.

    Args:
        path: the file; compressed if it ends in `.gz` or `.zst`.
        begin: first byte of the part; lines that begin from there on belong to it.
        end: lines that begin from there on do not belong to it; None: the part is the whole file.
        line_bytes_max: the longest line.

    Raises:
        UnboundedFileError: a line is longer, or hundreds of megabytes are blank; raised after the lines before.
        TornFileError: a compressed file ends too early; raised after its last whole line.
        OSError: the file cannot be read, or is damaged; `zlib.error` and `ZstdError` say the latter too.
    """
    chunks = _whole_file(path) if end is None else _part(path, begin, end, line_bytes_max)
    blank = 0
    for number, block in enumerate(_blocks(chunks, line_bytes_max)):
        marked = number == 0 and begin == 0
        text = block.removeprefix(_BYTE_ORDER_MARK) if marked else block
        newlines = text.count(b"\n")
        if text.endswith(b"\n") and text.isspace():
            blank += len(text)
            if blank > _BLANK_BYTES_MAX:
                raise UnboundedFileError(f"more than {_BLANK_BYTES_MAX >> 20} MB are blank lines")
            yield LineBlock(b"", newlines)
            continue
        blank = 0
        yield from _cut(LineBlock(text, newlines))


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


def _part(path: AnyPath, begin: int, end: int, line_bytes_max: int) -> Iterator[bytes]:
    with path.open("rb") as stream:
        # The line that holds the byte before the part began in the part before.
        at = 0 if begin == 0 else _after_newline(stream, begin - 1, line_bytes_max)
        last = _after_newline(stream, end - 1, line_bytes_max)
        stream.seek(at)
        while at < last:
            chunk = stream.read(min(BLOCK_BYTES, last - at))
            if not chunk:
                return  # the file has become shorter
            at += len(chunk)
            yield chunk


def _after_newline(stream: BinaryIO, begin: int, line_bytes_max: int) -> int:
    """Returns the index after the first newline from `begin` on, or the size of the file.

    Raises:
        UnboundedFileError: there is none for longer than a line may be.
    """
    at = stream.seek(begin)
    while chunk := stream.read(1 << 16):
        found = chunk.find(b"\n")
        if found >= 0:
            return at + found + 1
        at += len(chunk)
        if at - begin > line_bytes_max:
            raise _too_long(line_bytes_max)
    return at


def _too_long(line_bytes_max: int) -> UnboundedFileError:
    return UnboundedFileError(f"a line is longer than {line_bytes_max >> 20} MB (trace.line_mb_max)")


def _blocks(chunks: Iterator[bytes], line_bytes_max: int) -> Iterator[bytes]:
    """Yields the same bytes cut after newlines.

    Raises:
        UnboundedFileError: a line is longer than it may be.
    """
    pending: list[bytes] = []
    size = 0
    try:
        for chunk in chunks:
            end = chunk.rfind(b"\n") + 1
            if end:
                yield b"".join((*pending, chunk[:end]))
                pending, size = [], 0
            if end < len(chunk):
                pending.append(chunk[end:])
                size += len(chunk) - end
            if size > line_bytes_max:
                raise _too_long(line_bytes_max)
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
