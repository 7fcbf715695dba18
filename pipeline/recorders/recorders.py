"""The recorders of one topic, and the common order of their rows (TRACE_FORMAT, "Several recorders").

One broker owns a topic at a time, so its rows form terms: runs of one recorder each, one after the other in time. In
the replay `seq` is then a place in the order of all terms, and the numbers of consumers are unique over all recorders.
Rows of the tables contain the recorder's own seqs and numbers, and its name.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
from numpy.typing import NDArray

from dispatch_audit.pipeline.packing.membership_rows import NEVER

_Column: TypeAlias = Sequence[Any] | NDArray[Any]
_Columns: TypeAlias = Mapping[str, _Column]

TRANSFER_ROWS: Final = 2
"""The number of places reserved after each term but the last, for both sides of the reset there."""

_BEGINS: Final = ("seq", "from_seq")
_ENDS: Final = ("to_seq", "returned_seq")
# Tables whose rows name a recorder.
_NAMED: Final = ("violations", "blocking", "assignments", "draining", "consumers")


class Term(NamedTuple):
    """Rows of one recorder while its broker owned the topic."""

    recorder: int  # the index of the recorder in `Recorders.names`
    first_seq: int  # the lowest seq of the term
    last_seq: int  # the highest seq of the term
    first: int  # the place of `first_seq` in the order of the topic
    # The end of the term, which later rows of it get as their time, in microseconds since 1970 UTC; `NEVER` for the
    # last term.
    until_us: int = NEVER

    @property
    def last(self) -> int:
        """The place of `last_seq`."""
        return self.first + self.last_seq - self.first_seq

    def place(self, seq: int) -> int:
        """The place of a row of the recorder, within the term."""
        return self.first + min(max(seq, self.first_seq), self.last_seq) - self.first_seq

    def seq(self, place: int) -> int:
        """The seq of the row at a place; for a place outside of the term that of the nearest row within."""
        return min(max(self.first_seq + place - self.first, self.first_seq), self.last_seq)


class Apart(NamedTuple):
    """A transfer between two brokers whose clocks are apart, so that times before and after it cannot be compared."""

    place: int  # the first place of the later term
    begins: int  # the first place after the former one, from which on times are those of the later owner
    ahead_us: int  # by how much the clock of its broker is ahead of that of the former owner; negative: behind
    producer: str  # by whose stamps, least of all producers


class Recorders(NamedTuple):
    """The recorders of one topic."""

    # The names of its recorders; None: the rows name none. There are several only if there are terms.
    names: tuple[str | None, ...] = (None,)
    # In the order of time; none if there is one recorder: then seqs and numbers are the trace's own.
    terms: tuple[Term, ...] = ()
    apart: tuple[Apart, ...] = ()  # the transfers between clocks that are apart, in order

    def wrote(self, broker: str | None) -> bool:
        """Whether rows with this name of a recorder may belong to one of these; rows without a name may to any."""
        return broker is None or self.names == (None,) or broker in self.names

    def consumer(self, number: int) -> int:
        """The recorder's own number of a consumer that the replay knows by `number`."""
        return number // len(self.names) if number > 0 else number

    def spoken_consumer(self, number: int) -> str:
        """The recorder's own number of a consumer in a text, with its recorder where there are several."""
        own = str(self.consumer(number))
        return f"{own} of {_spoken(self.recorder_of(number))}" if self.terms else own

    def recorder_of(self, number: int) -> str | None:
        """The recorder that numbered the consumer."""
        return self.names[number % len(self.names)] if number >= 0 else None

    def term_of(self, place: int) -> Term:
        """The term of a place; the end of the transfer after a term belongs to the next term."""
        later = (before for before, term in zip(self.terms, self.terms[1:], strict=False) if place < term.first - 1)
        return next(later, self.terms[-1])

    def spoken(self, place: int) -> str:
        """The recorder's own seq at a place in a text, with its recorder where there are several."""
        if not self.terms:
            return str(place)
        term = self.term_of(place)
        return f"{term.seq(place)} of {_spoken(self.names[term.recorder])}"

    def seq(self, place: int) -> int:
        """The recorder's own seq of the row at a place."""
        return self.term_of(place).seq(int(place)) if self.terms else int(place)

    def spoken_clocks(self, apart: Apart) -> str:
        """That the clocks of two brokers are apart, as a clause."""
        term = self.term_of(apart.place)
        one, other = (_spoken(self.names[of.recorder]) for of in (self.terms[self.terms.index(term) - 1], term))
        way = "ahead of" if apart.ahead_us > 0 else "behind"
        return f"the clock of {other} is about {abs(apart.ahead_us) / 1e6:,.0f} s {way} that of {one}"

    def place(self, broker: str | None, seq: int) -> int:
        """The place of a recorder's row in the order of the topic."""
        own = [term for term in self.terms if self.names[term.recorder] == broker]
        if not own:
            return seq
        term = next((term for term in reversed(own) if term.first_seq <= seq), own[0])
        return term.first + seq - term.first_seq

    def in_own_numbers(self, table: str, columns: _Columns) -> _Columns:
        """The columns of a table with the recorder of each row, and with the recorder's own seqs and numbers.

        An interval that continues after a transfer ends with the last row of the recorder before it.
        """
        begins = next((name for name in _BEGINS if name in columns), None)
        if table == "refused" and self.terms:
            at = [self.term_of(place) for place in columns["seq"]]
            return {**self._in_terms(columns, at), "broker": [self.names[term.recorder] or "" for term in at]}
        if table not in _NAMED:
            return columns
        if not self.terms:
            rows = len(next(iter(columns.values())))
            return columns if self.names == (None,) else {**columns, "broker": [self.names[0]] * rows}
        if table == "consumers" or begins is None:
            numbers = columns["consumer"]
            own, names = [*map(self.consumer, numbers)], [*map(self.recorder_of, numbers)]
            return {**columns, "consumer": own, "broker": names}
        at = [self.term_of(place) for place in _listed(columns[begins])]
        if table == "assignments":
            at = [self._of_owner(*pair) for pair in zip(at, columns["consumer"], strict=True)]
            columns = {**columns, "consumer": [*map(self.consumer, columns["consumer"])]}
        return {**self._in_terms(columns, at), "broker": [self.names[term.recorder] for term in at]}

    def _of_owner(self, term: Term, consumer: int) -> Term:
        """The term of an owner; if one side of its join is missing, its ownership may seem to begin too early."""
        following = self.terms[self.terms.index(term) :]
        return next((later for later in following if later.recorder == consumer % len(self.names)), term)

    @staticmethod
    def _in_terms(columns: _Columns, terms: Sequence[Term]) -> _Columns:
        own = {
            name: [None if at is None else term.seq(at) for at, term in zip(_listed(columns[name]), terms, strict=True)]
            for name in (*_BEGINS, *_ENDS)
            if name in columns
        }
        return {**columns, **own}


def _listed(column: _Column) -> _Column:
    """A column whose elements are numbers; those of an Arrow array are objects of its own."""
    return column.to_pylist() if isinstance(column, pa.Array) else column


def _spoken(name: str | None) -> str:
    return name or "a recorder without a name"


ONE: Final = Recorders()
"""One recorder without a name."""
