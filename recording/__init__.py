"""Records traces where nothing can be added to a broker: from its admin API, and in clients.

Applications import this room, so it needs nothing but the standard library: neither Spark nor the other dependencies of
the audit. `record-stats` has urllib3 besides.
"""
