"""Decodes keys from base64."""

import base64
import re
from typing import Final

# Spaces may stand among the digits, but not after the padding; the padding may be left out.
_BASE64: Final = re.compile(r"([A-Za-z0-9+/\s]*)(={0,2})")
_SPACE: Final = re.compile(r"\s")


def key_of(text: str) -> bytes | None:
    """Returns the bytes that a text in base64 stands for; None if it is not base64."""
    found = _BASE64.fullmatch(text)
    if found is None:
        return None
    digits, padding = _SPACE.sub("", found[1]), found[2]
    if len(digits) % 4 == 1 or (padding and (len(digits) + len(padding)) % 4):
        return None
    return base64.b64decode(digits + "=" * (-len(digits) % 4))
