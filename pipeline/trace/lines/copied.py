"""Copies texts and keys out of a block; compiled."""

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.trace.lines.compiled import compiled
from dispatch_audit.pipeline.trace.lines.tokens import Text

_PADDING = ord("=")
_NO_DIGIT = 64
_DIGITS = np.full(256, _NO_DIGIT, dtype=np.uint32)
_DIGITS[[*b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"]] = np.arange(64)


@compiled
def copy_texts(text: Text, at: NDArray[np.int64], ends: NDArray[np.int32], copied: Text) -> None:
    """Copies one text after the other.

    Args:
        text: the block.
        at: first byte of each text.
        ends: where each text begins in `copied`, and after them the size of `copied`.
        copied: to be filled.
    """
    for row in range(at.size):
        begin, target = at[row], ends[row]
        for byte in range(ends[row + 1] - target):
            copied[target + byte] = text[begin + byte]


@compiled
def copy_keys(
    text: Text,
    at: NDArray[np.int64],
    size: NDArray[np.int64],
    ends: NDArray[np.int32],
    copied: Text,
    unread: NDArray[np.bool_],
) -> None:
    """Decodes keys in base64, one after the other.

    Args:
        text: the block.
        at: first byte of each text.
        size: its bytes; -1: null.
        ends: to be filled with where each key begins in `copied`, and after them how much of it is used.
        copied: to be filled; as long as all texts.
        unread: to be filled with whether a text is not plain base64.
    """
    used = 0
    for row in range(at.size):
        ends[row] = used
        unread[row] = False
        if size[row] <= 0:
            continue
        begin, end = at[row], at[row] + size[row]
        if size[row] % 4 == 0 and text[end - 1] == _PADDING:
            end -= 2 if text[end - 2] == _PADDING else 1
        first, bits, held = used, np.uint32(0), 0
        for place in range(begin, end):
            digit = _DIGITS[text[place]]
            if digit == _NO_DIGIT:
                unread[row] = True
            bits = (bits << np.uint32(6)) | digit
            held += 6
            if held >= 8:
                held -= 8
                copied[used] = (bits >> np.uint32(held)) & np.uint32(255)
                used += 1
        if held == 6:
            unread[row] = True
        if unread[row]:
            used = first
    ends[at.size] = used
