"""Judges traces that were recorded outside of the broker, as far as they allow it; the replay of a dispatcher does not.

Source: docs/RECORDING_CLIENTS.md; `dispatch_audit.pipeline.contract.recorded_by`.
"""
