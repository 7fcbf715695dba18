"""The replay of a dispatcher from a trace: from the packed rows of one subscription to findings with verdicts."""
