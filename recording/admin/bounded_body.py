"""Reads the body of an answer, up to a size and within a time: whoever answers may be no broker, or a hostile one."""

import time
from typing import Final

import urllib3

BODY_BYTES_MAX: Final = 64 << 20
"""Of a body, decompressed. Statistics of 1,000 consumers with 100 ranges each are about 4 MB."""
WHOLE_ANSWER: Final = 6
"""How many times as long as one wait for bytes a whole body may take."""
# What a compressed piece of this size expands to is in memory at a time.
_PIECE_BYTES: Final = 16 << 10


class TooMuchError(Exception):
    """Raised when a body is larger, or takes longer, than any answer of a broker."""


def bounded_body(answer: urllib3.BaseHTTPResponse, seconds_max: float) -> str:
    """Returns the body of an answer as text.

    Raises:
        TooMuchError: it is larger than `BODY_BYTES_MAX`, or not over after `seconds_max`.
        urllib3.exceptions.HTTPError: it ends early, or no bytes come within the timeout of the request.
    """
    until, size, pieces = time.monotonic() + seconds_max, 0, []
    while piece := answer.read1(_PIECE_BYTES, decode_content=True):
        size += len(piece)
        if size > BODY_BYTES_MAX:
            raise TooMuchError(f"answers with more than {BODY_BYTES_MAX >> 20} MB")
        if time.monotonic() > until:
            raise TooMuchError(f"has not ended its answer after {seconds_max:.0f} s")
        pieces.append(piece)
    return b"".join(pieces).decode(errors="replace")
