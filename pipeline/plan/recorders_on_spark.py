"""Finds the recorders of each topic of a trace, and their terms where a topic has several.

If every topic has one recorder, no row is looked at. Otherwise Spark exchanges stretches of rows of the other topics
(`dispatch_audit.pipeline.recorders.ownership_terms`): one for each time in which a recorder wrote without a
pause.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.engine.arrow_schema import arrow_schema
from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.plan.staged_batches import decoded_batches
from dispatch_audit.pipeline.recorders.ownership_terms import Stretch, recorders_of, stretches
from dispatch_audit.pipeline.recorders.recorders import Apart, Recorders, Term

_STRETCHES: Final = (
    "topic STRING, broker STRING, producer STRING, kind INT, first_seq LONG, last_seq LONG, first_us LONG, "
    "last_us LONG, consumer LONG, first_ledger LONG, last_ledger LONG"
)
_ARROW: Final = arrow_schema(_STRETCHES)
_FOUND: Final = "topic STRING, recorders STRING, way_out STRING"

Named = Mapping[str, Sequence[str | None]]
"""The different names in column `broker`, by topic; None: rows without one."""


def recorders_in(batches: DataFrame, named: Named, skew_us: int) -> dict[str, Recorders]:
    """The recorders of each topic whose rows name any; clocks of two brokers may be `skew_us` apart.

    `named` are the recorders that its rows name, good or not. If other rows name one, rows without a name belong to it.

    Raises:
        TraceError: two recorders wrote as owners of a topic at one time.
    """
    known = {topic: [name for name in names if name is not None] for topic, names in named.items()}
    found = {topic: Recorders((names[0],)) for topic, names in known.items() if len(names) == 1}
    several = sorted(topic for topic, names in known.items() if len(names) > 1)
    if not several:
        return found

    def look(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for packed in decoded_batches(rows):
            rows_of = [part._asdict() for part in stretches(packed, skew_us)]
            yield pa.RecordBatch.from_pylist(rows_of, schema=_ARROW)

    parts = batches.where(sf.col("topic").isin(several)).mapInArrow(look, _STRETCHES)
    for row in sorted(parts.groupBy("topic").applyInPandas(_finder(skew_us), _FOUND).collect()):
        if row["way_out"] is not None:
            raise TraceError(row["recorders"], row["way_out"])
        names, terms, apart = json.loads(row["recorders"])
        found[row["topic"]] = Recorders(
            tuple(names), tuple(Term(*term) for term in terms), tuple(Apart(*transfer) for transfer in apart)
        )
    return found


def _finder(skew_us: int):  # type: ignore[no-untyped-def]  # Spark takes hints of pandas frames for another kind
    def find(parts: pd.DataFrame) -> pd.DataFrame:
        topic = parts["topic"].iloc[0]
        try:
            found = recorders_of(topic, (Stretch(*row) for row in parts.itertuples(index=False, name=None)), skew_us)
        except TraceError as error:
            return pd.DataFrame({"topic": [topic], "recorders": [error.args[0]], "way_out": [error.way_out]})
        return pd.DataFrame({"topic": [topic], "recorders": [json.dumps(found)], "way_out": [None]})

    return find
