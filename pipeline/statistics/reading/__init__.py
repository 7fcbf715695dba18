"""Reads what people paste: text in, statistics as typed objects and what was left out."""
