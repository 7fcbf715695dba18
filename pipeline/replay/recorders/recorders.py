"""The recorders of one topic, and the one order that their rows are replayed in (TRACE_FORMAT, "Several recorders").

One broker owns a topic at a time, so its rows form terms: runs of one recorder each, one behind the other in time. What
the replay sees as `seq` is then a place in the order of all of them, and what it sees as a consumer's number is one of
all their consumers; rows of the tables say what the recorder itself wrote, and which recorder it was.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

TRANSFER_ROWS: Final = 2
"""Places left free behind each term but the last, for both sides of the reset that lies there."""

_BEGINS: Final = ("seq", "from_seq")
_ENDS: Final = ("to_seq", "returned_seq")
# Tables whose rows name a recorder.
_NAMED: Final = ("violations", "blocking", "assignments", "draining", "consumers")
# In the sentences of `dispatch_audit.pipeline.replay.packing.refused`, which hold no text of the trace.
_CONSUMER: Final = re.compile(r"\bconsumer (\d+)\b")


class Term(NamedTuple):
    """Rows of one recorder while its broker owned the topic.

    Attributes:
        recorder: its number in `Recorders.names`.
        first_seq: no row of the term has a lower seq,
        last_seq: and none a higher one.
        first: the place of `first_seq` in the order of the topic.
        until_us: no row of the term counts as later, microseconds since 1970 UTC: it was late; None of the last term.
    """

    recorder: int
    first_seq: int
    last_seq: int
    first: int
    until_us: int | None

    @property
    def last(self) -> int:
        """The place of `last_seq`."""
        return self.first + self.last_seq - self.first_seq

    def place(self, seq: int) -> int:
        """The place of a row of the recorder, within the term."""
        return self.first + min(max(seq, self.first_seq), self.last_seq) - self.first_seq

    def seq(self, place: int) -> int:
        """The seq of the row at a place; at one that lies outside of the term, of the nearest row within."""
        return min(max(self.first_seq + place - self.first, self.first_seq), self.last_seq)


class Recorders(NamedTuple):
    """Who recorded one topic.

    Attributes:
        names: of its recorders; None: the rows name none. More than one only if there are terms.
        terms: in the order of time; none where there is one recorder: then seqs and numbers are the trace's own.
    """

    names: tuple[str | None, ...] = (None,)
    terms: tuple[Term, ...] = ()

    def consumer(self, number: int) -> int:
        """The recorder's own number of a consumer that the replay knows by `number`."""
        return number // len(self.names) if number > 0 else number

    def spoken_consumer(self, number: int) -> str:
        """The same in words: with its recorder where there are several."""
        own = str(self.consumer(number))
        return f"{own} of {_spoken(self.recorder_of(number))}" if self.terms else own

    def recorder_of(self, number: int) -> str | None:
        """Which recorder has numbered the consumer."""
        return self.names[number % len(self.names)] if number >= 0 else None

    def term_of(self, place: int) -> Term:
        """The term that a place lies in; behind a term lies the transfer, of which the end belongs to the next."""
        later = (before for before, term in zip(self.terms, self.terms[1:], strict=False) if place < term.first - 1)
        return next(later, self.terms[-1])

    def spoken(self, place: int) -> str:
        """The seq at a place, in words: with its recorder where there are several."""
        if not self.terms:
            return str(place)
        term = self.term_of(place)
        return f"{term.seq(place)} of {_spoken(self.names[term.recorder])}"

    def seq(self, place: int) -> int:
        """The recorder's own seq of the row at a place."""
        return self.term_of(place).seq(int(place)) if self.terms else int(place)

    def told(self, table: str, columns: Mapping[str, Sequence[Any]]) -> Mapping[str, Sequence[Any]]:
        """Columns of a table with the recorder of each row, places turned into the recorder's own seqs.

        An interval that goes on beyond a transfer ends with the last row of the recorder before it.
        """
        begins = next((name for name in _BEGINS if name in columns), None)
        if table == "refused" and self.terms:
            at = [self.term_of(place) for place in columns["seq"]]
            details = [_CONSUMER.sub(self._own_consumer, detail) for detail in columns["detail"]]
            own = self._in_terms({**columns, "detail": details}, at)
            return {**own, "broker": [self.names[term.recorder] or "" for term in at]}
        if table not in _NAMED:
            return columns
        if not self.terms:
            rows = len(next(iter(columns.values())))
            return columns if self.names == (None,) else {**columns, "broker": [self.names[0]] * rows}
        if table == "consumers" or begins is None:
            numbers = columns["consumer"]
            return {**self._own_numbers(columns), "broker": [self.recorder_of(number) for number in numbers]}
        at = [self.term_of(place) for place in columns[begins]]
        if table == "assignments":
            at = [self._of_owner(*pair) for pair in zip(at, columns["consumer"], strict=True)]
            columns = self._own_numbers(columns)
        return {**self._in_terms(columns, at), "broker": [self.names[term.recorder] for term in at]}

    def _own_consumer(self, found: "re.Match[str]") -> str:
        return f"consumer {self.spoken_consumer(int(found[1]))}"

    def _own_numbers(self, columns: Mapping[str, Sequence[Any]]) -> Mapping[str, Sequence[Any]]:
        return {**columns, "consumer": [self.consumer(number) for number in columns["consumer"]]}

    def _of_owner(self, term: Term, consumer: int) -> Term:
        """The term of an owner; with one side of its join missing it may seem to begin before the transfer."""
        behind = self.terms[self.terms.index(term) :]
        return next((later for later in behind if later.recorder == consumer % len(self.names)), term)

    @staticmethod
    def _in_terms(columns: Mapping[str, Sequence[Any]], terms: Sequence[Term]) -> Mapping[str, Sequence[Any]]:
        own = {
            name: [None if place is None else term.seq(place) for place, term in zip(columns[name], terms, strict=True)]
            for name in (*_BEGINS, *_ENDS)
            if name in columns
        }
        return {**columns, **own}


def _spoken(name: str | None) -> str:
    return name or "a recorder without a name"


ONE: Final = Recorders()
"""One recorder without a name."""
