"""Who owns which hash: Pulsar's selectors, rebuilt from the joins and leaves of a trace (contract 2)."""

from pipeline.assignment.change import DeclaredRanges
from pipeline.assignment.epochs import AssignmentLog, Epoch, Undecided
from pipeline.assignment.factory import DEFAULT_POINTS, make_selector
from pipeline.assignment.impact import Impact, impacted_ranges
from pipeline.assignment.routing import NOBODY, HashRangeOf, Routing, hashes_moved
from pipeline.assignment.selector import Selector

__all__ = [
    "DEFAULT_POINTS",
    "NOBODY",
    "AssignmentLog",
    "DeclaredRanges",
    "Epoch",
    "HashRangeOf",
    "Impact",
    "Routing",
    "Selector",
    "Undecided",
    "hashes_moved",
    "impacted_ranges",
    "make_selector",
]
