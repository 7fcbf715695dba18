"""Recognises the text in which a log ends in the middle of a row."""

import json
import re

# The beginning of a literal, or of an exponent or fraction.
_PART_OF_VALUE = re.compile(r"t(ru?)?|f(a(ls?)?)?|n(ul?)?|-|\.|[eE][+-]?")


def begins_an_object(text: str) -> bool:
    """Whether `text` is the beginning of a JSON object, but not the whole object."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        # Integers are not converted: Python refuses those of thousands of digits.
        json.loads(text, parse_int=str)
    except RecursionError:
        return False
    except json.JSONDecodeError as error:
        rest = text[error.pos :].rstrip()
        in_string = error.msg.startswith(("Unterminated string", "Invalid \\"))
        return not rest or in_string or _PART_OF_VALUE.fullmatch(rest) is not None
    return False
