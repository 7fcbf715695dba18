"""What a release is made of, as far as it can be checked without GitHub, Docker and Kubernetes."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
RECORDER = ROOT / "recorder"
COMPOSE = RECORDER / "deploy" / "docker-compose.yml"
VALUES = RECORDER / "deploy" / "values.yaml"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
RECORDING = (ROOT / "docs" / "RECORDING.md").read_text()
PREFIX = "dispatchAuditRecorder"


def yaml(path: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = YAML(typ="safe").load(path)
    return parsed


def project() -> dict[str, Any]:
    parsed: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return parsed


def shells() -> str:
    jobs = yaml(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    return "".join(step.get("run", "") for job in jobs.values() for step in job["steps"])


def test_the_tag_is_compared_with_lines_that_are_there() -> None:
    version = project()["project"]["version"]
    compared = re.findall(r'grep -qx "(.*)" (\S+)', shells())
    assert [file for _, file in compared] == ["pyproject.toml", "recorder/pom.xml"]
    for line, file in compared:
        expected = line.replace("${GITHUB_REF_NAME#v}", version).replace('\\"', '"')
        assert expected in (ROOT / file).read_text().splitlines()


def test_there_are_wheels_for_the_oldest_python_and_for_those_of_the_gate() -> None:
    workflows = ROOT / ".github" / "workflows"
    wheels = yaml(workflows / "release.yml")["jobs"]["wheel"]["strategy"]["matrix"]
    gate = yaml(workflows / "gate.yml")["jobs"]["gate"]["strategy"]["matrix"]
    assert {project()["project"]["requires-python"].removeprefix(">="), *gate["python"]} <= set(wheels["python"])
    assert wheels["machine"] == ["ubuntu-24.04", "ubuntu-24.04-arm"]


def test_the_script_that_tries_a_wheel_refuses_none() -> None:
    script = ROOT / ".ci" / "try-wheel"
    assert "bash .ci/try-wheel" in shells()
    refused = subprocess.run(["bash", script, "no-such.whl"], capture_output=True, text=True, check=False)
    assert refused.returncode != 0


def test_the_image_is_built_from_what_the_source_archive_holds() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*"
    let_in = {line.removeprefix("!") for line in lines if line.startswith("!")}
    archive = set(project()["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"])
    links = {link.name for link in (ROOT / "dispatch_audit").iterdir() if link.is_symlink()}
    needed = archive | links | {"README.md", "LICENSE", "pyproject.toml", "requirements/gate.lock"}
    assert {path for path in needed if not any((path + "/").startswith(one + "/") for one in let_in)} == set()
    assert {path for path in let_in if not (ROOT / path).exists()} == set()


def test_the_image_runs_the_audit_as_nobody_in_particular() -> None:
    assert re.findall(r"^USER (.+)$", DOCKERFILE, re.MULTILINE) == ["10001:10001"]
    assert re.findall(r"^ENTRYPOINT (.+)$", DOCKERFILE, re.MULTILINE) == ['["dispatch-audit"]']
    assert "dispatch-audit" in project()["project"]["scripts"]


def test_the_image_is_pinned_to_a_minor_release_of_a_supported_python() -> None:
    (tag,) = re.findall(r"^ARG PYTHON_IMAGE=python:(\d\.\d+)-slim-bookworm$", DOCKERFILE, re.MULTILINE)
    wheels = yaml(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["wheel"]["strategy"]["matrix"]
    assert tag in wheels["python"]
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["${PYTHON_IMAGE}"] * 2


@pytest.mark.heavy
def test_the_compose_file_is_one() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def settings_of(path: Path) -> dict[str, str]:
    """The settings that a file passes to brokers through the environment, by their names in broker.conf."""
    if path == COMPOSE:
        environment = yaml(path)["services"]["pulsar"]["environment"]
    else:
        environment = yaml(path)["broker"]["configData"]
    return {name.removeprefix("PULSAR_PREFIX_"): value for name, value in environment.items() if "PREFIX" in name}


def documented() -> set[str]:
    """The names in the table of settings."""
    table = RECORDING[RECORDING.index("| setting | default |") :].split("\n\n")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    return {f"{PREFIX}{name}" for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}


def test_the_page_names_the_settings_that_the_recorder_reads() -> None:
    source = (RECORDER / "src/main/java/dispatchaudit/recorder/Settings.java").read_text()
    read = re.findall(r'reader\.(?:text|flag|number|oneIn|pattern|columns)\("(\w+)"', source)
    assert documented() == {f"{PREFIX}{name}" for name in read}


@pytest.mark.parametrize("path", [COMPOSE, VALUES], ids=lambda path: path.name)
def test_the_examples_set_what_there_is_and_mount_what_they_name(path: Path) -> None:
    settings = settings_of(path)
    assert all(isinstance(value, str) for value in settings.values())
    of_recorder = {name for name in settings if name.startswith(PREFIX)}
    assert of_recorder <= documented()
    assert settings.keys() - of_recorder == {"brokerInterceptors", "brokerInterceptorsDirectory"}
    if path == COMPOSE:
        mounted = [volume.split(":")[1] for volume in yaml(path)["services"]["pulsar"]["volumes"]]
    else:
        mounted = [mount["mountPath"] for mount in yaml(path)["broker"]["extraVolumeMounts"]]
    assert sorted(mounted) == sorted([settings["brokerInterceptorsDirectory"], settings[f"{PREFIX}Directory"]])


def test_the_volumes_of_the_pods_are_those_that_are_mounted() -> None:
    broker = yaml(VALUES)["broker"]
    mounted = [mount["name"] for mount in broker["extraVolumeMounts"]]
    assert [volume["name"] for volume in broker["extraVolumes"]] == mounted
    limit = broker["extraVolumes"][1]["emptyDir"]["sizeLimit"]
    assert int(limit.removesuffix("Gi")) << 30 > int(settings_of(VALUES)[f"{PREFIX}DiskBytes"])


def test_the_examples_run_no_broker_that_the_page_warns_of() -> None:
    (warned,) = re.findall(r"^\*\*Not on (\S+), and better not on ([\d.]+)\*\*", RECORDING, re.MULTILINE)
    run = {yaml(COMPOSE)["services"]["pulsar"]["image"].split(":")[1], yaml(VALUES)["images"]["broker"]["tag"]}
    assert not run & {*warned}
