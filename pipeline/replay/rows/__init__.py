"""Rows of the tables from the result of a replay, without the columns that all rows of a group or run share."""
