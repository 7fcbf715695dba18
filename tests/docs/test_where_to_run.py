"""The files of docs/WHERE_TO_RUN.md parse, call what there is, and name the releases that an audit looks at."""

import ast
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from environments import DELTA_OF
from ruamel.yaml import YAML
from typer.main import get_command

from dispatch_audit.jobs.cli import app
from dispatch_audit.jobs.engines.releases import RELEASES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "WHERE_TO_RUN.md").read_text()
BLOCKS = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", PAGE, re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def of_yaml(kind: str) -> dict[str, Any]:
    parsed: list[dict[str, Any]] = [YAML(typ="safe").load(text) for text in blocks("yaml")]
    (found,) = (document for document in parsed if document["kind"] == kind)
    return found


def submitted() -> list[list[str]]:
    """The arguments of the job wherever the page shows them."""
    step = json.loads(blocks("json")[0])[0]["Args"]
    operator = of_yaml("ScheduledSparkApplication")["spec"]["template"]["arguments"]
    shell = [shlex.split(text) for text in blocks("bash") if "nightly_audit.py" in text]
    return [command[command.index("--") + 1 :] for command in (step, operator, *shell)]


def cron_job() -> list[str]:
    pod = of_yaml("CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
    arguments: list[str] = container["args"]
    return arguments


def test_audits_have_options_of_the_command() -> None:
    command_line: Any = get_command(app)
    audit = command_line.commands["audit"]
    for arguments in (*submitted(), cron_job()[1:]):
        parsed = audit.make_context("audit", arguments, resilient_parsing=False).params
        assert parsed["traces"]
        assert parsed["out"]
    assert len(submitted()) == 4


def test_programs_of_python_parse() -> None:
    assert len([ast.parse(program) for program in blocks("python")]) == 2


@pytest.mark.parametrize("minor", RELEASES)
def test_each_release_has_a_row_with_its_delta_lake_and_its_java(minor: str) -> None:
    release = RELEASES[minor]
    name, version = release.delta
    delta = rf"{version[:3]} \| `io.delta:{name}_{release.scala}:{version}`.*"
    row = rf"^\| {minor} \| {delta} \| {release.java_min} or later \|$"
    assert re.search(row, PAGE, re.MULTILINE)
    assert f"{minor}." in " ".join(DELTA_OF)


def test_the_releases_of_the_environments_are_named() -> None:
    assert f"({', '.join(DELTA_OF)})" in PAGE


def test_the_default_runtime_is_that_of_the_bundle() -> None:
    bundle = YAML(typ="safe").load(ROOT / "databricks.yml")
    (default,) = re.findall(r"^\| ([\d.]+) LTS \(the default\)", PAGE, re.MULTILINE)
    assert bundle["variables"]["spark_version"]["default"].startswith(f"{default}.x-")
