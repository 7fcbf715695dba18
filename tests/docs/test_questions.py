"""docs/QUESTIONS.md says for each question where it is answered, and what it names is there."""

import ast
import re
from pathlib import Path

from cookbook_queries import ALL_RUNS, queries

from dispatch_audit.jobs.cli import app
from dispatch_audit.pipeline.contract.rules import RULES
from dispatch_audit.pipeline.tables.schemas import TABLES

ROOT = Path(__file__).resolve().parents[2]
# 22 was never given.
NUMBERS = [number for number in range(1, 30) if number != 22]
ROW = re.compile(r"^\| Q(\d+) \|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|$", re.MULTILINE)
NAMED = re.compile(r"`([^`]+)`")
# "Q3, Q16" and "Q8 to Q14".
CITED = re.compile(r"\bQ(\d+)(?: to Q(\d+))?")
NOT_YET = "not yet"

ROWS = {
    int(number): (question, tables, glance, query)
    for number, question, tables, glance, query in ROW.findall((ROOT / "docs" / "QUESTIONS.md").read_text())
}
BY_COMMAND = {number: row for number, row in ROWS.items() if row[1].strip() == "none"}
ANSWERED = {number: row for number, row in ROWS.items() if NOT_YET not in row[1] and number not in BY_COMMAND}


def columns_of(table: str) -> set[str]:
    return {column.name for column in TABLES[table].columns}


def is_there(name: str) -> bool:
    """Whether a name is a table, a column of a table after its name, or a rule."""
    table, _, column = name.partition(".")
    return name in RULES or (table in TABLES and (not column or column in columns_of(table)))


def docstrings(path: Path) -> list[str]:
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Module | ast.FunctionDef)]
    return [ast.get_docstring(node) or "" for node in nodes]


def cited_in_docstrings() -> dict[int, list[str]]:
    """The modules whose docstrings cite a question, by its number."""
    found: dict[int, list[str]] = {}
    for folder in ("jobs", "pipeline"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for first, last in CITED.findall(" ".join(docstrings(path))):
                for number in range(int(first), int(last or first) + 1):
                    found.setdefault(number, []).append(path.relative_to(ROOT).as_posix())
    return found


def test_every_question_has_one_row() -> None:
    lines = re.findall(r"^\| Q(\d+) \|", (ROOT / "docs" / "QUESTIONS.md").read_text(), re.MULTILINE)
    assert [int(number) for number in lines] == NUMBERS
    assert sorted(ROWS) == NUMBERS


def test_tables_columns_and_rules_that_answer_are_there() -> None:
    named = {number: NAMED.findall(tables) for number, (_, tables, _, _) in ANSWERED.items()}
    assert [number for number, names in named.items() if not names] == []
    assert [(number, name) for number, names in named.items() for name in names if not is_there(name)] == []


def test_commands_that_answer_are_there() -> None:
    found = (command.name or command.callback.__name__ for command in app.registered_commands if command.callback)
    commands = {name.replace("_", "-") for name in found}
    named = {name.split()[0] for _, _, glance, _ in (ANSWERED | BY_COMMAND).values() for name in NAMED.findall(glance)}
    assert "audit" in named
    assert named <= commands


def test_every_answer_has_a_query_in_the_cookbook() -> None:
    links = {number: re.findall(r"\[Q(\d+)\]\(COOKBOOK\.md#q(\d+)\)", query) for number, (*_, query) in ROWS.items()}
    assert links == {number: [(str(number), str(number))] if number in ANSWERED else [] for number in ROWS}
    assert {f"Q{number}" for number in ANSWERED} == queries().keys() - {ALL_RUNS}


def test_the_modules_that_answer_cite_the_question() -> None:
    cited = cited_in_docstrings()
    assert set(cited) <= set(ANSWERED | BY_COMMAND), cited
    # Of two runs, which their reader compares.
    assert set(ANSWERED | BY_COMMAND) - set(cited) <= {28}
