"""Why a store refused something, in a few words."""

import re
from typing import Final

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.storage.options import without_values

WAY_OUT: Final = "check the name, the credentials and the endpoint (docs/WHERE_TO_RUN.md)"

_OF_STORES: Final = re.compile(
    r"Generic (?:S3|GCS|MicrosoftAzure|HTTP) error|Error performing \w+ |loading credentials"
)
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
# The service that gives a machine in a cloud its credentials is asked last.
_NO_CREDENTIALS: Final = re.compile(
    r"Error performing \w+ http://169\.254\.169\.254/|error occurred while loading cred"
)
_XML: Final = re.compile(r"<Code>(?P<code>\w+)</Code>\s*<Message>(?P<message>[^<]*)</Message>")
_JSON: Final = re.compile(r'"message":\s*"(?P<message>[^"]+)"')
# The frames of a native stack trace, which the kernel of delta-rs adds to some messages.
_FRAMES: Final = re.compile(r"\s+0: .*?\s1: .*", re.DOTALL)
_STATUS: Final = re.compile(r"^\d{3} [A-Z][\w ]*$", re.MULTILINE)


def reason_of(error: Exception) -> str:
    """Returns the message of an error of delta-rs on one line, that of a store without what it was asked."""
    lines = [line.strip(" \t↳") for line in _FRAMES.sub("", _COLOURS.sub("", str(error))).splitlines()]
    text = "\n".join(line for line in lines if line)
    if not text:
        return type(error).__name__
    return without_values(_of_store(text) if _OF_STORES.search(text) else " ".join(text.split()))


def unreachable(place: object, error: Exception) -> UsageError:
    """Returns the error for a store that does not answer, or refuses."""
    return UsageError(f"cannot reach {place}: {reason_of(error)}", WAY_OUT)


def _of_store(text: str) -> str:
    if found := _XML.search(text):
        return f"{found['code']}: {found['message']}".rstrip(": .")
    if _NO_CREDENTIALS.search(text):
        return "there are no credentials for it"
    if found := _JSON.search(text):
        return found["message"].rstrip(".")
    found = _STATUS.search(text)
    return found[0] if found else text.splitlines()[-1]
