"""Reads the ranges of entries that are acknowledged above mark-delete, as a cursor prints them.

Source: `ManagedCursorImpl.getIndividuallyDeletedMessages`: `[(3:3..3:5],(3:9..3:10]]`, open below and closed above.
"""

import re
from itertools import islice
from typing import Final

RANGES_MAX: Final = 1000
"""Of so many ranges a snapshot keeps the ends; `non_contiguous_deleted_messages_ranges` counts all."""

_RANGE: Final = re.compile(r"\((\d+):(-?\d+)\.\.(\d+):(\d+)\]")


def deleted_ranges(text: str) -> list[list[str]]:
    """Returns the first and the last position of each of the lowest `RANGES_MAX` ranges, both inclusive."""
    return [
        [f"{ledger}:{int(before) + 1}", f"{last_ledger}:{last}"]
        for ledger, before, last_ledger, last in (found.groups() for found in islice(_RANGE.finditer(text), RANGES_MAX))
    ]
