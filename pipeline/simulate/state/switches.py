"""What differs between the versions of a draining dispatcher, and between a broker and its broken variants.

Source: contract 11, "Version switches needed"; each switch follows from a key of the profile, so no code compares
version numbers.
"""

from dataclasses import dataclass

from dispatch_audit.pipeline.contract.profile import Profile


@dataclass(frozen=True, slots=True)
class Switches:
    """The switches of a dispatcher.

    Attributes:
        per_read_blocked_hashes: an entry is refused if an earlier one of its hash was refused in the same read (4.11).
        eager_return: a hash that returns to its holder stops draining at the membership change (3.10), not at the next
            attempt to dispatch it (3.9).
        clean_up_in_read_loop: mark-delete passing a pending entry releases it at the next read (4.0), not when an
            administrator moves it (3.11); then every move of mark-delete asks for a read.
        reads_at_redelivery: every redeliver command asks for a read, not only one that returned entries, or permits
            that had been withheld (5.6).
        look_ahead_needs_backlog: an ordered subscription reads nothing ahead at the end of the topic (3.11, #21554).
        replay_addition_guard: what entered replay during a replay read holds back later entries of its hash (3.13).
        draining: hashes drain at all. Off: a broken variant.
        race_guard: a consumer is asked once more when an entry is sent (3.7). Off: a broken variant.
        replay_order_check: a normal read passes no entry of its hash that waits in replay. Off: a broken variant.
        filtered_out_of_order: a replay read takes only what consumers have permits for, and nothing is read ahead at
            the tail, with out-of-order delivery too (#26268, contract 4.5). Off: as before that was mended.
        reads_after_writes: a dispatch that was written to its connections is followed by a read (4.1). Off: a broken
            variant (#26635).
        recently_joined: newcomers wait until older entries are acknowledged, on a dispatcher that knows them (6.1). Off
            with out-of-order delivery.
        joins_in_order: recently joined consumers are remembered in the order of their positions (6.3). Off: the newest
            comes first, a broken variant (F8).
        send_gap_us: time between choosing a consumer and sending to it, without the lock; 0: one action, as in 4.x.
    """

    per_read_blocked_hashes: bool = True
    eager_return: bool = True
    clean_up_in_read_loop: bool = False
    reads_at_redelivery: bool = True
    look_ahead_needs_backlog: bool = True
    replay_addition_guard: bool = False
    draining: bool = True
    race_guard: bool = True
    replay_order_check: bool = True
    filtered_out_of_order: bool = True
    reads_after_writes: bool = True
    recently_joined: bool = True
    joins_in_order: bool = True
    send_gap_us: int = 0


def switches_of(profile: Profile) -> Switches:
    """The switches of a release."""
    draining = profile.dispatcher == "draining"
    return Switches(
        # 4.0.0 to 4.0.2 lack it, and only they have the exception for it (#23870).
        per_read_blocked_hashes="E8" not in profile.exceptions,
        eager_return=profile.draining_return == "eager",
        clean_up_in_read_loop=profile.mark_delete_releases == "any",
        reads_at_redelivery=not draining or profile.mark_delete_releases != "any",
        look_ahead_needs_backlog=draining and profile.look_ahead_at_the_end != "any",
        filtered_out_of_order=not draining or profile.look_ahead_at_the_end == "none",
        # E7 is permitted where the guard is missing.
        replay_addition_guard=draining and "E7" not in profile.exceptions,
    )
