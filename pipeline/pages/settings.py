"""The page about the settings of an audit: their defaults, and the comments of `conf/audit.toml`."""

import re
from collections.abc import Iterator

from dispatch_audit.pipeline.pages.markdown import ROOT, table

_HEAD = """\
# Configuration

<!-- Written by `make docs` from conf/audit.toml: edit that instead. -->

The settings of an audit and their defaults, from [conf/audit.toml](../conf/audit.toml). Copy those that you change into
a file of your own and pass it with `--config FILE`; a name that is not listed here is an error:

```toml
[blocking]
stall_threshold_ms = 5000
```

The settings are part of the key of a run: with other settings the same trace gives another run. What the broker was
configured with stands in the trace ([TRACE_FORMAT](TRACE_FORMAT.md)), and its defaults in the [profiles](PROFILES.md).
"""


def settings_page() -> str:
    """The text of docs/CONFIGURATION.md.

    Raises:
        AssertionError: a setting has no comment.
    """
    _, *sections = (ROOT / "conf" / "audit.toml").read_text(encoding="utf-8").split("\n[")
    return "\n".join([_HEAD, *(line for section in sections for line in _section(section))]).replace("\n\n\n", "\n\n")


def _section(text: str) -> Iterator[str]:
    name, _, lines = text.partition("]\n")
    yield from (f"## {name}", "")
    yield from table(["setting", "default", "meaning"], _settings(lines))
    yield ""


def _settings(lines: str) -> Iterator[list[str]]:
    comment: list[str] = []
    for line in lines.splitlines():
        if line.startswith("# "):
            comment.append(line[2:])
        elif setting := re.fullmatch(r"(\w+) = (.+)", line):
            assert comment, f"conf/audit.toml does not say what {setting[1]} means"
            yield [f"`{setting[1]}`", f"`{setting[2]}`", " ".join(comment)]
            comment = []
