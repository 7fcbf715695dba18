"""The workflows, as far as they can be checked without GitHub."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

# Seconds by itself.
pytestmark = pytest.mark.heavy


ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(workflow: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = YAML(typ="safe").load(workflow)
    return parsed


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in read(workflow)["jobs"].values() for step in job["steps"]]


def shells(workflow: Path) -> list[str]:
    return [step["run"] for step in steps(workflow) if "run" in step]


def test_there_is_one_for_the_gate_one_to_copy_and_one_for_releases() -> None:
    assert [workflow.name for workflow in WORKFLOWS] == ["audit-traces.yml", "gate.yml", "release.yml"]


def test_they_are_what_github_calls_workflows() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run([*command, *map(str, WORKFLOWS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_major_version(workflow: Path) -> None:
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w.-]+/[\w./-]+@v\d+", action)] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_they_know_no_secret_and_ask_for_few_rights(workflow: Path) -> None:
    assert "secrets." not in workflow.read_text()
    assert read(workflow)["permissions"].pop("contents") == "read"
    # Names that others choose (of branches, titles, authors) are no part of a shell's text.
    assert not any("${{" in shell for shell in shells(workflow))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_their_shell_parses(workflow: Path) -> None:
    assert shells(workflow)
    for shell in shells(workflow):
        subprocess.run(["bash", "-n"], input=shell, text=True, check=True)


def test_the_gate_runs_what_a_checkout_runs() -> None:
    (gate,) = (workflow for workflow in WORKFLOWS if workflow.name == "gate.yml")
    assert "bash .ci/run" in shells(gate)
    assert (ROOT / ".ci" / "run").is_file()


def test_what_is_published_is_what_the_audit_wrote() -> None:
    (audit,) = (workflow for workflow in WORKFLOWS if workflow.name == "audit-traces.yml")
    written = dict(re.findall(r"--report (\w+)=(\S+)", "".join(shells(audit))))
    options = {name: value for step in steps(audit) for name, value in step.get("with", {}).items()}
    assert (options["report_paths"], options["sarif_file"]) == (written["junit"], written["sarif"])
    assert options["path"].split() == sorted(written.values(), reverse=True)


def test_the_workflow_to_copy_needs_no_java() -> None:
    (audit,) = (workflow for workflow in WORKFLOWS if workflow.name == "audit-traces.yml")
    shell = "".join(shells(audit))
    assert "--engine embedded" in shell
    assert "pip install '.[embedded]'" in shell
    assert not any("java" in step.get("uses", "") for step in steps(audit))


ACTION = ROOT / "action.yml"
TEMPLATE = ROOT / "templates" / "dispatch-audit.yml"


def schema_errors(schema: str, file: Path) -> str:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_the_action_and_the_template_are_what_their_systems_call_so(tmp_path: Path) -> None:
    assert schema_errors("vendor.github-actions", ACTION) == ""
    _, job = TEMPLATE.read_text().split("\n---\n")
    (tmp_path / "gitlab-ci.yml").write_text(job)
    assert schema_errors("vendor.gitlab-ci", tmp_path / "gitlab-ci.yml") == ""


@pytest.mark.e2e
def test_the_shell_of_the_action_audits(tmp_path: Path) -> None:
    action = read(ACTION)
    audit = action["runs"]["steps"][-1]
    assert not any("${{" in step.get("run", "") for step in action["runs"]["steps"])
    assert set(audit["env"].values()) == {f"${{{{ inputs.{name} }}}}" for name in action["inputs"]}
    given = {name: value.get("default", "") for name, value in action["inputs"].items()}
    given |= {"traces": f"{ROOT / 'data' / 'samples' / 'join-leave-4.0.8'}\n"}
    env = {name: given[value.split()[1].removeprefix("inputs.")] for name, value in audit["env"].items()}
    programs = tmp_path / "dispatch-audit"
    programs.mkdir()
    (programs / "bin").symlink_to(Path(sys.executable).parent)
    env |= {"PATH": os.environ["PATH"], "RUNNER_TEMP": str(tmp_path), "PYTHONPATH": str(ROOT), "HOME": str(Path.home())}
    done = subprocess.run(
        ["bash", "-e", "-c", audit["run"]], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("::error file=")
    assert {path.name for path in tmp_path.iterdir()} == {
        "audit-tables",
        "dispatch-audit",
        "dispatch-audit.sarif",
        "dispatch-audit.xml",
    }
