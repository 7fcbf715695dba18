"""Numbers with their nouns in a text."""


def count(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun, such as `1 entry` or `2,000 entries`; the default plural adds an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def entries(number: int) -> str:
    """A number of entries: `1 entry`, `3 entries`."""
    return count(number, "entry", "entries")
