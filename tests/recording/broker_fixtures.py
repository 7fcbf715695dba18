"""A broker for the tests that need one, started when the first of them asks."""

from collections.abc import Iterator

import pytest
from real_broker import Broker, running_broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker, which all tests share; each takes a topic of its own."""
    with running_broker(tmp_path_factory.mktemp("broker"), "--no-recorder") as found:
        yield found
