"""Answers from the statistics of a broker (`topics stats`, `stats-internal`): who holds a subscription up.

    text -> reading -> moments -> facts, movement -> signs -> judgement -> renderers

Only `files` and `output/table` do IO. One dump is one moment: it proves what a counter says at that moment, and no
order of messages.
"""
