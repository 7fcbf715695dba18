"""Passes the arguments of inlined functions whole.

numba takes a tuple of arrays apart where a function is called, and puts it together again inside: two instructions for
each of the hundred machine words of a state, in every function and at every call. They disappear when LLVM inlines the
function, but until then they were two fifths of the code. Only a function that Python enters has to be called that way.
"""

from collections.abc import Sequence
from typing import Any

from numba import core

_core: Any = core


class WholeArguments(_core.callconv.CPUCallConv):
    """numba's convention for calls, except that an argument is one value, whatever its type."""

    def _get_arg_packer(self, argtypes: Sequence[Any]) -> Any:
        return _Packer([self.context.get_value_type(kind) for kind in argtypes])


class _Packer:
    """Does nothing where numba's takes values apart and puts them together."""

    def __init__(self, argument_types: list[Any]) -> None:
        self.argument_types = argument_types

    def as_arguments(self, builder: Any, values: Sequence[Any]) -> Sequence[Any]:
        return values

    def from_arguments(self, builder: Any, args: Sequence[Any]) -> Sequence[Any]:
        return args

    def assign_names(self, args: Sequence[Any], names: Sequence[str]) -> None:
        for arg, name in zip(args, names, strict=True):
            arg.name = name


class _Context(_core.cpu.CPUContext):
    """numba's context itself, with the other convention."""

    def __init__(self, context: Any) -> None:
        self.__dict__ = context.__dict__

    @property
    def call_conv(self) -> WholeArguments:
        return WholeArguments(self)


class Lowering(_core.lowering.Lower):
    """Lowers a function that takes its arguments whole."""

    def setup_function(self, fndesc: Any) -> None:
        """Begins the function."""
        numbas: Any = self.context
        self.context: Any = _Context(numbas)
        super().setup_function(fndesc)
        self.context = numbas

    @property
    def call_conv(self) -> WholeArguments:
        """How the function is called."""
        return WholeArguments(self.context)


def call_of(fndesc: Any, library: Any) -> Any:
    """Returns how a compiled function calls the one of this description."""
    call = _core.imputils.user_function(fndesc, [library])

    def whole(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        return call(_Context(context), builder, signature, args)

    impl: Any = whole
    impl.libs = call.libs
    return impl
