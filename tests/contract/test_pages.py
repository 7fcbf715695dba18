"""The pages of docs/ that are written from the specifications are those that the specifications make."""

import pytest

from dispatch_audit.pipeline.contract.pages import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_up_to_date(name: str) -> None:
    written = (DOCS / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), "run `make docs`, and look at what changed"
