"""The sentence of a finding in its parts: what happened, against what, why it is judged so, and what helps.

`violations.explanation` is one sentence, which programs get as it is. Its clauses have an order that the verdicts keep
(`replay/verdicts/explanations.py`): the event, after a conjunction what contradicts it, reasons after semicolons, and
known bugs with their remedies. A name that holds such words moves a border between two parts, and loses nothing.
"""

import re
from dataclasses import dataclass
from typing import Final

_BUG: Final = "; known bug "
_CONTRADICTS: Final = re.compile(r", (?:but|although|however|after)(?= )")
_CHANGE: Final = re.compile(r"in epoch \d+ \(((?:join|leave) .+?)\)(?=,| (?:no consumer|the hash) |$)")


@dataclass(frozen=True)
class Said:
    """The parts of a sentence.

    Attributes:
        what: the event.
        against: what contradicts it; empty: the event is wrong by itself.
        why: the reasons for the verdict.
        bugs: the known bugs that explain it, each with its title.
        remedy: what helps; empty: no known bug explains it.
        change: the membership change that began the epoch of the event, such as `join c2`; None: none is named.
    """

    what: str
    against: str
    why: tuple[str, ...]
    bugs: tuple[str, ...]
    remedy: str
    change: str | None


def said(explanation: str) -> Said:
    """Returns the parts of the sentence of a finding."""
    clauses, *bugs = explanation.split(_BUG)
    event, *why = clauses.split("; ")
    what, against = event, ""
    if contradiction := _CONTRADICTS.search(event):
        what, against = event[: contradiction.start()], event[contradiction.end() + 1 :]
    remedy = ""
    if bugs:
        # The titles of bugs are one sentence each, and the remedies follow the last of them.
        last, _, remedy = bugs[-1].partition(". ")
        bugs[-1] = last.removesuffix(".")
    change = _CHANGE.search(event)
    return Said(
        what, against, tuple(why), tuple(f"known bug {bug}" for bug in bugs), remedy, change and change.group(1)
    )
