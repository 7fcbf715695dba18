"""The share of bad rows in a trace whose rows may have been delivered more than once."""

from typing import NamedTuple


class QuarantineCounts(NamedTuple):
    """Numbers of rows of one trace that go to `quarantine`.

    Attributes:
        early: refused before the replay, counted each time that they were delivered.
        late: refused by the replay, which gets each row once.
        repeated: further deliveries of a row; they are not bad.
    """

    early: int
    late: int
    repeated: int

    @property
    def rows(self) -> int:
        """The number of all rows in quarantine."""
        return self.early + self.late + self.repeated

    def bad_share(self, rows_in: int) -> float:
        """Returns the share of bad rows, 0 to 1, that the trace would have if each row had been delivered once.

        The replay skips repeated rows and refuses a row once, however often it was delivered, so the rows that it
        refuses are compared with the rows that it got. A row that is bad before the replay is bad in every delivery, so
        its share is the same however often all rows were delivered.

        Args:
            rows_in: rows read.
        """
        good = rows_in - self.early
        once = good - self.repeated
        deliveries = good / once if once > 0 else 1.0
        return (self.early + self.late * deliveries) / rows_in if rows_in else 0.0
