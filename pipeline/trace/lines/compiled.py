"""Compiles the functions that parse lines.

`NUMBA_DISABLE_JIT=1` runs the same code in the interpreter.
"""

from pathlib import Path
from typing import Final

from dispatch_audit.pipeline.compilation.compiler import Compiler
from dispatch_audit.pipeline.trace.schema import JSON_SCHEMA

compiled: Final = Compiler(sorted(Path(__file__).parent.glob("*.py")), repr(JSON_SCHEMA))
"""Decorates the functions of this room; the fields of a line are constants of their code (`layout`)."""
