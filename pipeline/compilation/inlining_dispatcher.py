"""Compiles a function that compiled functions call only as far as they need it.

numba compiles a function alike for Python and for its callers, and once for each constant that a caller passes. Where
every function is inlined into its caller, most of that is thrown away: the machine code of the function itself, the
wrappers through which Python and C call it, and its versions for constants, which LLVM finds again when it inlines
(docs/TRIED.md has what this saves).
"""

from collections.abc import Mapping
from typing import Any

from numba import core

from dispatch_audit.pipeline.compilation.passes import InlinedPasses, Passes
from dispatch_audit.pipeline.compilation.whole_arguments import call_of

# Its internals have types here and there, which do not fit each other.
_core: Any = core
_Types = tuple[Any, ...]

# Two of them decide the speed (docs/TRIED.md). The functions pass the whole state, a hundred machine words, to each
# other, so every function is inlined where it is called. And without numba's runtime there is no counting of
# references, which took atomic instructions at every step.
_OPTIONS: Mapping[str, object] = {"nopython": True, "forceinline": True, "_nrt": False, "no_cfunc_wrapper": True}


class InliningDispatcher(_core.registry.CPUDispatcher):
    """A function that Python calls as it calls one of `numba.njit`, and that compiled functions inline."""

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func, targetoptions=dict(_OPTIONS), pipeline_class=Passes)
        self._inlined_compiler = _InlinedCompiler(py_func, self.targetdescr, dict(_OPTIONS), {}, InlinedPasses)
        self._inlined: dict[_Types, Any] = {}

    def get_call_template(self, args: _Types, kws: Mapping[str, Any]) -> tuple[Any, Any, _Types, dict[str, Any]]:
        """Returns what numba asks for where a compiled function calls this one: its only signature for these types."""
        pysig, args = self._inlined_compiler.fold_argument_types(args, kws)
        args = tuple(map(_widened, args))
        if args not in self._inlined:
            result = self._inlined_compiler.compile(args, None)
            call = call_of(result.fndesc, result.library)
            self.targetctx.insert_func_defn([(call, _key(self, args), args)])
            self._inlined[args] = result.signature
        name = self.py_func.__name__
        template = _core.typing.make_concrete_template(name, key=name, signatures=[self._inlined[args]])
        return template, pysig, args, {}

    def get_overload(self, sig: _Types) -> object:
        """Returns the key under which a caller finds the function that it inlines."""
        return _key(self, tuple(sig))


class _InlinedCompiler(_core.dispatcher._FunctionCompiler):
    """Compiles up to LLVM's language: no wrapper, no machine code."""

    def _compile_core(self, args: _Types, return_type: Any) -> Any:
        flags = _core.compiler.Flags()
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        flags.no_cpython_wrapper = flags.no_compile = True
        context = self.targetdescr.target_context
        return _core.compiler.compile_extra(
            self.targetdescr.typing_context,
            context,
            self.py_func,
            args=args,
            return_type=return_type,
            flags=flags,
            locals=self.locals,
            library=_InlinedLibrary(context.codegen(), self.py_func.__qualname__),
            pipeline_class=self.pipeline_class,
        )


class _InlinedLibrary(_core.codegen.JITCodeLibrary):
    """A module that others link: LLVM optimises it there, with all that it is inlined into."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


def _key(dispatcher: InliningDispatcher, args: _Types) -> tuple[object, ...]:
    return dispatcher, args


def _widened(kind: Any) -> Any:
    """Returns the type for which a function is compiled: no constants, and all signed integers as one type."""
    kind = _core.types.unliteral(kind)
    return _core.types.int64 if isinstance(kind, _core.types.Integer) and kind.signed else kind
