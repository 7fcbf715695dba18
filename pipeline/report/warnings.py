"""Warnings about an audit by windows, beside the report."""

from collections.abc import Iterator

from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.summary import Summary
from dispatch_audit.pipeline.report.wording import together
from dispatch_audit.pipeline.windows.window import iso_8601


def warnings_about(summary: Summary) -> Iterator[str]:
    """Yields a line for each warning, which ends with the next step."""
    for run in summary.runs:
        inputs = together(run.inputs)
        if run.events_late:
            late = f"{count(run.events_late, 'row was', 'rows were')} added to earlier windows after their audit"
            yield (
                f"{inputs}: {late}, and no run has audited them; --reaudit TIME repeats the window of that time and "
                "all later ones"
            )
        if run.starts_from == "censored":
            begins = "" if run.window is None or run.window.from_us is None else f" ({iso_8601(run.window.from_us)})"
            yield (
                f"{inputs}: no audited window ends at --from{begins}, so what was open then is not known; leave --from "
                "out to continue from the last window"
            )
