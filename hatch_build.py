"""Puts the compiled functions into a wheel, so that nothing is compiled where it is installed.

The wheel is then for one minor version of Python and one kind of machine, and asks for the version of numba that
compiled it. A build without numba, such as that of pip from the source archive, makes a wheel without compiled code,
which compiles at its first audit.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import distribution
from importlib.util import find_spec
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledFunctions(BuildHookInterface[Any]):
    """The build hook of the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles, and says where the files belong and what the wheel is for."""
        if version == "editable":
            return
        if find_spec("numba") is None:
            self.app.display_warning(
                "the wheel brings no compiled code along, because numba is not installed where it is built: "
                "build it in the environment of a checkout (python -m hatchling build -t wheel)"
            )
            return
        self._folder = tempfile.mkdtemp()
        environment = {**os.environ, "NUMBA_CPU_NAME": "generic", "PYTHONPATH": self.root}
        command = [sys.executable, "-m", "dispatch_audit.pipeline.compile_ahead", self._folder]
        subprocess.run(command, cwd=self.root, env=environment, check=True)
        build_data["force_include"][self._folder] = "dispatch_audit/compiled"
        build_data["pure_python"] = False
        build_data["tag"] = _tag_of_numba()
        build_data["dependencies"].append(f"numba=={distribution('numba').version}")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Removes the files that are in the wheel now."""
        if hasattr(self, "_folder"):
            shutil.rmtree(self._folder)


def _tag_of_numba() -> str:
    """Returns the tag of the installed numba: the wheel runs where it does."""
    lines = (distribution("numba").read_text("WHEEL") or "").splitlines()
    tags = [line.removeprefix("Tag: ").split("-") for line in lines if line.startswith("Tag: ")]
    return "-".join(".".join(dict.fromkeys(part)) for part in zip(*tags, strict=True))
