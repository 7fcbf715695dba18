"""Compiles all functions that an audit enters from Python, before any audit: in a checkout, by traces of the checkout.

    python -m dispatch_audit.pipeline.compile_ahead
    NUMBA_CPU_NAME=generic python -m dispatch_audit.pipeline.compile_ahead FOLDER

The first fills the cache of this user (`make kernel`), the second the folder of a wheel (`hatch_build.py`). The test of
the wheel audits other traces with what this has compiled, and finds nothing compiled.
"""

import json
import os
import shutil
import sys
from pathlib import Path

from dispatch_audit.pipeline.cache_folder import cache_folder
from dispatch_audit.pipeline.compilation.compiler import VERSIONS
from dispatch_audit.pipeline.compilation.files_of_wheel import MADE_FOR, environment
from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.explain.trace_rows import all_rows
from dispatch_audit.pipeline.groups.replay_rows import packed_rows, replayed_rows
from dispatch_audit.pipeline.run.replay_config import replay_config
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.trace import Trace, open_traces

# Between them they enter every compiled function that Python calls.
_TRACES = (
    Path("data/samples/heavy-churn-3.0.7"),
    Path("data/samples/hung-consumer-4.0.8"),
    Path("tests/data/traces/expire-skip-clear-churn-4.0.8"),
    Path("tests/data/traces/seek-unload-1-4.0.8"),
    Path("tests/data/traces/sticky-ranges-4.0.8"),
)


def compile_all() -> None:
    """Compiles what the cache of this user lacks. The working directory is that of a checkout."""
    for trace in open_traces(_TRACES):
        _replay(trace)


def compile_into(folder: Path) -> None:
    """Writes all compiled code below a folder.

    It is kept in the user's cache too, under a name of its own, so that a second build compiles nothing.

    Args:
        folder: gets a folder for each version of compiled code, and the environment that it is made for.
    """
    os.environ["NUMBA_CACHE_DIR"] = str(cache_folder("wheel"))
    compile_all()
    for version in VERSIONS:
        compiled = Path(os.environ["NUMBA_CACHE_DIR"], version)
        if compiled.is_dir():
            shutil.copytree(compiled, folder / version)
    (folder / MADE_FOR).write_text(json.dumps(environment()), encoding="utf-8")


def _replay(trace: Trace) -> None:
    manifest = trace.manifest
    profile = profile_for(manifest.pulsar_version, manifest.settings)
    config = replay_config(manifest, profile, load_settings(), manifest.complete_from_start)
    packed = packed_rows(all_rows(trace).to_batches(), config)
    for group in packed.of_group:
        replayed_rows(packed, group, config)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        compile_into(Path(sys.argv[1]))
    else:
        compile_all()
