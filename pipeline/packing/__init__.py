"""Rows of a trace as packed batches: columns of integers by subscription, which Spark exchanges.

In the order of the work: `encode` turns rows into `events`, `pack` cuts them into packed batches by subscription,
`narrow_events` and `staged_batches` give these the form in which they travel, `packed_batch` puts those of one group in
order, and `repeated_rows` leaves one row for each seq.
"""
