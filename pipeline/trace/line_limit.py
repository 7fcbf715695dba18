"""How long a line of JSON Lines may be."""

from typing import Final

LINE_BYTES_MAX: Final = 16 << 20
"""The longest line that is read unless a caller says another length; a row has a few hundred bytes."""
