"""What the truth of a simulation says, on schedules of which it once said too little or too much."""

from broker_truth import LOOK_US, SHORT_CAUSE_US, Silences
from drawn_schedules import MS, S, drawn_schedule
from judged_schedules import simulated_rows


def longest(able_at_looks: str, bridged_us: int) -> int:
    """The longest silence in looks; `x`: an entry could be sent, `.`: none could."""
    silences = Silences(bridged_us)
    for number, look in enumerate(able_at_looks):
        silences.look({1} if look == "x" else set(), number * LOOK_US, 0)
    return silences.longest_between(0, 10 * S) // LOOK_US


def test_a_short_cause_divides_no_silence_in_which_a_stall_may_be_found() -> None:
    divided = "x" * 10 + ".." + "x" * 10
    assert longest(divided, SHORT_CAUSE_US) == 21
    assert longest(divided, 0) == 9
    assert longest("x" * 10 + "..." + "x" * 10, SHORT_CAUSE_US) == 9


def test_what_a_leaver_gives_back_takes_the_subscription_below_its_limit_until_it_is_sent_again() -> None:
    """Consumer 1 of this seed holds all that is unacknowledged and leaves; 2 is sent it within the same look."""
    seed, kind = 17_000_006, "over_subscription_limit"
    assert simulated_rows(drawn_schedule(seed, kind), seed)[1].over_subscription == 0


def test_a_blocked_consumer_could_be_sent_what_waits_while_it_is_sent_something() -> None:
    """The owner of entry 137 is blocked on unacknowledged messages for half of this time, and is sent later entries."""
    seed, kind = 9_810_004, "out_of_order_unfiltered"
    truth = simulated_rows(drawn_schedule(seed, kind), seed)[1]
    assert truth.could_be_sent_us(137, 3_822 * MS, 5_302 * MS) >= 800 * MS


def test_what_a_sound_broker_could_not_have_read_either_makes_no_silence_certain() -> None:
    """Ten entries that wait for permits fill replay in front of 26, which a sound broker sends at 9.473 s."""
    seed, kind = 19_000_058, "no_read_after_writes"
    truth = simulated_rows(drawn_schedule(seed, kind), seed)[1]
    assert truth.silences.longest_between(0, 9_400 * MS) > 2 * S
    assert min(span.from_us for span in truth.certain.spans) > 9_400 * MS
