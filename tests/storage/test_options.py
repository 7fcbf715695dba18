"""The options of stores: what may be given, and that no text shows them."""

import pytest

from dispatch_audit.jobs.engines.hadoop import hadoop_settings
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.storage.options import (
    for_delta_rs,
    given_options,
    options_given,
    parsed_options,
    without_values,
)
from dispatch_audit.pipeline.storage.store_path import store_path


def test_an_option_without_a_name_or_a_value_is_refused_unseen() -> None:
    assert parsed_options(["A=1", "B=c=d"]) == {"A": "1", "B": "c=d"}
    for text in ("SECRET", "=SECRET", "SECRET="):
        with pytest.raises(UsageError, match=r"--storage-option 2 is not NAME=VALUE") as raised:
            parsed_options(["A=1", text])
        assert "SECRET" not in str(raised.value)


def test_an_endpoint_that_is_no_url_is_refused_before_it_is_asked() -> None:
    with pytest.raises(UsageError, match="aws_endpoint_url is no"), options_given({"aws_endpoint_url": "my-host:9000"}):
        pass


def test_options_hold_for_one_call() -> None:
    with options_given({"B": "2", "A": "1"}):
        with options_given(None):
            assert given_options() == (("A", "1"), ("B", "2"))
        with options_given({}):
            assert given_options() == ()
    assert given_options() == ()


def test_retries_have_a_limit_that_an_option_replaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    assert for_delta_rs(())["max_retries"] == "3"
    assert for_delta_rs((("max_retries", "7"), ("fs.s3a.x", "y"))) == {**for_delta_rs(()), "max_retries": "7"}
    assert "aws_allow_http" not in for_delta_rs((("AWS_ENDPOINT_URL", "https://host"),))
    assert for_delta_rs((("AWS_ENDPOINT_URL", "http://host"),))["aws_allow_http"] == "true"


def test_texts_are_shown_without_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2024&sig=abcdef")
    with options_given({"AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI", "timeout": "30s"}):
        pass
    assert without_values("wJalrXUtnFEMI in 30s: https://a?sv=2024&sig=abcdef") == "*** in 30s: https://a?***"


def test_spark_gets_the_names_of_hadoop() -> None:
    given = {"AWS_ACCESS_KEY_ID": "a", "aws_secret_access_key": "b", "AWS_ENDPOINT_URL": "http://h", "fs.gs.x": "y"}
    assert hadoop_settings(tuple(given.items())) == {
        "fs.s3a.access.key": "a",
        "fs.s3a.secret.key": "b",
        "fs.s3a.endpoint": "http://h",
        "fs.s3a.path.style.access": "true",
        "fs.gs.x": "y",
    }


@pytest.mark.parametrize(
    "uri", ["s3://b/t/", "s3a://b/t", "gs://b/t", "abfss://c@a.dfs.core.windows.net/t", "az://c/t"]
)
def test_a_uri_of_a_store_is_named_as_given(uri: str) -> None:
    assert str(store_path(uri)) == uri.rstrip("/")


def test_on_databricks_spark_reaches_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    assert store_path("s3://b/t") is None


def test_other_uris_are_no_stores() -> None:
    assert [store_path(text) for text in ("hdfs://h/t", "dbfs:/t", "file:///t", "t", "catalog.schema.t")] == [None] * 5


def test_credentials_in_a_uri_would_be_stored_with_the_tables() -> None:
    with pytest.raises(UsageError, match="pass it with --storage-option") as raised:
        store_path("s3://AKIA:SECRET@bucket/night")
    assert "SECRET" not in str(raised.value)
