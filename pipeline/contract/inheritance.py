"""What a profile comes to, out of its file and of those that it extends.

A file of `conf/profiles/` says what its line of versions changes: values, entries of a table, and what falls away
(`without_rules`, `without_exceptions`, `without_settings`). Its dispatcher says which rules and exceptions there are.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeAlias

from pipeline.contract.exceptions import EXCEPTIONS, exceptions_of
from pipeline.contract.rules import RULES, rules_of
from pipeline.errors import DispatchAuditError

Said: TypeAlias = Mapping[str, Any]
"""A file as it stands."""

_OWN = ("extends", "from_version", "without_rules", "without_exceptions", "without_settings")


def resolved(name: str, files: Mapping[str, Said]) -> dict[str, Any]:
    """Everything that a profile says, its own and what it inherits, by the attributes of `Profile`.

    Args:
        name: of the profile.
        files: all of them by the names of their profiles.

    Raises:
        DispatchAuditError: the profile extends none that there is, or in the end itself, or drops what is not there.
    """
    whole: dict[str, Any] = {}
    without: dict[str, set[str]] = {"rules": set(), "exceptions": set()}
    for heir in reversed(_lineage(name, files)):
        said = files[heir]
        for key, value in said.items():
            if key not in _OWN:
                whole[key] = {**whole.get(key, {}), **value} if isinstance(value, Mapping) else value
        for key, known in (("rules", RULES), ("exceptions", EXCEPTIONS)):
            without[key] |= set(_dropped(heir, said, key, known))
        for setting in _dropped(heir, said, "settings", whole.get("settings", {})):
            del whole["settings"][setting]
    if "from_version" in files[name]:
        whole["from_version"] = files[name]["from_version"]
    dispatcher = whole.get("dispatcher")
    held_to = {} if dispatcher is None else {"rules": rules_of(dispatcher), "exceptions": exceptions_of(dispatcher)}
    kept = {key: tuple(known for known in every if known not in without[key]) for key, every in held_to.items()}
    return {**whole, **kept, "name": name}


def _lineage(name: str, files: Mapping[str, Said]) -> list[str]:
    """A profile, the one that it extends, the one that this one extends, and so on."""
    line = [name]
    while (parent := files[line[-1]].get("extends")) is not None:
        if parent not in files:
            raise DispatchAuditError(
                f"profile {line[-1]!r} extends {parent!r}, which there is not", f"extend one of: {', '.join(files)}"
            )
        if parent in line:
            raise DispatchAuditError(
                f"profile {name!r} extends itself: {' -> '.join([*line, parent])}", "let one of them extend none"
            )
        line.append(parent)
    return line


def _dropped(name: str, said: Said, what: str, known: Collection[str]) -> Iterable[str]:
    dropped: list[str] = said.get(f"without_{what}", [])
    if unknown := [item for item in dropped if item not in known]:
        raise DispatchAuditError(
            f"profile {name!r} is without {what} that there are not: {', '.join(unknown)}", f"correct without_{what}"
        )
    return dropped
