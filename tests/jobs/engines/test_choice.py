"""Which engine an environment and an option lead to."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from dispatch_audit.jobs.engines.choice import Engine, EngineOption, Environment, chosen, why
from dispatch_audit.pipeline.errors import UsageError


def answers(java: bool) -> Callable[[], bool]:
    return lambda: java


def not_asked() -> bool:
    raise AssertionError("Java is looked for where another engine is there")


BARE = Environment(java=answers(False))
JAVA = replace(BARE, java=answers(True))
SAIL = replace(BARE, sail=True)
BOTH = replace(SAIL, java=answers(True))
DATABRICKS = Environment(databricks=True, sail=True, active="spark", java=not_asked)
CONNECT = Environment(remote=True, sail=True, java=not_asked)
SUBMITTED = Environment(submitted=True, sail=True, java=not_asked)
ACTIVE = Environment(active="spark", sail=True, java=not_asked)
ACTIVE_SAIL = Environment(active="embedded", sail=True, java=not_asked)


@pytest.mark.parametrize(
    ("option", "found", "engine"),
    [
        ("auto", DATABRICKS, Engine.DATABRICKS),
        ("auto", CONNECT, Engine.CONNECT),
        ("auto", SUBMITTED, Engine.SUBMITTED),
        ("auto", ACTIVE, Engine.ACTIVE),
        ("auto", ACTIVE_SAIL, Engine.ACTIVE),
        ("auto", JAVA, Engine.LOCAL_SPARK),
        ("auto", replace(SAIL, java=not_asked), Engine.EMBEDDED),
        ("auto", SAIL, Engine.EMBEDDED),
        ("auto", BARE, Engine.LOCAL_SPARK),  # whose start asks for Java
        ("spark", DATABRICKS, Engine.DATABRICKS),
        ("spark", CONNECT, Engine.CONNECT),
        ("spark", SUBMITTED, Engine.SUBMITTED),
        ("spark", ACTIVE, Engine.ACTIVE),
        ("spark", BOTH, Engine.LOCAL_SPARK),
        ("spark", SAIL, Engine.LOCAL_SPARK),  # whose start asks for Java
        ("embedded", BOTH, Engine.EMBEDDED),
        ("embedded", SAIL, Engine.EMBEDDED),
        ("embedded", CONNECT, Engine.EMBEDDED),
        ("embedded", ACTIVE_SAIL, Engine.ACTIVE),
    ],
)
def test_what_is_there_is_taken_unless_an_engine_is_asked_for(
    option: EngineOption, found: Environment, engine: Engine
) -> None:
    assert chosen(option, found, embeddable=True) is engine


def test_a_session_on_the_embedded_engine_goes_on_whatever_the_environment_names() -> None:
    assert chosen("auto", replace(ACTIVE_SAIL, remote=True), embeddable=True) is Engine.ACTIVE


@pytest.mark.parametrize("found", [DATABRICKS, SUBMITTED, ACTIVE])
def test_the_embedded_engine_does_not_start_beside_another(found: Environment) -> None:
    with pytest.raises(UsageError, match="does not start where another engine runs; leave --engine out"):
        chosen("embedded", found, embeddable=True)


def test_spark_does_not_start_beside_the_embedded_engine() -> None:
    with pytest.raises(UsageError, match="Spark does not start where the embedded engine runs; leave --engine out"):
        chosen("spark", ACTIVE_SAIL, embeddable=True)


def test_an_embedded_engine_that_is_not_installed_says_how_to_install_it() -> None:
    with pytest.raises(
        UsageError, match=r"not installed; pip install 'WHEEL\[embedded\]' .*'\.\[embedded\]' in a checkout$"
    ):
        chosen("embedded", JAVA, embeddable=True)


@pytest.mark.parametrize(("found", "engine"), [(BOTH, Engine.LOCAL_SPARK), (SAIL, Engine.EMBEDDED)])
def test_what_is_not_local_is_for_spark_if_there_is_a_java(found: Environment, engine: Engine) -> None:
    assert chosen("auto", found, embeddable=False) is engine


@pytest.mark.parametrize(
    ("found", "embeddable", "reason"),
    [
        (BOTH, True, "on the embedded engine, because it reaches all files"),
        (SAIL, False, "on the embedded engine, because there is no Java"),
        (BOTH, False, "on Apache Spark, because the embedded engine has no catalog"),
        (JAVA, True, "on Apache Spark, because the embedded engine is not installed"),
    ],
)
def test_auto_says_why_it_chose_an_engine_of_this_machine(found: Environment, embeddable: bool, reason: str) -> None:
    assert (why(chosen("auto", found, embeddable=embeddable), found, embeddable=embeddable) or "").startswith(reason)


@pytest.mark.parametrize("found", [DATABRICKS, CONNECT, SUBMITTED, ACTIVE])
def test_an_engine_that_is_there_needs_no_reason(found: Environment) -> None:
    assert why(chosen("auto", found, embeddable=True), found, embeddable=True) is None
