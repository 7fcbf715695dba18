"""Writes the generated pages of docs/: `make docs`, or `python -m dispatch_audit.pipeline.pages`."""

from dispatch_audit.pipeline.pages.all_pages import PAGES
from dispatch_audit.pipeline.pages.markdown import DOCS

for name, page in PAGES.items():
    (DOCS / name).write_text(page(), encoding="utf-8")
