"""Every exception of the contract (contract 9.3) has a story that it excuses, and one that only lacks the excuse.

E4 and E11 have none: entry filters, markers and transactions leave no row in a trace. What an entry filter rejects is
never sent, as if it were not read yet; that one rescheduled it, or that a transaction was aborted, shows in nothing
but a redelivery count that is higher than the redeliver requests, which is `not_provable` for that reason.
"""

from pathlib import Path
from typing import Final, NamedTuple

import pytest

from dispatch_audit.pipeline.contract.exceptions import EXCEPTIONS, ExceptionId


class Pair(NamedTuple):
    """Two scripts of this folder.

    Attributes:
        outcome: the words of the excused finding; empty: there is no finding.
        excused: its name.
        broken: the name of the other one.
    """

    outcome: str
    excused: str
    broken: str


# E9, E10, E12, E13, E15 and E16 cannot be told from a broker that does nothing unusual, and E3 starts everything anew.
PAIRS: Final[dict[ExceptionId, Pair]] = {
    "E1": Pair("permitted by E1", "e01_permitted", "e01_broken"),
    "E2": Pair("permitted by E2", "e02_permitted", "e02_broken"),
    "E3": Pair("", "e03_permitted", "e03_broken"),
    "E5": Pair("permitted by E5", "e05_permitted", "e05_broken"),
    "E6": Pair("permitted #25627 by E6", "e06_permitted", "e06_broken"),
    "E7": Pair("permitted by E7", "e07_permitted", "e07_broken"),
    "E8": Pair("known_bug #23870 by E8", "e08_permitted", "e08_broken"),
    "E9": Pair("", "e09_permitted", "e09_broken"),
    "E10": Pair("", "e10_permitted", "e10_broken"),
    "E12": Pair("", "e12_permitted", "e12_broken"),
    "E13": Pair("", "e13_permitted", "e13_broken"),
    # The exception is a set of flaws, each with a name of its own.
    "E14": Pair("known_bug F1", "e14_permitted", "e14_broken"),
    "E15": Pair("", "e15_permitted", "e15_broken"),
    "E16": Pair("", "e16_permitted", "e16_broken"),
    "E17": Pair("known_bug F10 by E17", "e17_permitted", "e17_broken"),
}
UNSEEN: Final[frozenset[ExceptionId]] = frozenset({"E4", "E11"})
# Facts are told beside them.
SEVERITIES: Final = ("violation", "known_bug", "not_provable", "permitted")


def findings(script: str) -> list[str]:
    """The findings that a script prints; that it does print them is checked by test_scenarios."""
    text = (Path(__file__).parent / f"{script}.txt").read_text(encoding="utf-8")
    _, _, printed = text.partition("\n----\n")
    return [line for line in printed.splitlines() if line.split(" ", 1)[0] in SEVERITIES]


def test_every_exception_has_its_pair_or_cannot_be_seen() -> None:
    assert set(PAIRS) | UNSEEN == set(EXCEPTIONS)
    assert not set(PAIRS) & UNSEEN


@pytest.mark.parametrize(("exception", "pair"), PAIRS.items(), ids=list(PAIRS))
def test_what_is_excused_is_a_violation_without_the_excuse(exception: ExceptionId, pair: Pair) -> None:
    excused, broken = findings(pair.excused), findings(pair.broken)
    assert all(line.startswith(pair.outcome) for line in excused)
    assert bool(excused) == bool(pair.outcome)
    assert broken
    assert all(line.startswith("violation ") for line in broken)
