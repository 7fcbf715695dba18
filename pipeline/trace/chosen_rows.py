"""The rows of a trace that an audit takes: those of some topics and subscriptions, and of a sample of the hashes."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dispatch_audit.pipeline.contract.recorded_by import BROKER
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.settings import ChoiceSettings
from dispatch_audit.pipeline.trace.arrow_columns import numbered
from dispatch_audit.pipeline.trace.manifest import Manifest
from dispatch_audit.udfs.hash_sample import HashSample

_PARTITION = "-partition-"


class ChosenRows(NamedTuple):
    """The topics and subscriptions whose rows are taken; rows that name none are taken always.

    Attributes:
        topics: patterns of their names; none: all.
        subscriptions: patterns of their names; none: all.
    """

    topics: Sequence[str] = ()
    subscriptions: Sequence[str] = ()

    @property
    def are_all(self) -> bool:
        """Whether every row is taken."""
        return not (self.topics or self.subscriptions)

    def among(self, batch: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
        """Returns the rows of a batch that are taken; it has the columns `topic` and `subscription`."""
        if self.are_all:
            return batch
        if isinstance(batch, pa.Table):
            # Each of its batches may have a dictionary of its own.
            return pa.Table.from_batches(map(self.among, batch.to_batches()), batch.schema)
        taken = pa.array([True] * batch.num_rows, pa.bool_())
        for column, patterns in (("topic", self.topics), ("subscription", self.subscriptions)):
            if patterns:
                names, number = numbered(batch.column(column))
                of_name = [name is None or _is_one_of(name, patterns) for name in names]
                taken = pc.and_(taken, pa.array([of_name[at] for at in number.tolist()], pa.bool_()))
        return batch.filter(taken)


ALL_ROWS: Final = ChosenRows()


def _is_one_of(name: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern matches a name: the full one, that of a partition's topic, or the part after the last `/`."""
    whole, _, number = name.rpartition(_PARTITION)
    names = [name, whole] if number.isdigit() else [name]
    names += [full.rpartition("/")[2] for full in names]
    return any(fnmatchcase(one, pattern) for one in names for pattern in patterns)


def sample_of(manifest: Manifest, choice: ChoiceSettings) -> HashSample:
    """Returns the sample of the hashes that is judged: of what the trace has, the share that is asked for.

    Raises:
        UsageError: the trace has fewer hashes than that, or others, or no dispatcher recorded it.
    """
    recorded, salt = manifest.hashes, choice.sample_salt or manifest.hashes.salt
    asked = HashSample(choice.one_in, salt)
    if asked.is_all:
        return recorded
    if manifest.recorded_by != BROKER:
        raise UsageError(
            f"a trace recorded by {manifest.recorded_by} has no hashes to take a sample of", "leave --sample out"
        )
    if not recorded.covers(asked):
        raise UsageError(
            f"the trace has {recorded.share} of the hashes, chosen by the salt {recorded.salt!r}, so that it has no "
            f"{asked.share} of all by the salt {asked.salt!r}",
            "ask for a smaller share without --sample-salt, or leave --sample out",
        )
    return asked
