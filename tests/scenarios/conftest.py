"""The option of the scenario scripts; it is there when their folder is named: `pytest tests/scenarios --rewrite`."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        default=False,
        help="write into tests/scenarios/*.txt what the audit prints now; only commit what you understand",
    )
