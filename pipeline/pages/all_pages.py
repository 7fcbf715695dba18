"""All generated pages."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from dispatch_audit.pipeline.pages.contract import profiles_page, rules_page
from dispatch_audit.pipeline.pages.settings import settings_page
from dispatch_audit.pipeline.pages.tables import tables_page

PAGES: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "PROFILES.md": profiles_page,
        "RULES.md": rules_page,
        "TABLES.md": tables_page,
        "CONFIGURATION.md": settings_page,
    }
)
"""The function that returns the text of each page, by the page's name."""
