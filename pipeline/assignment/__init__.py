"""Who owns which hash: Pulsar's selectors, rebuilt from the joins and leaves of a trace (contract 2)."""

from dispatch_audit.pipeline.assignment.epochs import AssignmentLog, Epoch, Undecided
from dispatch_audit.pipeline.assignment.ranges.membership_change import DeclaredRanges
from dispatch_audit.pipeline.assignment.ranges.routing import NOBODY, HashRangeOf, Routing, hashes_moved
from dispatch_audit.pipeline.assignment.selectors.factory import DEFAULT_POINTS, make_selector
from dispatch_audit.pipeline.assignment.selectors.selector import Selector

__all__ = [
    "DEFAULT_POINTS",
    "NOBODY",
    "AssignmentLog",
    "DeclaredRanges",
    "Epoch",
    "HashRangeOf",
    "Routing",
    "Selector",
    "Undecided",
    "hashes_moved",
    "make_selector",
]
