"""Rows of a trace as packed batches: columns of integers by subscription, which Spark exchanges."""
