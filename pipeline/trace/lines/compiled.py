"""Compiles the functions that parse lines.

`NUMBA_DISABLE_JIT=1` runs the same code in the interpreter.
"""

from pathlib import Path
from typing import Final

from dispatch_audit.pipeline.compilation.compiler import Compiler

compiled: Final = Compiler(sorted(Path(__file__).parent.glob("*.py")))
"""Decorates the functions of this room."""
