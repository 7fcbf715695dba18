"""Keeps the output of a starting JVM apart from that of the command line."""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final

from dispatch_audit.pipeline.spark_errors import reason_of

_DOWNLOAD_FAILED: Final = re.compile(r"\[download failed: (?P<jar>[^!\]]+)")


@contextmanager
def output_kept_apart(wanted: bool) -> Iterator[IO[bytes] | None]:
    """Redirects the output of processes that its body starts to a temporary file, as long as they run.

    Spark has no setting for this: the launcher, Ivy and the JVM print before any logger is configured.

    Args:
        wanted: whether to redirect it; if not, None is yielded.
    """
    if not wanted:
        yield None
        return
    with tempfile.TemporaryFile() as output:
        kept = {stream: os.dup(stream) for stream in (1, 2)}
        for stream in kept:
            os.dup2(output.fileno(), stream)
        try:
            yield output
        finally:
            for stream, original in kept.items():
                os.dup2(original, stream)
                os.close(original)


def why(output: IO[bytes] | None, error: Exception) -> str:
    """Returns why a start failed, from the output that was kept apart or from the error."""
    if output is not None:
        output.seek(0)
        text = output.read().decode(errors="replace")
        if "unresolved dependency" in text.lower():
            return "the jars of Delta Lake are missing and cannot be downloaded"
        # Ivy trusts ~/.m2, where Maven leaves poms without jars.
        if failed := _DOWNLOAD_FAILED.search(text):
            return (
                f"Ivy cannot get the jar {failed['jar']}: if ~/.m2/repository has a pom of it and no jar, "
                f"delete that folder, and Ivy downloads both"
            )
    return reason_of(error)
