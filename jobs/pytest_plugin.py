"""The fixture `audit_trace`: a test fails with the text of the incident in what it recorded (docs/CI.md).

pytest loads this module wherever the package is installed, so it imports nothing that a run which does not use the
fixture would wait for.
"""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dispatch_audit.jobs.api.audit_result import Audit

AuditTrace = Callable[..., "Audit"]
"""Takes the traces and the arguments of `dispatch_audit.audit`."""


@pytest.fixture
def audit_trace(tmp_path: Path) -> AuditTrace:
    """Audits what a test recorded, and fails the test with the report if a condition of `fail_on` holds.

    The tables are below `tmp_path`, unless `out=` names another target. An error of the audit is raised, that of a
    trace that cannot be audited too.
    """

    def audited(traces: "str | PathLike[str] | Sequence[str | PathLike[str]]", **options: Any) -> "Audit":
        __tracebackhide__ = True
        # Imported here, because most tests do not audit anything.
        from dispatch_audit.jobs.api.audit import audit  # noqa: PLC0415

        result = audit(traces, **{"out": tmp_path / "dispatch-audit-tables", **options})
        for _, error in result.unusable:
            raise error
        if result.failed:
            pytest.fail(result.report("text"), pytrace=False)
        return result

    return audited
