"""Audits recorded Apache Pulsar Key_Shared dispatch traces.

The names in `__all__` are the Python API (docs/API.md); each is imported when it is first used, so that the command
line and workers, which import this package too, do not wait for what they do not need.

`jobs`, `pipeline`, `recording`, `udfs` and `conf` lie at the top of the repository; here stand links to them. The wheel
has the real folders in this place, so that an installed audit takes one name, and its modules are called the same
everywhere.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dispatch_audit.jobs.api.audit import audit, read_audit
    from dispatch_audit.jobs.api.audit_result import Audit
    from dispatch_audit.jobs.api.diagnose import Diagnoses, diagnose
    from dispatch_audit.jobs.api.explain import Explained, explain
    from dispatch_audit.jobs.api.what_if import Comparison, what_if
    from dispatch_audit.pipeline.errors import (
        DispatchAuditError,
        GaveWayError,
        InternalError,
        TraceError,
        UsageError,
    )
    from dispatch_audit.pipeline.report.summary import Finding

__all__ = [
    "Audit",
    "Comparison",
    "Diagnoses",
    "DispatchAuditError",
    "Explained",
    "Finding",
    "GaveWayError",
    "InternalError",
    "TraceError",
    "UsageError",
    "audit",
    "diagnose",
    "explain",
    "read_audit",
    "what_if",
]

_MODULES = {
    "Audit": "dispatch_audit.jobs.api.audit_result",
    "Comparison": "dispatch_audit.jobs.api.what_if",
    "Diagnoses": "dispatch_audit.jobs.api.diagnose",
    "Explained": "dispatch_audit.jobs.api.explain",
    "Finding": "dispatch_audit.pipeline.report.summary",
    "audit": "dispatch_audit.jobs.api.audit",
    "diagnose": "dispatch_audit.jobs.api.diagnose",
    "explain": "dispatch_audit.jobs.api.explain",
    "read_audit": "dispatch_audit.jobs.api.audit",
    "what_if": "dispatch_audit.jobs.api.what_if",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES.get(name, "dispatch_audit.pipeline.errors")), name)


def __dir__() -> list[str]:
    return __all__
