"""What somebody who audits a log window by window should know of it, apart from the report."""

from collections.abc import Iterator

from pipeline.report.summary import Summary
from pipeline.report.wording import count, together
from pipeline.windows.window import told


def warnings_about(summary: Summary) -> Iterator[str]:
    """A line for each, which ends with a way out."""
    for run in summary.runs:
        inputs = together(run.inputs)
        if run.events_late:
            came = f"{count(run.events_late, 'row')} came to earlier windows after their audit, not audited"
            yield f"{inputs}: {came}; --reaudit TIME repeats the window of that time and all that follow"
        if run.starts_from == "censored":
            begins = "" if run.window is None or run.window.from_us is None else f" ({told(run.window.from_us)})"
            yield (
                f"{inputs}: no window ended at --from{begins}, so what was open then is not known; leave --from out to "
                "go on"
            )
