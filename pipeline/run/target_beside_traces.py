"""Refuses tables in the folder of a trace, or around it, where the next audit would find them among the logs."""

from collections.abc import Iterable
from pathlib import Path

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.spark_errors import plain_path
from dispatch_audit.pipeline.tables.target import Target
from dispatch_audit.pipeline.trace import Trace


def refuse_target_in_trace(target: Target, traces: Iterable[Trace]) -> None:
    """Refuses a target that is the folder of a trace, or lies in it, or has it in it.

    Raises:
        UsageError: it does; the message names a folder beside the trace.
    """
    folder = Path(plain_path(target.location))
    if target.named or not folder.is_absolute():
        return
    out = folder.resolve()
    for trace in traces:
        if not any(log.local for log in trace.logs):
            continue
        home = Path(trace.path).resolve()
        if out == home:
            where = "is the folder of the trace"
        elif out.is_relative_to(home):
            where = f"lies in the folder of the trace {trace.path}"
        elif home.is_relative_to(out):
            where = f"has the trace {trace.path} in it"
        else:
            continue
        raise UsageError(
            f"--out {target} {where}, and the next audit would find the tables among the logs",
            f"name another folder, such as --out {home}-audit",
        )
