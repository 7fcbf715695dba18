"""How numbers, times and names are written in a text."""

from collections.abc import Sequence

from pipeline import utc


def moment(ts_us: int) -> str:
    """A time in UTC, to the millisecond: finer than that a trace's clocks are not."""
    return utc.moment(ts_us)[:-3]


def duration(seconds: float) -> str:
    """A length of time in the unit that a reader would choose."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def count(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun; the plural is made with an s unless it is given."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def share(part: float) -> str:
    """A share in percent. Only a whole is called 100 %."""
    percent = f"{part * 100:.2f}".rstrip("0").rstrip(".")
    return "99.99 %" if percent == "100" and part < 1 else f"{percent} %"


def consumer(number: int | None, name: str | None) -> str:
    """A consumer by name, and by number because names may be equal (Q19)."""
    if number is None:
        return "nobody"
    return f"{printable(name)} (consumer {number})" if name else f"consumer {number}"


def printable(text: str) -> str:
    """A text of the trace without what would steer the terminal: names and keys are chosen by clients."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def together(inputs: Sequence[str]) -> str:
    """The logs of one trace in a few words: by their folder, if they share one."""
    folders = {log.rpartition("/")[0] for log in inputs}
    if len(inputs) > 1 and len(folders) == 1:
        return f"{folders.pop()} ({len(inputs)} logs)"
    return ", ".join(inputs)
