"""Tests that share something dear run in one process: otherwise each process makes it, as each would start a JVM."""

import pytest


@pytest.fixture(scope="module")
def made_once() -> str:
    return "by the module"


@pytest.mark.parametrize("name", ["steady-4.0.8"])
def test_xdist_sees_the_recording_of_a_test(name: str, request: pytest.FixtureRequest) -> None:
    assert _group(request) == name


@pytest.mark.usefixtures("made_once")
def test_xdist_sees_that_tests_of_a_module_share_a_fixture(request: pytest.FixtureRequest) -> None:
    assert _group(request) == "tests/test_groups.py"


def _group(request: pytest.FixtureRequest) -> str:
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("this process runs all tests")
    return str(request.node.nodeid).rpartition("@")[2]
