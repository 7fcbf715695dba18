"""The options of object stores that a call was given: `--storage-option NAME=VALUE`, or `storage_options=`.

They hold while a call runs, as variables of the environment would, and are part of no request, run or table: so nothing
that is stored or shown can have their values. A path in a store takes them along to the workers.

The names are those of delta-rs (`AWS_ENDPOINT_URL`), which reads the variables of the same names too.
Source: https://docs.rs/object_store, `AmazonS3ConfigKey`, `AzureConfigKey`, `GoogleConfigKey`, `ClientConfigKey`.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from dispatch_audit.pipeline.errors import UsageError

Options = tuple[tuple[str, str], ...]
"""Names and values."""

HADOOP: Final = "fs."
"""How the options of Hadoop's file systems begin, which only Spark reads."""
# A store that is not there is an answer within seconds, not after the three minutes of the defaults.
_BOUNDS: Final = {"max_retries": "3", "retry_timeout": "15s", "connect_timeout": "5s"}
_ENDPOINTS: Final = ("aws_endpoint_url", "aws_endpoint", "endpoint_url", "endpoint")
# Variables with credentials, by their names.
_SECRET: Final = re.compile(r"^(AWS|AZURE|GOOGLE)_.*(KEY|TOKEN|SECRET|SAS|PASSWORD)")
# Shorter values are numbers and switches, which a message may have for other reasons.
_HIDDEN_MIN: Final = 6
_HIDDEN: Final = "***"

# Threads of a call do not have its context, and an error may be shown after its end.
_SEEN: Final[set[str]] = set()
_GIVEN: ContextVar[Options] = ContextVar("storage options", default=())


def parsed_options(texts: Sequence[str] | None) -> dict[str, str]:
    """Returns the options of `NAME=VALUE` texts.

    Raises:
        UsageError: a text has no name or no value; the message does not show it.
    """
    options = {}
    for number, text in enumerate(texts or (), 1):
        name, mark, value = text.partition("=")
        if not mark or not name or not value:
            raise UsageError(f"--storage-option {number} is not NAME=VALUE", "write --storage-option NAME=VALUE")
        options[name] = value
    return options


@contextmanager
def options_given(options: Mapping[str, str] | None) -> Iterator[None]:
    """Gives options to all paths in stores that its body makes; None: those that hold already."""
    if options is None:
        yield
        return
    for name, value in options.items():
        if name.lower() in _ENDPOINTS and not value.startswith(("http://", "https://")):
            raise UsageError(f"storage option {name} is not a URL", "begin it with http:// or https://")
    _SEEN.update(options.values())
    token = _GIVEN.set(tuple(sorted(options.items())))
    try:
        yield
    finally:
        _GIVEN.reset(token)


def given_options() -> Options:
    """Returns the options that hold now."""
    return _GIVEN.get()


def for_delta_rs(options: Options) -> dict[str, str]:
    """Returns the options as delta-rs takes them, with limits for its retries."""
    own = {name: value for name, value in options if not name.startswith(HADOOP)}
    endpoints = [value for name, value in own.items() if name.lower() in _ENDPOINTS]
    endpoints = endpoints or [os.environ.get("AWS_ENDPOINT_URL", "")]
    # Who names an endpoint without TLS, such as a store on the same machine, means it.
    plain = {"aws_allow_http": "true"} if any(url.startswith("http://") for url in endpoints) else {}
    return {**_BOUNDS, **plain, **own}


def without_values(text: str) -> str:
    """Returns a text without the values of options, and without credentials of the environment."""
    values = _SEEN | {value for name, value in os.environ.items() if _SECRET.match(name)}
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _HIDDEN_MIN:
            text = text.replace(value, _HIDDEN)
    return text
