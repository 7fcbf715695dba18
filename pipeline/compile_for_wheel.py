"""Compiles what a wheel brings along: all functions that an audit enters from Python, for any processor of this kind.

    NUMBA_CPU_NAME=generic python -m dispatch_audit.pipeline.compile_for_wheel FOLDER TRACE...

It replays traces in this process. `hatch_build.py` names traces that enter every function, and `tests/wheel` audits
others with the wheel that it builds and finds nothing compiled.
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
from dispatch_audit.pipeline.replay.replay_rows import packed_rows, replayed_rows
from dispatch_audit.pipeline.run.replay_config import replay_config
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.trace import Trace, open_traces


def compile_into(folder: Path, traces: list[Path]) -> None:
    """Writes the compiled code of all functions that the audit of some traces enters, below a folder.

    It is kept in the user's cache too, under the name of the processor, so that a second build compiles nothing.

    Args:
        folder: gets a folder for each version of compiled code, and the environment that it is made for.
        traces: what to audit.
    """
    os.environ["NUMBA_CACHE_DIR"] = str(cache_folder("wheel"))
    for trace in open_traces(traces):
        _replay(trace)
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
    compile_into(Path(sys.argv[1]), [Path(trace) for trace in sys.argv[2:]])
