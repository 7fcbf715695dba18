"""Records what an application does with Pulsar's Python client (`pulsar-client`), as a trace.

    from dispatch_audit.recording.client import ClientRecording

    recorder = ClientRecording("traces", pulsar_version="4.0.8")
    client = recorder.client(pulsar.Client("pulsar://localhost:6650"))

The client, and its producers and Key_Shared consumers, then work as before and write what they do to a folder of this
process below `traces`. Nothing that the recording does reaches the application: no error and no waiting.
"""

from dispatch_audit.recording.client.recording import ClientRecording

__all__ = ["ClientRecording"]
