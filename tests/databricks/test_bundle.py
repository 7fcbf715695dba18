"""databricks.yml, held against the classes of Databricks' own package for bundles, and against what is here."""

import re
import zipfile
from email import message_from_string
from pathlib import Path
from typing import Any

import pytest
import yaml
from databricks.bundles.jobs import Job
from typer.main import get_command

from cluster.runtime_wheel import build
from dispatch_audit.jobs.cli import app

# Seconds by itself.
pytestmark = pytest.mark.heavy


ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def bundle() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((ROOT / "databricks.yml").read_text())
    return read


@pytest.fixture(scope="module")
def job(bundle: dict[str, Any]) -> Any:
    """The job; a key that Databricks does not know, or a value of another kind, is an error here."""
    return Job.from_dict(bundle["resources"]["jobs"]["nightly_audit"])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(build(tmp_path_factory.mktemp("dist")))


def of_wheel(wheel: zipfile.ZipFile, name: str) -> str:
    (path,) = (path for path in wheel.namelist() if path.endswith(f".dist-info/{name}"))
    return wheel.read(path).decode()


def test_every_variable_that_is_used_is_declared_and_has_a_value_in_both_targets(bundle: dict[str, Any]) -> None:
    used = set(re.findall(r"\$\{var\.(\w+)\}", (ROOT / "databricks.yml").read_text()))
    assert used == bundle["variables"].keys()
    with_default = {name for name, variable in bundle["variables"].items() if "default" in variable}
    assert bundle["targets"].keys() == {"dev", "prod"}
    for target in bundle["targets"].values():
        assert used <= with_default | target["variables"].keys()


def test_every_parameter_that_is_used_is_declared(job: Any) -> None:
    used = set(re.findall(r"\{\{job\.parameters\.(\w+)\}\}", (ROOT / "databricks.yml").read_text()))
    assert used == {parameter.name for parameter in job.parameters} == {"input", "output", "profile", "from", "to"}


def test_tasks_name_what_is_there(job: Any) -> None:
    audit, findings = job.tasks
    clusters = {cluster.job_cluster_key for cluster in job.job_clusters}
    assert {audit.job_cluster_key, findings.job_cluster_key} == clusters
    assert [task.task_key for task in findings.depends_on] == [audit.task_key]
    assert (ROOT / str(findings.notebook_task.notebook_path)).read_text().startswith("# Databricks notebook source\n")


def test_the_task_that_fails_sends_the_alert(bundle: dict[str, Any], job: Any) -> None:
    audit, findings = job.tasks
    # A run counts as a success if its last task, which always runs, is one.
    assert (findings.run_if.value, job.email_notifications) == ("ALL_DONE", None)
    assert str(audit.email_notifications.on_failure) == "${var.alert_recipients}"
    assert bundle["variables"]["alert_recipients"]["type"] == "complex"
    assert "alert_recipients" in (ROOT / "docs" / "WHERE_TO_RUN.md").read_text()


def test_groups_have_permissions_by_variables(job: Any) -> None:
    granted = {permission.level.value: str(permission.group_name) for permission in job.permissions}
    assert granted == {"CAN_VIEW": "${var.viewers}", "CAN_MANAGE_RUN": "${var.operators}"}


def test_types_of_nodes_are_variables(job: Any) -> None:
    (cluster,) = job.job_clusters
    types = (cluster.new_cluster.node_type_id, cluster.new_cluster.driver_node_type_id)
    assert tuple(map(str, types)) == ("${var.node_type}", "${var.driver_node_type}")


def test_the_wheel_has_what_the_task_calls(job: Any, wheel: zipfile.ZipFile) -> None:
    task = job.tasks[0].python_wheel_task
    assert message_from_string(of_wheel(wheel, "METADATA"))["Name"] == task.package_name
    assert f"{task.entry_point} = dispatch_audit.jobs.nightly_audit:run\n" in of_wheel(wheel, "entry_points.txt")
    assert "dispatch_audit/conf/audit.toml" in wheel.namelist()


def test_options_of_the_task_are_those_of_the_command_line(job: Any) -> None:
    task = job.tasks[0].python_wheel_task
    given = {str(parameter).partition("=")[0] for parameter in task.parameters if str(parameter).startswith("--")}
    command_line: Any = get_command(app)
    known = {name for parameter in command_line.commands["audit"].params for name in parameter.opts}
    assert given <= known


def test_the_wheel_leaves_spark_and_delta_to_the_runtime(wheel: zipfile.ZipFile) -> None:
    required = message_from_string(of_wheel(wheel, "METADATA")).get_all("Requires-Dist") or []
    without_extras = [line for line in required if "extra ==" not in line]
    assert any(line.startswith("numba") for line in without_extras)
    assert not [line for line in without_extras if "spark" in line]


def test_the_wheel_fits_any_python_and_brings_the_compiled_functions(wheel: zipfile.ZipFile) -> None:
    assert str(wheel.filename).endswith("-py3-none-any.whl")
    assert re.findall("^Tag: (.*)$", of_wheel(wheel, "WHEEL"), re.MULTILINE) == ["py3-none-any"]
    assert any("/dispatcher.kernel.replay.1.nbc" in name for name in wheel.namelist())


def test_a_key_that_databricks_does_not_know_would_be_found(bundle: dict[str, Any]) -> None:
    job = bundle["resources"]["jobs"]["nightly_audit"]
    with pytest.raises(ValueError, match="shedule"):
        Job.from_dict(job | {"shedule": job["schedule"]})
