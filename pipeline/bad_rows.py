"""What share of the rows of a trace is bad, where some may have been delivered more than once."""

from typing import NamedTuple


class SetAside(NamedTuple):
    """Rows of one trace that go to `quarantine`.

    Attributes:
        early: refused before the replay, each time that they were delivered.
        late: refused by the replay, which is given each row once.
        repeated: rows that were there before as they are, and are no fault.
    """

    early: int
    late: int
    repeated: int

    @property
    def rows(self) -> int:
        """All of them."""
        return self.early + self.late + self.repeated

    def bad_share(self, rows_in: int) -> float:
        """The share of the bad rows among so many as were read, 0 to 1, as if each had been delivered once.

        The replay leaves repetitions out and refuses a row once, however often it was delivered; so what it refuses is
        set against the rows that it was given. Which rows are bad before the replay does not depend on the others, and
        their share does not depend on how often all were delivered.
        """
        good = rows_in - self.early
        once = good - self.repeated
        deliveries = good / once if once > 0 else 1.0
        return (self.early + self.late * deliveries) / rows_in if rows_in else 0.0
