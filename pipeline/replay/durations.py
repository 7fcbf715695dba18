"""How long things take in a broker and a recorder, as far as the replay has to assume it, each with its reason.

Durations that are settings of the audit are in `settings/broker_limits.py` (`Thresholds`).
"""

from typing import Final

READ_AND_PAUSE_US: Final = 100_000
"""A read takes 0.7 to 40 ms, and the pause after one that brings nothing to send 10 ms (contract 4.9, 6.6)."""
READ_US: Final = 1_000_000
"""How long a read may be in flight: 0.7 to 40 ms were measured (contract 6.6, which allows 1 s)."""
SLOWEST_READ_US: Final = 10_000_000
"""A replay read in flight is over by then: the second of `READ_US`, ten times for a slow disk."""
FAILED_READ_US: Final = 15_000_000
"""A broker tries a read that failed again after this time at least: dispatcherReadFailureBackoffInitialTimeInMs."""
SKIP_US: Final = 10_000_000
"""A skip, clear or expiry is over by then, even if no row says so."""

SNAPSHOT_LAG_US: Final = 100_000
"""The longest time between the row of an event and its effect in a snapshot."""
SNAPSHOT_LATE_US: Final = 1_000_000
"""The longest time between the moment at which a snapshot was taken and its row.

The state of an earlier moment is gone, so that a snapshot whose row comes later is compared with nothing.
"""
SNAPSHOT_NEAR_US: Final = 30_000_000
"""A snapshot that is further away from a block of duplicates says nothing of it."""

BROUGHT_ABOUT_US: Final = 1_000_000
"""An event this shortly before a dispatch counts as the reason for it."""
CLOCK_BACK_US: Final = 1_000_000
"""A clock that goes back by less is corrected as clocks are (NTP), and only takes rows out of their order."""

PERIOD_US: Final = 1_000_000
"""That of a limit of the dispatch rate, by default."""
BACKOFF_US: Final = 1_000_000
"""A broker that has used up a limit of the rate asks again then: MESSAGE_RATE_BACKOFF_MS (contract 4.2, step 5d)."""
TIMER_LATE_US: Final = 250_000
"""The timer of a broker may be so late, with the way of a dispatch to its row."""
PAUSE_MAX_US: Final = PERIOD_US + BACKOFF_US + TIMER_LATE_US
"""The longest pause of a limit of the rate that is used up."""
PAUSE_MIN_US: Final = 500_000
"""A shorter time without a dispatch does not divide bursts of a limit that only the traffic shows."""
HORIZON_US: Final = 20_000_000
"""How long after a pause dispatches may still show that a limit of the rate caused it."""
