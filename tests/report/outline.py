"""A page as a browser would take it, without a browser."""

from html.parser import HTMLParser


class Outline(HTMLParser):
    """What a browser would make of a page: its elements, their attributes, and its text outside of scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self._in: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self._in.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._in and self._in.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "script" not in self._in and "style" not in self._in:
            self.text += data

    def values(self, attribute: str) -> list[str]:
        return [value for name, value in self.attributes if name == attribute]
