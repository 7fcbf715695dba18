"""A broker for the tests that need one, started when the first of them asks."""

from collections.abc import Iterator

import pytest
from real_broker import ARGUMENTS, NO_BROKER, Broker, running_broker

from dispatch_audit.jobs.engines.java import has_java


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if not ARGUMENTS.is_file() or not has_java():
        pytest.skip(NO_BROKER)
    with running_broker(tmp_path_factory.mktemp("broker")) as found:
        yield found
