"""All generated pages."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from dispatch_audit.pipeline.pages.contract import blocking_page, profiles_page, rules_page
from dispatch_audit.pipeline.pages.json_schemas import manifest_schema, row_schema
from dispatch_audit.pipeline.pages.settings import settings_page
from dispatch_audit.pipeline.pages.tables import tables_page

PAGES: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "PROFILES.md": profiles_page,
        "RULES.md": rules_page,
        "BLOCKING.md": blocking_page,
        "TABLES.md": tables_page,
        "CONFIGURATION.md": settings_page,
        "schema/trace-1.schema.json": manifest_schema,
        "schema/row-1.schema.json": row_schema,
    }
)
"""The function that returns the text of each page, by the page's name."""
