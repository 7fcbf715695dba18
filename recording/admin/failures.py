"""Warns once when the admin API stops answering for topics, and says once when it answers again, in one line each."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from dispatch_audit.pipeline.plural import count
from dispatch_audit.recording.admin.admin_api import AdminError


@dataclass
class Failures:
    """The topics and namespaces for which the API does not answer."""

    _failing: set[str] = field(default_factory=set)
    _began: dict[str, str] = field(default_factory=dict)
    _ended: list[str] = field(default_factory=list)

    def failed(self, name: str, error: AdminError) -> None:
        """Notes a request that failed."""
        if name not in self._failing:
            self._failing.add(name)
            self._began[name] = str(error)

    def answered(self, name: str) -> None:
        """Notes a request that was answered."""
        if name in self._failing:
            self._failing.remove(name)
            self._ended.append(name)

    def news(self) -> Iterator[str]:
        """Yields what is new since the last call, as lines for people."""
        if self._began:
            yield next(iter(self._began.values())) + _and_more(len(self._began))
        if self._ended:
            yield f"{self._ended[0]}: the admin API answers again{_and_more(len(self._ended))}"
        self._began.clear()
        self._ended.clear()


def _and_more(number: int) -> str:
    return f" (and of {count(number - 1, 'more topic')})" if number > 1 else ""
