"""Commands in the documentation run, and print what stands below them.

`DOCS_REWRITE=1 pytest tests/docs/test_documented_output.py` writes their output anew.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/GETTING_STARTED.md", "docs/CI.md", "docs/CONVERT.md", "docs/DIAGNOSE.md")
REWRITE = "DOCS_REWRITE" in os.environ
BLOCK = re.compile(r"^```(bash|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A command may go on after a backslash; its output goes up to the next command.
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n?((?:(?!\$ ).*\n?)*)", re.MULTILINE)
LEFT_OUT = "..."
# What differs from machine to machine.
CIRCUMSTANCES = (
    (re.compile(r"^(Run     )[0-9a-f]{16}, on .*$", re.MULTILINE), r"\1KEY, on ENGINE"),
    (re.compile(r"^Took .*\n", re.MULTILINE), ""),
    (re.compile(r" +$", re.MULTILINE), ""),
)

pytestmark = pytest.mark.e2e


def shell(command: str, folder: Path) -> str:
    """What a command prints to stdout, in a folder that looks like a checkout; paths in it are relative."""
    programs = f"{folder / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    # Without Java, so that the engine is the same everywhere, and the fastest.
    env = {**os.environ, "PATH": programs, "JAVA_HOME": "/nonexistent", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.stderr == ""
    return done.stdout.replace(f"{folder}/", "")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "data").symlink_to(ROOT / "data")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    return tmp_path


def normal(text: str) -> str:
    for pattern, replacement in CIRCUMSTANCES:
        text = pattern.sub(replacement, text)
    return text.strip("\n")


def steps(page: str) -> Iterator[tuple[str, str | None]]:
    """The commands of a page in their order, each with its output; None where the page shows none."""
    for language, text in BLOCK.findall(page):
        if language == "console":
            yield from COMMAND.findall(text)
        elif page.startswith("# Getting started"):
            yield text, None


def matches(shown: str, printed: str) -> bool:
    parts = (re.escape(part) for part in normal(shown).split(LEFT_OUT))
    return re.fullmatch(r"[\s\S]*".join(parts), normal(printed)) is not None


@pytest.mark.parametrize("name", PAGES)
def test_commands_print_what_the_page_shows(name: str, checkout: Path) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    ran = [(command, shown, shell(command, checkout)) for command, shown in steps(page)]
    assert any(shown is not None for _, shown, _ in ran)
    differing = [(shown, printed) for _, shown, printed in ran if shown is not None and not matches(shown, printed)]
    if REWRITE:
        for command, shown, printed in ran:
            if (shown, printed) in differing:
                page = page.replace(f"$ {command}\n{shown}", f"$ {command}\n{re.sub(' +$', '', printed, flags=re.M)}")
        (ROOT / name).write_text(page, encoding="utf-8")
    assert differing == []
