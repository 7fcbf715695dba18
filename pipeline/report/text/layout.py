"""Lines of the report: a label with a text beside it, wrapped to the width of the console."""

from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

WHOLE_LINES: Final = 1_000_000
"""The width of a console that breaks no sentence, for pipes and files: grep needs them whole."""
# Names may be longer than a narrow terminal is wide; a text keeps room for a word.
_TEXT_MIN = 20


@dataclass(frozen=True)
class Labelled:
    """A text whose lines begin in one column, with a label before the first of them.

    Attributes:
        label: may be empty.
        text: the text.
        column: where the text begins, counted from 0.
        indent: where the label begins.
        whole: whether the text is left in one line, so that a command can be copied.
    """

    label: Text | str
    text: Text | str
    column: int = 8
    indent: int = 0
    whole: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yields the lines."""
        text = self.text if isinstance(self.text, Text) else Text(self.text)
        width = WHOLE_LINES if self.whole else max(options.max_width - self.column, _TEXT_MIN)
        lead = Text(" " * self.indent).append_text(self.label if isinstance(self.label, Text) else Text(self.label))
        lead.pad_right(max(self.column - lead.cell_len, 0))
        for line in text.wrap(console, width, overflow="fold"):
            line.rstrip()
            yield Text(no_wrap=True, overflow="ignore", end="\n").append_text(lead).append_text(line)
            lead = Text(" " * self.column)
