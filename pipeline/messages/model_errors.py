"""What pydantic finds wrong with a file, in the words of this project: the field, its value, and what it must be."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError

from dispatch_audit.pipeline.messages.nearest import did_you_mean

_VALUE_MAX: Final = 60
_NOT: Final[Mapping[str, str]] = {
    "bool": "neither true nor false",
    "int": "no whole number",
    "float": "no number",
    "string": "no text",
    "list": "no list",
    "tuple": "no list",
    "dict": "no object",
    "mapping": "no object",
    "model": "no object",
}
_WHOLE: Final[Mapping[str, str]] = {
    "missing": " is missing",
    "too_short": " is empty",
    "string_too_short": " is empty",
}
_BOUNDS: Final[Mapping[str, tuple[str, str]]] = {
    "greater_than_equal": ("ge", "less than"),
    "greater_than": ("gt", "not more than"),
    "less_than_equal": ("le", "more than"),
}


def in_words(error: ValidationError, given: object, model: type[BaseModel]) -> str:
    """Returns the first fault as a sentence without an end: `spark.chunk_rows is 0, less than 1`.

    Args:
        error: of pydantic.
        given: what the model was made of.
        model: the model; its fields may be meant by an unknown name.
    """
    faults = error.errors()
    path = _path(faults[0], given)
    name = ".".join(str(part) for part in path)
    # A field that takes several types has a fault for each of them.
    reasons = dict.fromkeys(_reason(fault, model) for fault in faults if _path(fault, given) == path)
    said = next((reason for reason in reasons if not reason.startswith(", ")), None)
    if said is not None:
        return f"{name}{said}" if name else said.removeprefix(": ")
    *others, last = (reason.removeprefix(", ") for reason in reasons)
    joined = f"{', '.join(others)} and {last}" if others else last
    return f"{name} is {shown(faults[0]['input'])}, {joined}"


def value_in_words(name: str, error: ValidationError) -> str:
    """Returns what is wrong with a single value as a sentence without an end: `--findings is "x", no whole number`.

    Args:
        name: of what has the value.
        error: of pydantic.
    """
    fault = error.errors()[0]
    reason = _reason(fault, BaseModel)
    return f"{name} is {shown(fault['input'])}{reason}" if reason.startswith(", ") else f"{name}{reason}"


def shown(value: object) -> str:
    """Returns a value as JSON writes simple ones, shortened."""
    words: Mapping[object, str] = {True: "true", False: "false", None: "null"}
    if isinstance(value, bool) or value is None:
        return words[value]
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= _VALUE_MAX else f"{text[: _VALUE_MAX - 3]}..."


def _path(fault: Any, given: object) -> tuple[str | int, ...]:
    """Returns where a fault is; what pydantic adds for the types of a field is left out."""
    if fault["type"] in ("missing", "extra_forbidden"):
        return tuple(fault["loc"])
    path: list[str | int] = []
    inner: Any = given
    for part in fault["loc"]:
        try:
            inner = inner[part]
        except (KeyError, IndexError, TypeError):
            break
        path.append(part)
    return tuple(path)


def _reason(fault: Any, model: type[BaseModel]) -> str:
    """Returns what is wrong: a clause after the value if it begins with a comma, else what follows the name."""
    kind: str = fault["type"]
    context: Mapping[str, Any] = fault.get("ctx", {})
    if kind == "extra_forbidden":
        meant = did_you_mean(str(fault["loc"][-1]), _fields(model))
        return f" is unknown{f' ({meant})' if meant else ''}"
    if kind == "value_error":
        return f": {context['error']}"
    if kind in _BOUNDS:
        bound, words = _BOUNDS[kind]
        return f", {words} {context[bound]}"
    if kind == "literal_error":
        return f", not {context['expected']}"
    type_words = (words for name, words in _NOT.items() if kind.startswith(f"{name}_"))
    return _WHOLE.get(kind) or f", {next(type_words, 'which is not possible')}"


def _fields(model: type[BaseModel]) -> Iterator[str]:
    """Yields the names of the fields of a model, and of the models within it."""
    for name, field in model.model_fields.items():
        yield name
        for inner in (field.annotation, *get_args(field.annotation)):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from _fields(inner)
