"""Each module has one name: `dispatch_audit.pipeline.audit`, although a checkout could import `pipeline` too.

That would load it twice: two copies of a class are two classes, and what is patched in one copy stays in the other.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LINKS = ("conf", "jobs", "pipeline", "recording", "udfs")
_ANY = "|".join(LINKS)
_IMPORTED = re.compile(rf"(?:^|[\"';])[ \t]*(?:import (?:{_ANY})\b|from (?:{_ANY})\b[.\w]* import\b)", re.MULTILINE)
_DOTTED = re.compile(rf"(?<![\w./-])({_ANY})\.([a-z]\w*)")


def short_names(text: str) -> Iterator[str]:
    """Imports and dotted names of modules that leave the name of the package out: in code, strings and prose."""
    for found in _IMPORTED.finditer(text):
        yield found[0]
    for found in _DOTTED.finditer(text):
        if any((ROOT / found[1] / f"{found[2]}{end}").exists() for end in (".py", "/__init__.py")):
            yield found[0]


def texts() -> Iterator[tuple[str, str]]:
    """Path and text of each file of the repository that holds or explains code."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.split("\0"):
        if name.endswith((".py", ".md", ".toml", ".yml", "Makefile")) and name != "tests/test_module_names.py":
            yield name, (ROOT / name).read_text(encoding="utf-8")


def test_every_module_is_named_with_the_package() -> None:
    assert {name: found for name, text in texts() if (found := list(short_names(text)))} == {}


@pytest.mark.parametrize(
    "text",
    [
        "import pipeline.audit",
        "    from jobs import cli",
        "from udfs.sticky_key_hash import HASHES",
        'main = "from jobs.cli import main; main()"',
        'monkeypatch.setattr("pipeline.audit.audit", None)',
        "# See `pipeline.audit`.",
        "python -m jobs.cli",
    ],
)
def test_a_name_without_the_package_would_be_found(text: str) -> None:
    assert list(short_names(text))
    assert not list(short_names(re.sub(rf"\b({_ANY})\b", r"dispatch_audit.\1", text)))


@pytest.mark.parametrize("text", ["pipeline/audit.py", "resources.jobs.nightly_audit", "from pipeline to report"])
def test_a_path_and_a_word_are_no_modules(text: str) -> None:
    assert not list(short_names(text))


@pytest.mark.parametrize("name", LINKS)
def test_the_package_has_a_link_to_each_folder(name: str) -> None:
    """A link from its own folder, so that it holds wherever the repository is cloned to."""
    assert (ROOT / "dispatch_audit" / name).readlink() == Path("..", name)
