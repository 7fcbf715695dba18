"""Charts of what an audit found, as Altair objects: for notebooks, and for the page of a run.

Each function takes rows of one or two tables of a run: mappings, or a frame of pandas. None of them reads a table.
"""
