"""The shapes of a broker's answers, as far as a recording looks into them; what it only copies may be anything.

Source: `TopicStatsImpl`, `SubscriptionStatsImpl`, `ConsumerStatsImpl` and `PersistentTopicInternalStats` of 3.0 to 5.0.
"""

from typing import Any, Final

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

Lists = list[list[int]]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class _Consumer(_Answer):
    consumerName: str | None = None  # noqa: N815 - the names of Pulsar
    address: str | None = None
    connectedSince: str | None = None  # noqa: N815
    keyHashRanges: list[str] | None = None  # noqa: N815
    keyHashRangeArrays: Lists | None = None  # noqa: N815
    drainingHashes: list[dict[str, Any]] | None = None  # noqa: N815


class _Subscription(_Answer):
    type: str | None = None
    consumers: list[_Consumer] | None = None
    consumersAfterMarkDeletePosition: dict[str, str] | None = None  # noqa: N815


class _Topic(_Answer):
    subscriptions: dict[str, _Subscription] | None = None


class _Cursor(_Answer):
    individuallyDeletedMessages: str | None = None  # noqa: N815


class _Ledger(_Answer):
    cursors: dict[str, _Cursor] | None = None


TOPIC: Final = TypeAdapter(_Topic)
LEDGER: Final = TypeAdapter(_Ledger)


def misshapen(shape: "TypeAdapter[Any]", found: object) -> str:
    """Says where JSON differs from a shape first; empty: nowhere."""
    try:
        shape.validate_python(found)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return ""
