"""The passes of numba that the functions of this project need, and a memory for what numba finds out of types.

numba looks for the type of each `array[index]` and each sum among all definitions of the operator, when it infers types
and again when it lowers, though it has found most of them before. And 17 of its 27 passes look for what these functions
do not have: closures, `with`, loops over literals, parallel loops, expressions of arrays.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from numba import core
from numba.core import typed_passes, untyped_passes

from dispatch_audit.pipeline.compilation.whole_arguments import Lowering

_core: Any = core
_typed: Any = typed_passes
_untyped: Any = untyped_passes


class _KnownFunction(_core.types.Function):
    """An operator or function of numba that remembers what it returns for which types of arguments."""

    def __init__(self, templates: Any) -> None:
        super().__init__(templates)
        self._signatures: dict[tuple[Any, ...], Any] = {}

    def get_call_type(self, context: Any, args: tuple[Any, ...], kws: Mapping[str, Any]) -> Any:
        """Returns the signature, which numba asks for."""
        if kws:
            return super().get_call_type(context, args, kws)
        if args not in self._signatures:
            self._signatures[args] = super().get_call_type(context, args, kws)
        return self._signatures[args]


_core.datamodel.register_default(_KnownFunction)(_core.datamodel.models.OpaqueModel)
_known = cache(_KnownFunction)


class _TypingContext(_core.typing.Context):
    """numba's context itself, with functions that remember."""

    def __init__(self, context: Any) -> None:
        self.__dict__ = context.__dict__

    def _lookup_global(self, gv: Any) -> Any:
        found = super()._lookup_global(gv)
        return _known(found.templates) if type(found) is _core.types.Function else found


_remembering = cache(_TypingContext)


class Passes(_core.compiler.CompilerBase):
    """Compiles a function that Python enters."""

    _lowering = _typed.NativeLowering

    def __init__(self, typingctx: Any, *args: Any) -> None:
        super().__init__(_remembering(typingctx), *args)
        # Of this compilation alone: numba copies its context for each.
        self.state.targetctx.typing_context = self.state.typingctx

    def define_pipelines(self) -> list[Any]:
        """Returns the passes, which numba asks for."""
        passes = _core.compiler_machinery.PassManager("needed")
        for one in (
            _untyped.TranslateByteCode,
            _untyped.FixupArgs,
            _untyped.IRProcessing,
            _untyped.GenericRewrites,
            _untyped.ReconstructSSA,
            _typed.NopythonTypeInference,
            _typed.PreLowerStripPhis,
            _typed.IRLegalization,
            self._lowering,
            _typed.NoPythonBackend,
        ):
            passes.add_pass(one, one.name())
        passes.finalize()
        return [passes]


@_core.compiler_machinery.register_pass(mutates_CFG=True, analysis_only=False)
class _InlinedLowering(_typed.BaseNativeLowering):
    _name = "inlined_lowering"
    lowering_class = Lowering


class InlinedPasses(Passes):
    """Compiles a function that others inline."""

    _lowering = _InlinedLowering
