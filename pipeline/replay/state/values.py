"""What numbers in fields of the state stand for."""

from typing import Final

UNLOOKED: Final = -2  # for the owner of a hash: not looked up yet

# `permits_known_by`: what shows the permits of consumers.
BY_FLOWS: Final = 1
BY_SNAPSHOTS: Final = 2

# `ack_sets`: what acknowledgements of parts of a batch do (contract 5.3).
SETS_IGNORED: Final = 0  # the trace says that they are off
SETS_DELETE: Final = 1  # nobody says: an entry is deleted once all its messages are acknowledged; no count is lowered
SETS_COUNT: Final = 2  # counts of unacknowledged messages are lowered as well

# `delays`: whether the broker heeds delayed delivery.
DELAYS_ON: Final = 0
DELAYS_OFF: Final = 1  # a row says so
DELAYS_CLAIMED_OFF: Final = 2  # trace.json says so, and a policy may say otherwise

# `resetting`: between the two rows of a reset both the old dispatcher and the new one may act.
NO_RESET: Final = 0
RESET_BEGUN: Final = 1  # the old dispatcher may still act
RESTARTED: Final = 2  # the old dispatcher is gone
RESET_ENDED: Final = 3  # the second row has come, but the moment of the restart has not

# `leaving` of a consumer.
LEAVING: Final = 1
CLOSED: Final = 2  # it was closed with the old dispatcher: its rows do not concern the new one

# `claim` of a claimed limit: whether the broker respects it.
CLAIM_STANDS: Final = 0
CLAIM_CONTRADICTED: Final = 1  # the kernel has stopped for it
CLAIM_DISREGARDED: Final = 2  # nothing is judged by it any more
