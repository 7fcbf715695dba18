"""The one line of a Spark error that a reader can use."""

import re

_JAVA_CLASS = re.compile(r"^:?\s*(?:[a-z][\w]*\.)+\w+: ")


def reason_of(error: Exception) -> str:
    """What went wrong, on one line: no Java class, no stack trace, no SQLSTATE.

    Errors of Spark begin with their message. Those that come through the bridge to the JVM unconverted (all of
    Hadoop's) say which call failed, and have the message on the second line behind the class of the exception.
    """
    lines = str(error).splitlines() or [type(error).__name__]
    message = lines[1] if len(lines) > 1 and lines[0].startswith("An error occurred while calling") else lines[0]
    while _JAVA_CLASS.match(message):
        message = _JAVA_CLASS.sub("", message, count=1)
    return re.sub(r"\s*SQLSTATE: \w+\s*$", "", message).strip()
