"""Names that a misspelt one may stand for."""

import difflib
from collections.abc import Iterable
from typing import Final

# Letters left out, added or exchanged by a slip. Settings of broker.conf that differ on purpose differ in a word.
_SLIP_LETTERS: Final = 2


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns the known names that are nearest to a name, as a question; empty if none is near."""
    found = _close(name, known)
    return f"did you mean {' or '.join(found)}?" if found else ""


def misspelt(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that a name differs from by no more than a slip; None: it is known, or another name."""
    names = list(known)
    if name in names:
        return None
    return next((other for other in _close(name, names) if _letters_apart(name, other) <= _SLIP_LETTERS), None)


def _close(name: str, known: Iterable[str]) -> list[str]:
    """Returns the nearest names, the nearest first; capitals count as their small letters."""
    by_letters = {other.lower(): other for other in known}
    number = 1 if name.lower() in by_letters else 2
    return [by_letters[found] for found in difflib.get_close_matches(name.lower(), by_letters, n=number)]


def _letters_apart(name: str, other: str) -> int:
    blocks = difflib.SequenceMatcher(None, name.lower(), other.lower(), autojunk=False).get_matching_blocks()
    return len(name) + len(other) - 2 * sum(block.size for block in blocks)
