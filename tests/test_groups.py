"""Tests of one recording run in one process: otherwise each process makes its replay, as each would start a JVM."""

import pytest


@pytest.mark.parametrize("name", ["steady-4.0.8"])
def test_xdist_sees_the_group_of_a_test(name: str, request: pytest.FixtureRequest) -> None:
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("this process runs all tests")
    assert request.node.nodeid.endswith(f"@{name}")
