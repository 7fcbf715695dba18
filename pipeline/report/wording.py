"""Numbers, times and names as text."""

from collections.abc import Sequence
from typing import Final

from dispatch_audit.pipeline import utc
from dispatch_audit.pipeline.plural import count


def moment(ts_us: int) -> str:
    """Returns a time in UTC, to the millisecond; the clocks of a trace are no finer."""
    return utc.moment(ts_us)[:-3]


def duration(seconds: float) -> str:
    """Returns a length of time in milliseconds, seconds, minutes or hours, whichever fits."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def share(part: float) -> str:
    """Returns a share in percent; 100 % stands for the whole only."""
    percent = f"{part * 100:.2f}".rstrip("0").rstrip(".")
    return "99.99 %" if percent == "100" and part < 1 else f"{percent} %"


def consumer(number: int | None, name: str | None) -> str:
    """Returns a consumer by name and by number, because names may be equal (Q19)."""
    if number is None:
        return "nobody"
    return f"{printable(name)} (consumer {number})" if name else f"consumer {number}"


def printable(text: str) -> str:
    """Returns a text without control characters: clients choose names and keys, and must not control the terminal."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def named(key: str) -> str:
    """Returns a key as a text names it; one that is empty is two quotation marks."""
    return printable(key) or '""'


def sentence(text: str) -> str:
    """Returns a text with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def listed(names: Sequence[str]) -> str:
    """Returns names in a sentence: `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def together(inputs: Sequence[str]) -> str:
    """Returns the logs of one trace by their folder if they share one, else by their names."""
    folders = {log.rpartition("/")[0] for log in inputs}
    if len(inputs) > 1 and len(folders) == 1:
        return f"{folders.pop()} ({len(inputs)} logs)"
    return ", ".join(inputs)


DIGESTS: Final = "digests that the recorder wrote in their place; explain --key takes a digest"
"""What the keys of a report are, if they are not the keys of the application."""


def of_sample(share_of_hashes: str, salt: str) -> str:
    """Returns what a sample of the hashes says of the others."""
    return (
        f"{share_of_hashes} of them, by salt {salt!r}: the findings about order are those of these hashes; limits and "
        "stalls, which depend on all, are not provable"
    )


def dropped(rows: int, gaps: int) -> str:
    """Returns how many rows recorders dropped, as a clause."""
    return f"{count(rows, 'row')} dropped by the recorder in {count(gaps, 'gap')}"
