from dataclasses import replace

from report_rows import BOTH, CLEAN

from dispatch_audit.pipeline.report.warnings import warnings_about
from dispatch_audit.pipeline.windows.window import Window


def test_audits_of_whole_logs_need_no_remark() -> None:
    assert list(warnings_about(BOTH)) == []
    assert list(warnings_about(replace(BOTH, runs=(replace(CLEAN, starts_from="state"),)))) == []


def test_late_rows_and_a_start_that_nothing_leads_up_to_are_named_with_a_way_out() -> None:
    run = replace(CLEAN, starts_from="censored", window=Window(1_000_000, None), events_late=1)
    late, censored = warnings_about(replace(BOTH, runs=(CLEAN, run)))
    assert late == (
        "traces/day: 1 row was added to earlier windows after their audit, and no run has audited them; "
        "--reaudit TIME repeats the window of that time and all later ones"
    )
    # With the moment as it was understood: seconds since 1970 given for microseconds are reported as that.
    assert censored == (
        "traces/day: no audited window ends at --from (1970-01-01T00:00:01Z), so what was open then is not known; "
        "leave --from out to continue from the last window"
    )
