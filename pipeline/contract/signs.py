"""Reads the signs in a broker's statistics, the `sign` entries of `conf/known_bugs.toml`.

A sign is a pattern in the counters of one subscription. Code finds signs and knows their names only; what each means,
what would decide it and what helps is data, and so is which known bugs leave it (`KnownBug.statistics`).

Source: contract 4 and 7.
"""

import sys
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SignName = Literal[
    "blocked_without_unacknowledged",
    "draining_beyond_held",
    "permits_not_returned",
    "pending_read_that_is_none",
    "subscription_limit",
    "consumer_limit",
    "draining_holds_others",
    "look_ahead_limit",
    "hash_gap",
    "without_ranges",
    "recently_joined",
    "delayed_before_joined",
    "parked_with_replay",
    "parked_with_replay_out_of_order",
    "replay_not_served",
    "hangs",
    "no_permits",
    "not_acknowledging",
    "nothing_is_read",
    "nothing_moves",
    "unacknowledged_below_zero",
    "total_below_consumers",
    "unacknowledged_beyond_backlog",
    "rate_limited",
    "entry_filter",
    "expired",
    "sent_again",
    "unaccounted",
    "many_holes",
    "equal_names",
]
"""A pattern in statistics; the code that finds it describes it."""

Kind = Literal["holds_up", "counter", "state"]
"""Entries wait because of it; counters that cannot be; how things are."""


class SignText(BaseModel):
    """What a sign means.

    Attributes:
        name: of the sign.
        kind: what kind of fact it is.
        title: what it means, in a sentence.
        decide: what would decide the rest; `{who}` stands for consumers.
        remedy: what an operator can do, if no known bug says more.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: SignName
    kind: Kind
    title: str
    decide: str = ""
    remedy: str = ""


@cache
def known_bugs_file() -> Mapping[str, Any]:
    """The content of `conf/known_bugs.toml`."""
    content: dict[str, Any] = tomllib.loads(
        files("dispatch_audit").joinpath("conf/known_bugs.toml").read_text(encoding="utf-8")
    )
    return content


@cache
def sign_texts() -> Mapping[SignName, SignText]:
    """All signs by name, in the order of the file, which is that of the answer."""
    signs = [SignText.model_validate(entry) for entry in known_bugs_file()["sign"]]
    by_name = {sign.name: sign for sign in signs}
    assert len(by_name) == len(signs), "two signs have the same name"
    return MappingProxyType(by_name)
