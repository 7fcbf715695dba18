"""What measures quiet partitions replays what it generates: every row, of every partition."""

from benchmarks.generate import Shape
from benchmarks.quiet_partitions import measured, trace_of

SHAPE = Shape(events=1_200, partitions=3, consumers=2, keys=20, changes=2, order="time")


def test_every_partition_is_replayed_without_a_finding() -> None:
    trace = trace_of(SHAPE)
    cost = measured(trace, SHAPE.partitions)
    assert cost.rows["coverage"] == SHAPE.partitions
    assert cost.rows["violations"] == 0
    # Each consumer of each partition, and who joins later.
    assert cost.rows["consumers"] >= SHAPE.partitions * SHAPE.consumers
    assert cost.packed >= SHAPE.partitions
