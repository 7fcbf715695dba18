"""The key of a run: equal for equal questions, so that asking again replaces the answer."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from pipeline.settings import Settings

_DISTRIBUTION = "pulsar-dispatch-audit"


def code_version() -> str:
    """The version of this package, or `uninstalled` where it runs from a folder or a zip."""
    try:
        return version(_DISTRIBUTION)
    except PackageNotFoundError:
        return "uninstalled"


def chain_of(inputs: Sequence[str], profile: str, settings: Settings) -> str:
    """What the runs share that continue each other: 16 hex digits of a SHA-256 of the question without its window.

    Not of the version of the code: whether a state fits it, the state's own version says. The arguments are those of
    `run_key_of`.
    """
    return _digest({"inputs": list(inputs), "profile": profile, "settings": settings.model_dump(mode="json")})


def run_key_of(
    inputs: Sequence[str],
    profile: str,
    settings: Settings,
    window_us: tuple[int | None, int | None] = (None, None),
) -> str:
    """The key of the audit of one trace: 16 hex digits of a SHA-256.

    Args:
        inputs: paths of the trace as given. Not what they contain: a trace that is recorded anew under the same
            name is the same question, and its rows are replaced.
        profile: name of the broker profile in force.
        settings: all of them, as any may change a result.
        window_us: first and last moment audited, microseconds since 1970 UTC; None where open.
    """
    question = {
        "inputs": list(inputs),
        "profile": profile,
        "settings": settings.model_dump(mode="json"),
        "window_us": window_us,
        "code_version": code_version(),
    }
    return _digest(question)


def _digest(question: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:16]
