"""Every citation in code and docs leads to a chapter, a section, a rule or a page that is in the repository."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MINE = Path(__file__).relative_to(ROOT).as_posix()
CONTRACT = ROOT / "docs" / "contract"
# Recordings and their oracles are data; a lock file has hashes, in which anything may stand.
NOT_TEXT = ("tests/data/", "data/samples/", "requirements", "uv.lock")
SECTION = r"\d{1,2}(?:\.\d{1,2})?"
# "contract 3.6", "contract 2.1 and 2.2", "contract 3.9 to 3.12, 6.5".
CITED = re.compile(rf"\bcontract ({SECTION}(?:(?:,| and| to|, and) {SECTION})*)")
FORMAT = re.compile(r'TRACE_FORMAT, "([^"]+)"')
PAGE = re.compile(r"\bdocs/([A-Z_]+\.md|contract/[\w-]+\.md)\b")
QUESTION = re.compile(r"\bQ([1-9]\d?)\b")
NUMBERED = re.compile(r"(?<![\w/#])([VEF])([1-9]\d?)(?![\w.])")


def texts() -> Iterator[tuple[str, str]]:
    """The files of the repository that people write, with their text."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        if name.endswith((".py", ".md", ".toml", ".txt", ".yml")) and not name.startswith(NOT_TEXT):
            yield name, (ROOT / name).read_text(encoding="utf-8")


TEXTS = dict(texts())


def headings(folder: Path) -> list[str]:
    return [
        line
        for page in folder.glob("*.md")
        for line in page.read_text(encoding="utf-8").splitlines()
        if line[:1] == "#"
    ]


def leading_nowhere(pattern: re.Pattern[str], known: set[str]) -> list[str]:
    return [
        f"{name}: {found[0]}"
        for name, text in TEXTS.items()
        for found in pattern.finditer(text)
        for number in re.findall(SECTION, found[1]) or [found[1]]
        if number not in known
    ]


def test_there_is_something_to_look_at() -> None:
    assert len(TEXTS) > 300
    assert sum(len(CITED.findall(text)) for text in TEXTS.values()) > 100


def test_sections_of_the_contract_are_there() -> None:
    numbers = {found[1] for line in headings(CONTRACT) if (found := re.match(rf"#+ ({SECTION})\b", line))}
    assert {"1", "2.1", "13"} <= numbers
    assert leading_nowhere(CITED, numbers) == []


def test_sections_of_the_trace_format_are_there() -> None:
    page = (ROOT / "docs" / "TRACE_FORMAT.md").read_text(encoding="utf-8")
    known = re.findall(r"^## ([^:(\n]+?)(?:[:(].*)?\s*$", page, flags=re.MULTILINE)
    cited = {(name, section) for name, text in TEXTS.items() for section in FORMAT.findall(text) if name != MINE}
    assert [(name, section) for name, section in sorted(cited) if section not in known] == []


def test_pages_are_there() -> None:
    cited = {(name, page) for name, text in TEXTS.items() for page in PAGE.findall(text)}
    assert [(name, page) for name, page in sorted(cited) if not (ROOT / "docs" / page).is_file()] == []


def test_links_between_pages_are_there() -> None:
    lost = []
    for name, text in TEXTS.items():
        if not name.endswith(".md"):
            continue
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if "://" not in target and not (ROOT / name).parent.joinpath(target).exists():
                lost.append(f"{name}: {target}")
    assert lost == []


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_anchors_are_there() -> None:
    lost, found = [], 0
    for name, text in TEXTS.items():
        if not name.endswith(".md"):
            continue
        for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", text):
            page = (ROOT / name).parent.joinpath(target) if target else ROOT / name
            found += 1
            if page.suffix == ".md" and anchor not in anchors(page):
                lost.append(f"{name}: {target}#{anchor}")
    assert found > 30
    assert lost == []


def test_questions_are_there() -> None:
    page = (ROOT / "docs" / "QUESTIONS.md").read_text(encoding="utf-8")
    known = set(re.findall(r"^\| Q(\d+) \|", page, flags=re.MULTILINE))
    assert leading_nowhere(QUESTION, known) == []


@pytest.mark.parametrize(
    ("letter", "page"),
    [
        ("V", "09-invariants-and-exceptions.md"),
        ("E", "09-invariants-and-exceptions.md"),
        ("F", "06-recently-joined.md"),
    ],
)
def test_invariants_exceptions_and_flaws_are_there(letter: str, page: str) -> None:
    known = set(re.findall(rf"^\| {letter}(\d+)\b", (CONTRACT / page).read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert len(known) > 10
    cited = {
        (name, number)
        for name, text in TEXTS.items()
        if name.startswith(("pipeline/", "docs/", "tests/replay/", "conf/", "README"))
        for kind, number in NUMBERED.findall(text)
        if kind == letter
    }
    assert [(name, number) for name, number in sorted(cited) if number not in known] == []


def test_nothing_leads_out_of_the_repository() -> None:
    outside = re.compile(r"\.\./shared|\b(?:SEMANTICS|OPERATORS|HOUSE|STYLE)(?:\.md| \d|,)|\bDESIGN\b")
    assert [name for name, text in TEXTS.items() if name != MINE and outside.search(text)] == []
