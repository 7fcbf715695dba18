import pytest

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.trace.checks.one_row import TS_US_MAX
from dispatch_audit.pipeline.windows.window import WHOLE, Window, iso_8601, moment_us, window_of

NOON_US = 1_795_262_400_000_000


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21T12:00:00Z",
        "2026-11-21T12:00:00+00:00",
        "2026-11-21T13:00:00+01:00",
        "2026-11-21 12:00",
        "2026-11-21T12:00:00.000000",
        str(NOON_US),
    ],
)
def test_a_moment_is_read_in_every_form(text: str) -> None:
    assert moment_us(text) == NOON_US


def test_a_day_begins_at_midnight_and_fractions_count() -> None:
    assert moment_us("2026-11-21") == NOON_US - 12 * 3_600_000_000
    assert moment_us("2026-11-21T12:00:00.5Z") == NOON_US + 500_000
    assert moment_us("2026-11-21T12:00:00.000001Z") == NOON_US + 1


@pytest.mark.parametrize(
    "text", ["", "noon", "1.5", "-5", "12:00", "2026-13-01", "2026-11-21T25:00", "20261121T12:00Z "]
)
def test_what_is_no_moment_is_told_with_a_way_out(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time; write 2026-11-21T14:00:00Z"):
        moment_us(text)


@pytest.mark.parametrize("text", ["1969-12-31T23:59:59Z", str(TS_US_MAX + 1)])
def test_a_moment_that_no_row_can_have(text: str) -> None:
    with pytest.raises(UsageError, match="1970 to 9999"):
        moment_us(text)


def test_a_window_may_be_open_on_either_side() -> None:
    assert window_of(None, None) == WHOLE
    assert window_of("0", None) == Window(0, None)
    assert window_of(None, "2026-11-21T12:00") == Window(None, NOON_US)


@pytest.mark.parametrize("to", ["2026-11-21T12:00:00Z", "2026-11-21T11:00:00Z"])
def test_a_window_that_ends_before_it_begins(to: str) -> None:
    with pytest.raises(UsageError, match="is empty; --to must be later than --from"):
        window_of("2026-11-21T12:00:00Z", to)


@pytest.mark.parametrize("moment", [0, 1, NOON_US, NOON_US + 250_000, TS_US_MAX])
def test_what_is_told_is_read_back(moment: int) -> None:
    assert moment_us(iso_8601(moment)) == moment
