"""The key of a run: equal for equal inputs, settings and versions, so that a repeated audit replaces its rows."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from dispatch_audit.pipeline.settings import Settings

_DISTRIBUTION = "pulsar-dispatch-audit"


def code_version() -> str:
    """Returns the version of this package, or `uninstalled` where it runs from a folder or a zip."""
    try:
        return version(_DISTRIBUTION)
    except PackageNotFoundError:
        return "uninstalled"


def chain_of(inputs: Sequence[str], profile: str, settings: Settings) -> str:
    """Returns the key that runs which continue each other share: 16 hex digits of a SHA-256.

    It covers neither the window nor the version of the code: a state has a version of its own. The arguments are those
    of `run_key_of`.
    """
    return _digest({"inputs": list(inputs), "profile": profile, "settings": _told(settings)})


def run_key_of(
    inputs: Sequence[str],
    profile: str,
    settings: Settings,
    window_us: tuple[int | None, int | None] = (None, None),
) -> str:
    """Returns the key of the audit of one trace: 16 hex digits of a SHA-256.

    Args:
        inputs: paths of the trace, the same from every working directory. The content does not count: an audit of a
            trace that was recorded anew under the same name replaces the rows of the old one.
        profile: name of the broker profile.
        settings: all settings, as any may change a result.
        window_us: first and last moment audited, microseconds since 1970 UTC; None where open.
    """
    identity = {
        "inputs": list(inputs),
        "profile": profile,
        "settings": _told(settings),
        "window_us": window_us,
        "code_version": code_version(),
    }
    return _digest(identity)


def _told(settings: Settings) -> Mapping[str, object]:
    """The settings as runs know them that are on disk: a newer one only where it is no default."""
    return settings.model_dump(mode="json", exclude_defaults=True)


def _digest(identity: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
