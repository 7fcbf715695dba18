"""Refuses tables or a converted log in the folder of a trace, or around it, where an audit would take them for logs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.spark_errors import plain_path
from dispatch_audit.pipeline.storage.store_path import store_path
from dispatch_audit.pipeline.tables.target import Target
from dispatch_audit.pipeline.trace import Trace

# The ending of the suggested folder beside the trace, by option.
_BESIDE: Final = {"--out": "audit", "--to": "converted"}


def refuse_target_in_trace(target: Target, traces: Iterable[Trace], option: str = "--out") -> None:
    """Refuses a target that is the folder of a trace, or lies in it, or has it in it.

    Args:
        target: of an audit or a conversion.
        traces: that are read.
        option: that names the target.

    Raises:
        UsageError: the target is one of these; the message names a folder beside the trace.
    """
    out: Any = target.store or _resolved(plain_path(target.location))
    if target.named or out is None:
        return
    for trace in traces:
        home: Any = store_path(trace.path) or _resolved(trace.path)
        if type(home) is not type(out) or all(log.place is None for log in trace.logs):
            continue
        if out == home:
            where = "is the folder of the trace"
        elif out.is_relative_to(home):
            where = f"lies in the folder of the trace {trace.path}"
        elif home.is_relative_to(out):
            where = f"has the trace {trace.path} in it"
        else:
            continue
        raise UsageError(
            f"{option} {target} {where}, and the next audit would find it among the logs",
            f"name another folder, such as {option} {home}-{_BESIDE[option]}",
        )


def _resolved(text: str) -> Path | None:
    """Returns a path of this machine; None: it is a URI, or names a table."""
    path = Path(text)
    return path.resolve() if path.is_absolute() else None
