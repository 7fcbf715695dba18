from pathlib import Path

import pytest

from dispatch_audit.pipeline.convert.request import parse_converted
from dispatch_audit.pipeline.convert.work_folder import put_in_place, work_folder
from dispatch_audit.pipeline.errors import UsageError


@pytest.mark.parametrize(
    ("text", "location", "events", "quarantine", "form"),
    [
        ("/logs", "/logs", "events", "quarantine", "parquet"),
        ("./a.b.c", "{here}/a.b.c", "events", "quarantine", "parquet"),
        ("s3://bucket/logs/", "s3://bucket/logs", "events", "quarantine", "delta"),
        ("main.pulsar.trace", "main.pulsar", "trace", "trace_quarantine", "delta"),
    ],
)
def test_a_target_is_a_folder_a_uri_or_a_table(
    text: str, location: str, events: str, quarantine: str, form: str
) -> None:
    found = parse_converted(text, None)
    assert found.target.location == location.format(here=Path.cwd())
    assert (found.events, found.quarantine, found.form) == (events, quarantine, form)


@pytest.mark.parametrize(
    ("text", "form", "message"),
    [
        ("", None, "--to is empty"),
        ("main.pulsar", None, "pass main.pulsar.TABLE, or ./main.pulsar for a folder"),
        ("s3://bucket", "parquet", "is a Delta table; leave --as out, or pass a folder"),
    ],
)
def test_another_target_is_refused(text: str, form: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_converted(text, form)  # type: ignore[arg-type]  # what users may write


def test_two_conversions_to_one_target_do_not_run_at_one_time(tmp_path: Path) -> None:
    target = tmp_path / "logs"
    with work_folder(target) as made:
        with pytest.raises(UsageError, match=r"another conversion to .*logs is running"), work_folder(target):
            pass
        (made / "part").write_text("first")
        put_in_place(made, target)
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]
    assert (target / "part").read_text() == "first"


def test_one_that_is_killed_between_the_two_steps_of_replacing_loses_nothing(tmp_path: Path) -> None:
    target, earlier = tmp_path / "logs", tmp_path / ".logs.converting" / "earlier"
    earlier.mkdir(parents=True)
    (earlier / "part").write_text("earlier")
    with pytest.raises(RuntimeError), work_folder(target):
        raise RuntimeError
    assert (target / "part").read_text() == "earlier"
