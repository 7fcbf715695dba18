"""The pages of docs/ that are written from code and settings are those that these make."""

import pytest

from dispatch_audit.pipeline.pages.all_pages import PAGES
from dispatch_audit.pipeline.pages.markdown import DOCS


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_up_to_date(name: str) -> None:
    written = (DOCS / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), "run `make docs`, and look at what changed"
